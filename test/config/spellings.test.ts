/** Keys and values as MaxText and Megatron Bridge write them, and mistakes told together. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { UserError } from "../../src/base/errors.ts";
import { foreignKeys, knownKey, llamaConfig, resolve, settableNames } from "../../src/config/index.ts";
import { learningRate } from "../../src/optim/index.ts";
import { llama3_8b } from "../../src/presets/index.ts";
import { countParameters } from "../../src/train/plan.ts";

const synthetic = { dataset_type: "synthetic" };
const refusal = (overrides: Record<string, unknown>): string => {
  try {
    resolve({}, overrides);
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error("expected a refusal");
};

describe("MaxText's spellings", () => {
  it("read Python's booleans and quotes", () => {
    const { run, compute, model } = resolve(llama3_8b(), {
      enable_checkpointing: "False",
      override_model_config: "True",
      base_num_decoder_layers: "2",
      remat_policy: "'minimal_with_context_and_quantization'",
      quantization: '"te_nvfp4"',
      run_name: "'a'",
    });
    expect(run).toMatchObject({ enableCheckpointing: false, runName: "a" });
    expect(compute).toMatchObject({
      rematPolicy: "minimal_with_context_and_quantization",
      quantization: "te_nvfp4",
      precisionPolicy: "mlp_only",
    });
    expect(model).toMatchObject({ modelName: "llama3-8b", numDecoderLayers: 2, embDim: 4096 });
    expect(resolve({}, { ...synthetic, learning_rate: '"0.001"' }).optimizer.learningRate).toBe(1e-3);
  });

  it("name the same settings", () => {
    const config = resolve(
      {},
      {
        ...synthetic,
        quantization: "",
        model_name: "default",
        rope_max_timescale: 500,
        normalization_layer_epsilon: "1e-6",
        cosine_learning_rate_final_fraction: 0.2,
      },
    );
    expect(config.keys).toMatchObject({
      quantization: "none",
      model_name: "custom",
      rope_theta: 500,
      norm_eps: 1e-6,
      learning_rate_final_fraction: 0.2,
    });
  });

  it("name the same packing: MaxText's switch, and Megatron's of positions with that of the mask", () => {
    const packed = (overrides: Record<string, unknown>) => resolve({}, { dataset_path: "books", ...overrides }).data;
    expect(packed({})).toMatchObject({ packing: "concat", resetAttentionMask: "false", maxSegmentsPerSeq: -1 });
    for (const dataset_type of ["completion", "chat"]) {
      expect(packed({ dataset_type })).toMatchObject({ packing: "best_fit", resetAttentionMask: "true" });
      expect(packed({ dataset_type, packing: "concat" })).toMatchObject({ resetAttentionMask: "true" });
    }
    expect(packed({ packing: "True" })).toMatchObject({ packing: "best_fit", resetAttentionMask: "true" });
    expect(packed({ packing: "false" })).toMatchObject({ packing: "none" });
    expect(packed({ reset_position_ids: "True" })).toMatchObject({ packing: "concat", resetAttentionMask: "true" });
  });

  it("are accepted where they ask for nothing, and said so", () => {
    const { notes } = resolve(
      {},
      {
        ...synthetic,
        ici_data_parallelism: "1",
        dcn_data_parallelism: "-1",
        ici_fsdp_parallelism: 1,
        weight_dtype: "'float32'",
        hf_path: "",
      },
    );
    expect(notes).toEqual([
      "accepted, for they ask for nothing else than what is done: ici_data_parallelism=1, dcn_data_parallelism=-1, ici_fsdp_parallelism=1, weight_dtype='float32', hf_path=",
    ]);
  });

  it.each([
    [{ ici_fsdp_parallelism: "8" }, "ici_fsdp_parallelism=8: a run uses one device so far: set 1 or leave it out"],
    [{ weight_dtype: "bfloat16" }, "weight_dtype=bfloat16: weights are kept in float32"],
    [{ opt_type: "muon" }, "opt_type=muon: AdamW is the only optimizer"],
    [{ hf_path: "parquet" }, "dataset_type=text dataset_path=PATH"],
    [
      { dataset_type: "tfds" },
      "dataset_type=tfds: must be one of text, completion, chat, tokens, megatron, synthetic (data:",
    ],
    [{ hardware: "tpu" }, "hardware=tpu: must be one of any, cpu, gpu"],
    [
      { ici_fsdp_paralelism: "1" },
      'unknown key "ici_fsdp_paralelism"; did you mean ici_fsdp_parallelism? (a key of MaxText)',
    ],
  ])("are refused by name with what to do: %o", (overrides, message) => {
    expect(refusal({ ...synthetic, ...overrides })).toContain(message);
  });
});

describe("names of other programs", () => {
  it.each([
    ["micro_batch_size", "per_device_batch_size"],
    ["global_batch_size", "per_device_batch_size", "times gradient_accumulation_steps"],
    ["batch_size", "per_device_batch_size"],
    ["seq_length", "max_target_length"],
    ["lr", "learning_rate"],
    ["min_lr", "learning_rate_final_fraction", "min_lr divided by learning_rate"],
    ["optimizer.weight-decay", "adam_weight_decay", "without a section"],
    ["clip_grad", "gradient_clipping_threshold"],
    ["max_steps", "steps"],
    ["Training.Local_Batch_Size", "per_device_batch_size"],
  ])("name ours: %s", (name, key, remark = "") => {
    const message = refusal({ ...synthetic, [name]: 1 });
    expect(message).toContain(`unknown key "${name}"; did you mean ${key}? (`);
    expect(message).toContain(remark);
  });

  it.each(["fp8_gpu", "fp8_full", "nanoo_fp8", "aqt_fp8"])("of recipes are no other recipe: %s", (name) => {
    const message = refusal({ ...synthetic, quantization: name });
    expect(message).toMatch(new RegExp(`^quantization=${name}: .*(not built|no recipe here is its equal)`));
    expect(message).toContain("fp8_current_scaling scales each tensor by its own largest value");
    expect(message).not.toContain("mxfp8");
  });

  it.each(["int8", "int4", "intmp", "w4a8"])("of integer formats say that there are none: %s", (name) => {
    expect(refusal({ ...synthetic, quantization: name })).toContain(
      `quantization=${name}: integer formats are not built`,
    );
  });

  it("stand in messages on what they set", () => {
    const recipe = "mixed_precision_recipe=nemotron_3_super_bf16_with_nvfp4_mixed";
    expect(refusal({ ...synthetic, [recipe.split("=")[0]!]: recipe.split("=")[1], num_decoder_layers: 4 })).toBe(
      `last_layers_bf16 must be a whole number from 0 to 4 (the blocks); got 14 (last_layers_bf16=14 is from ${recipe})`,
    );
    expect(refusal({ ...synthetic, train_iters: 5, warmup_steps: 10 })).toMatch(
      /do not fit in 5; .* \(steps=5 is from train_iters=5\)$/,
    );
    expect(refusal({ ...synthetic, steps: 5, warmup_steps: 10 })).not.toContain(" is from ");
  });
});

describe("profiler=trace", () => {
  it("needs a step to trace after those it leaves out", () => {
    const trace = { ...synthetic, profiler: "trace", steps: 4 };
    expect(refusal({ ...trace, skip_first_n_steps_for_profiler: 20 })).toBe(
      "skip_first_n_steps_for_profiler=20 leaves none of steps=4 to trace: what is left out and at least one step must lie within steps; lower it, or raise steps",
    );
    expect(refusal({ ...trace, skip_first_n_steps_for_profiler: 4 })).toContain("leaves none of steps=4");
    expect(resolve({}, { ...trace, skip_first_n_steps_for_profiler: 3 }).run.profiler).toBe("trace");
    expect(resolve({}, { ...synthetic, steps: 1 }).run.profiler).toBe("");
  });
});

describe("keys that are only known from MaxText", () => {
  it("are no settings", () => {
    expect(Object.keys(foreignKeys).filter((name) => knownKey(name) !== undefined)).toEqual([]);
  });
});

describe("Megatron Bridge's spellings", () => {
  it("convert the call of its low-precision recipes", () => {
    const config = resolve(llama3_8b(), {
      mixed_precision_recipe: "bf16_with_nvfp4_mixed",
      train_iters: "100",
      lr_warmup_iters: "10",
      lr_decay_iters: "90",
      mock: "True",
    });
    expect(config.keys).toMatchObject({
      quantization: "bf16_with_nvfp4_mixed",
      dtype: "bfloat16",
      steps: 100,
      warmup_steps: 10,
      learning_rate_schedule_steps: 90,
      lr_after_schedule: "final",
      dataset_type: "synthetic",
    });
    expect(config.keys).not.toHaveProperty("warmup_steps_fraction");
    const { schedule } = config.optimizer;
    expect(schedule).toEqual({
      peak: 3e-4,
      warmupSteps: 10,
      decay: { style: "cosine", start: 10, end: 90, final: 3e-4 * 0.1, after: 3e-4 * 0.1 },
    });
    expect([5, 10, 90, 95, 100].map((step) => learningRate(schedule, step))).toEqual([
      1.5e-4,
      3e-4,
      3e-4 * 0.1,
      3e-4 * 0.1,
      3e-4 * 0.1,
    ]);
    expect(resolve(config.keys).optimizer.schedule).toEqual(schedule);
  });

  it("warm up for exactly the number of steps", () => {
    for (let warmup = 0; warmup <= 49; warmup++) {
      const { schedule } = resolve({}, { ...synthetic, steps: 49, lr_warmup_iters: warmup }).optimizer;
      expect(schedule.warmupSteps).toBe(warmup);
    }
  });

  it("let the later of two ways to say warm-up count, and refuse both at once", () => {
    const saved = resolve({}, { ...synthetic, lr_warmup_iters: 7 }).keys;
    expect(
      resolve(saved, { warmup_steps_fraction: 0.5, steps: 10, learning_rate_schedule_steps: 10 }).optimizer.schedule
        .warmupSteps,
    ).toBe(5);
    expect(refusal({ ...synthetic, lr_warmup_iters: 7, warmup_steps_fraction: 0.5 })).toBe(
      "warmup_steps_fraction=0.5 has no effect: warmup_steps=7 says how long warm-up is",
    );
  });

  it.each([
    ["bf16-mixed", { quantization: "bf16_mixed", dtype: "bfloat16" }],
    ["fp16_mixed", { quantization: "none", dtype: "float16" }],
    ["nemotron_3_super_bf16_with_nvfp4_mixed", { quantization: "bf16_with_nvfp4_mixed", last_layers_bf16: 14 }],
  ])("mixed_precision_recipe=%s", (mixed_precision_recipe, keys) => {
    expect(resolve({}, { ...synthetic, num_decoder_layers: 20, mixed_precision_recipe }).keys).toMatchObject(keys);
  });

  it.each([
    [{ mixed_precision_recipe: "fp16_with_mxfp8_mixed" }, "take the one that begins with bf16_with"],
    [{ mixed_precision_recipe: "nvfp4_mixd" }, "must be one of bf16_mixed, "],
    [
      { mixed_precision_recipe: "bf16_mixed", quantization: "nvfp4" },
      "mixed_precision_recipe=bf16_mixed and quantization=nvfp4 say different things of the same setting, quantization",
    ],
    [{ mock: "true", dataset_type: "text" }, "mock=true and dataset_type=text say different things"],
    [{ train_iters: "5", steps: "6" }, "train_iters=5 and steps=6 say different things of the same setting, steps"],
    [{ lr_warmup_iters: 200, lr_decay_iters: 100 }, "200 steps of warm-up and 0 of decay do not fit in 100"],
  ])("refused: %o", (overrides, message) => {
    expect(refusal({ ...("dataset_type" in overrides ? {} : synthetic), ...overrides })).toContain(message);
  });

  it("may say the same twice", () => {
    expect(resolve({}, { mock: true, dataset_type: "synthetic", train_iters: 5, steps: 5 }).run.steps).toBe(5);
  });
});

describe("mistakes", () => {
  it("are told together, and what follows from a mistake is not told", () => {
    expect(
      refusal({
        datasetpath: "books",
        learning_rate: "fast",
        num_query_heads: 3,
        steps: 10,
        ici_tensor_parallelism: 2,
        checkpoint_period: 5,
        enable_checkpointing: false,
        quantization: "nvfp5",
        first_layers_bf16: 9,
      }),
    ).toBe(
      [
        "7 things are wrong:",
        '  unknown key "datasetpath"; did you mean dataset_path? (data: Training data: a file, a folder or a pattern (.txt, .md, .jsonl, .parquet; also .gz and .zst), or several as PATH,WEIGHT;PATH,WEIGHT)',
        "  learning_rate=fast: must be a number above 0 and at most 10 (optimizer: Peak learning rate of AdamW)",
        "  ici_tensor_parallelism=2: a run uses one device so far: set 1 or leave it out",
        '  quantization=nvfp5: unknown recipe "nvfp5". Did you mean "nvfp4"?',
        "  checkpoint_period=5 has no effect: enable_checkpointing=false saves none",
        "  emb_dim=256 is no multiple of num_query_heads=3: change one, or set head_dim",
        "  num_query_heads=3 is no multiple of num_kv_heads=4: each KV head serves equally many heads",
      ].join("\n"),
    );
  });

  it("are all the user's, whatever is written", () => {
    const word = fc.constantFrom(
      "1",
      "0",
      "-1",
      "True",
      "'x'",
      "",
      "1e-4",
      "cosine",
      "wsd",
      "nvfp4",
      "text",
      "float16",
      "16",
    );
    const value = fc.oneof(
      word,
      fc.string(),
      fc.double(),
      fc.integer(),
      fc.boolean(),
      fc.constant(null),
      fc.array(word),
    );
    const name = fc.oneof({ weight: 9, arbitrary: fc.constantFrom(...settableNames()) }, fc.string());
    const written = fc.dictionary(name, value, { maxKeys: 8 });
    fc.assert(
      fc.property(written, written, written, (preset, file, overrides) => {
        try {
          const config = resolve(preset as object, overrides, { file: { name: "f", settings: file }, draft: true });
          expect(resolve(config.keys, {}, { draft: true }).keys).toEqual(config.keys);
        } catch (error) {
          expect(error).toBeInstanceOf(UserError);
        }
      }),
      { numRuns: 400 },
    );
    // Mistakes are the rule above; of single keys many are right.
    for (const key of settableNames()) {
      for (const one of fc.sample(value, 20)) {
        try {
          const config = resolve({ dataset_type: "synthetic" }, { [key]: one });
          expect(resolve(config.keys).keys).toEqual(config.keys);
        } catch (error) {
          expect(error).toBeInstanceOf(UserError);
        }
      }
    }
  });

  it("of a file are told with its name, effects by what it says itself", () => {
    const file = {
      name: "mine.json",
      settings: { "optimizer.steps": 5, lr_schedule_type: "cosin", mock: true, dataset_path: "x" },
    };
    expect(() => resolve({}, { learning_rate: "fast" }, { file })).toThrow(
      /^4 things are wrong:\n {2}in mine\.json: unknown key "optimizer\.steps"; did you mean steps\? \(run: Training steps\) Keys are written without a section\n {2}in mine\.json: lr_schedule_type=cosin: .*did you mean cosine\?.*\n {2}in mine\.json: dataset_path=x has no effect: .*\n {2}learning_rate=fast: /,
    );
    const saved = resolve({}, { ...synthetic, quantization: "nvfp4", precision_policy: "mlp_only" }).keys;
    const reused = resolve({}, { quantization: "none" }, { file: { name: "config.json", settings: saved } });
    expect(reused.keys).not.toHaveProperty("precision_policy");
  });
});

describe("Llama's published sizes", () => {
  it.each([
    ["llama3-8b", 8_030_261_248],
    ["llama3-70b", 70_553_706_496],
    ["llama3.1-8b", 8_030_261_248],
    ["llama3.1-70b", 70_553_706_496],
    ["llama3.1-405b", 405_853_388_800],
  ])("%s has %i parameters", (model_name, parameters) => {
    const config = llamaConfig(resolve({}, { ...synthetic, model_name }));
    expect(countParameters(config)).toBe(parameters);
    expect(config).toMatchObject({
      ropeTheta: 500000,
      vocabSize: 128256,
      normEps: 1e-5,
      tieEmbeddings: false,
      headDim: 128,
      numKvHeads: 8,
    });
    expect(config.ropeScaling).toEqual(
      model_name.startsWith("llama3.1")
        ? { kind: "llama3", factor: 8, lowFreqFactor: 1, highFreqFactor: 4, originalMaxPosition: 8192 }
        : undefined,
    );
  });

  it("change only with override_model_config, every one named that would", () => {
    expect(() =>
      resolve({}, { ...synthetic, model_name: "llama3-8b", base_emb_dim: 64, vocab_size: 300, head_dim: 128 }),
    ).toThrow(
      "base_emb_dim=64, vocab_size=300: model_name=llama3-8b sets the model's sizes; add override_model_config=true",
    );
    const scaled = resolve({}, { ...synthetic, rope_type: "llama3.1", rope_factor: 32 });
    expect(llamaConfig(scaled).ropeScaling).toMatchObject({ factor: 32 });
    expect(refusal({ ...synthetic, rope_factor: 32 })).toContain("rope_factor=32 has no effect: rope_type=default");
    expect(refusal({ ...synthetic, rope_type: "llama3.1", rope_high_freq_factor: 1 })).toContain(
      "must be above rope_low_freq_factor=1",
    );
    expect(refusal({ ...synthetic, vocab_size: 1 })).toContain(
      "vocab_size=1 is too small for dataset_type=synthetic: every token has four different successors",
    );
  });
});
