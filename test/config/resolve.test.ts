import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { UserError } from "../../src/base/errors.ts";
import { llamaConfig, precisionPlan, resolve, withTokenizerVocab } from "../../src/config/index.ts";
import { flopsPerToken } from "../../src/metrics/index.ts";
import { learningRate } from "../../src/optim/index.ts";
import { demo, llamaTiny, presetByName, presets } from "../../src/presets/index.ts";

const text = { dataset_path: "books" };
const code = (run: () => unknown) => {
  try {
    run();
  } catch (error) {
    expect(error).toBeInstanceOf(UserError);
    return (error as UserError).message;
  }
  throw new Error("expected a UserError");
};

describe("resolve", () => {
  it("takes defaults, then the preset, then what the user set", () => {
    expect(resolve({}, text).optimizer.learningRate).toBe(1e-3);
    expect(resolve({ ...text, learning_rate: 0.5 }).optimizer.learningRate).toBe(0.5);
    expect(resolve({ ...text, learning_rate: 0.5 }, { learning_rate: "0.25" }).optimizer.learningRate).toBe(0.25);
  });

  it("groups keys under their names in code, and freezes all of it", () => {
    const config = resolve(llamaTiny(), { ...text, quantization: "nvfp4" });
    expect(config.model).toMatchObject({ embDim: 64, numDecoderLayers: 2, numKvHeads: 2, logitsViaEmbedding: true });
    expect(config.data).toMatchObject({ datasetPath: "books", maxTargetLength: 128, perDeviceBatchSize: 8 });
    expect(config.run).toMatchObject({ initWeightsSeed: 0, maxNumCheckpointsToKeep: 3 });
    expect(Object.isFrozen(config)).toBe(true);
    expect(() => Object.assign(config.model, { embDim: 1 })).toThrow(TypeError);
    expect(() => Object.assign(config.optimizer.schedule, { peak: 1 })).toThrow(TypeError);
    expect(() => Object.assign(config.keys, { steps: 1 })).toThrow(TypeError);
  });

  it.each([
    ["1e-4", 1e-4],
    ["5e-5", 5e-5],
    ["2E-5", 2e-5],
    ["0.001", 0.001],
    [".5", 0.5],
    ["1", 1],
    [1e-4, 1e-4],
  ])("reads learning_rate=%s as a number", (value, expected) => {
    expect(resolve({}, { ...text, learning_rate: value }).optimizer.learningRate).toBe(expected);
  });

  it.each([
    ["1_000", 1000],
    ["1e3", 1000],
    ["12_345", 12345],
    [7, 7],
  ])("reads steps=%s as an integer", (value, expected) => {
    expect(resolve({}, { ...text, steps: value }).run.steps).toBe(expected);
  });

  it.each([
    ["learning_rate", "fast", "learning_rate=fast: must be a number above 0 and at most 10"],
    ["learning_rate", "0", "learning_rate=0: must be a number above 0 and at most 10 (optimizer: Peak learning rate"],
    ["learning_rate", "-1e-4", "must be a number above 0"],
    ["learning_rate", "0x1", "learning_rate=0x1: must be a number"],
    ["learning_rate", "1e-4f", "must be a number"],
    ["learning_rate", "", "learning_rate=: must be a number"],
    ["learning_rate", "NaN", "must be a number"],
    ["learning_rate", "Infinity", "must be a number"],
    ["learning_rate", "1e400", "must be a number"],
    ["learning_rate", true, "learning_rate=true: must be a number"],
    ["learning_rate", null, "learning_rate=null: must be a number"],
    ["learning_rate", ["1e-4"], 'learning_rate=["1e-4"]: must be a number'],
    ["steps", "1_", "must be an integer at least 1"],
    ["steps", "1__0", "must be an integer"],
    ["steps", "1.5", "steps=1.5: must be an integer at least 1"],
    ["steps", "0", "steps=0: must be an integer at least 1 (run: Training steps)"],
    ["head_dim", "0", "head_dim=0: must be an integer of 1 or more, or -1"],
    ["head_dim", "-2", "or -1"],
    ["validation_fraction", "1", "at least 0 and below 1"],
    ["tokenize_workers", "3000", "an integer from 0 to 64, or -1"],
    ["adam_b2", "1", "must be a number at least 0 and below 1"],
    ["enable_checkpointing", "TRUE", "enable_checkpointing=TRUE: must be true or false (run: Save checkpoints"],
    ["enable_checkpointing", "yes", "must be true or false"],
    ["lr_schedule_type", "cosin", "must be one of constant, linear, cosine, wsd; did you mean cosine? (optimizer:"],
    ["dtype", "bf16", "did you mean bfloat16? (compute:"],
    ["mock", "maybe", "mock=maybe: must be true or false"],
    ["lr_decay_iters", "0", "lr_decay_iters=0: must be an integer at least 1"],
    ["enable_checkpointing", "1", "enable_checkpointing=1: must be true or false"],
    ["enable_checkpointing", 1, "must be true or false"],
    ["dtype", "fp32", "dtype=fp32: must be one of bfloat16, float16, float32"],
    ["profiler", "nsys", "nsys look inside XLA and the driver, which is not built"],
    ["quantization", "nvfp5", 'quantization=nvfp5: unknown recipe "nvfp5". Did you mean "nvfp4"?'],
    ["run_name", "a/b", "run_name=a/b: must be letters, digits, _ . -, beginning with a letter or digit"],
    // These are the folder of all runs and the one above it.
    ["run_name", ".", "run_name=.: must be letters"],
    ["run_name", "..", "run_name=..: must be letters"],
    ["run_name", "-x", "run_name=-x: must be letters"],
    ["dataset_path", 3, "dataset_path=3: must be text"],
    ["data_shuffle_seed", "4294967296", "at least 0 and at most 4294967295"],
  ])("refuses %s=%s", (key, value, message) => {
    expect(code(() => resolve({}, { ...text, [key]: value }))).toContain(message);
  });

  it.each([
    ["learningrate", "did you mean learning_rate? (optimizer: Peak learning rate"],
    ["learning-rate", "did you mean learning_rate?"],
    ["--learning_rate", "did you mean learning_rate?"],
    ["LEARNING_RATE", "did you mean learning_rate?"],
    ["data.learning_rate", "did you mean learning_rate? (optimizer"],
    ["data.learning_rate", "without a section"],
    ["num-epochs", "did you mean steps? (run"],
    ["lr", "did you mean learning_rate?"],
    ["hidden_size", "did you mean emb_dim? (model"],
    ["num_decoder_layer", "did you mean num_decoder_layers?"],
    ["base_emb_dimm", "did you mean base_emb_dim? (model"],
    ["toString", "`halfbyte explain` lists the keys"],
    ["qwertyuiop", "`halfbyte explain` lists the keys"],
  ])("refuses the unknown key %s with what was meant", (key, message) => {
    const said = code(() => resolve({}, { ...text, [key]: "1" }));
    expect(said).toContain(`unknown key "${key}"`);
    expect(said).toContain(message);
  });

  it("takes MaxText's base_ spellings, but not both", () => {
    expect(resolve({}, { ...text, base_emb_dim: "128" }).model.embDim).toBe(128);
    expect(code(() => resolve({}, { ...text, base_emb_dim: "128", emb_dim: "64" }))).toContain(
      "base_emb_dim=128 and emb_dim=64 say different things of the same setting, emb_dim: keep one",
    );
  });

  it.each(["", "a", "7", "nvfp4-20250101.b_c"])("takes the run name %j", (name) => {
    expect(resolve({}, { ...text, run_name: name }).run.runName).toBe(name);
  });

  it("derives what is left to other keys", () => {
    const config = resolve({}, { ...text, emb_dim: 96, num_query_heads: 6, num_kv_heads: 3, steps: 40 });
    expect(config.model.headDim).toBe(16);
    expect(config.model.vocabSize).toBe(257);
    expect(config.optimizer.learningRateScheduleSteps).toBe(40);
    const { schedule } = config.optimizer;
    expect(schedule).toMatchObject({ peak: 1e-3, warmupSteps: 4, decay: { start: 4, end: 40, style: "cosine" } });
    // Warm-up of 4: the first step already learns, with a quarter of the peak.
    expect([1, 2, 4].map((n) => learningRate(schedule, n))).toEqual([2.5e-4, 5e-4, 1e-3]);
    expect(resolve({}, { dataset_type: "synthetic" }).model.vocabSize).toBe(256);
  });

  it("leaves vocab_size to a tokenizer that is read later", () => {
    const config = resolve({}, { ...text, tokenizer_path: "books-tokenizer" });
    expect(config.model.vocabSize).toBe(-1);
    expect(withTokenizerVocab(config, 4096).model.vocabSize).toBe(4096);
    expect(withTokenizerVocab(config, 4096).keys.vocab_size).toBe(4096);
    const quantized = resolve({}, { ...text, tokenizer_path: "books-tokenizer", quantization: "nvfp4" });
    expect(withTokenizerVocab(quantized, 4096).notes).toEqual(quantized.notes);
    const set = resolve({}, { ...text, tokenizer_path: "books-tokenizer", vocab_size: 5000 });
    expect(withTokenizerVocab(set, 4096)).toBe(set);
  });

  it.each([
    [{ emb_dim: 100, num_query_heads: 3, num_kv_heads: 1 }, "emb_dim=100 is no multiple of num_query_heads=3"],
    [{ num_query_heads: 4, num_kv_heads: 3 }, "num_query_heads=4 is no multiple of num_kv_heads=3"],
    [{ head_dim: 15 }, "head_dim=15 is odd"],
    [{ dataset_path: "" }, "dataset_path is missing"],
    [{ steps: 10, learning_rate_schedule_steps: 200 }, "warm-up takes 20 steps"],
    [
      { lr_schedule_type: "wsd", warmup_steps_fraction: 0.6, wsd_decay_steps_fraction: 0.6 },
      "longer than the schedule",
    ],
    [{ dtype: "float32", quantization: "nvfp4" }, "quantization=nvfp4 with dtype=float32"],
    [{ dtype: "float32", quantization: "bf16" }, "quantization=bf16 with dtype=float32"],
    [{ dtype: "float16", quantization: "nvfp4" }, "quantization=nvfp4 with dtype=float16: recipes compute in BF16"],
    [{ dtype: "float16", min_loss_scale: 131072 }, "initial_loss_scale=65536 is below min_loss_scale=131072"],
    [{ quantization: "nvfp4", num_decoder_layers: 1 }, "would quantize nothing: of 1 blocks"],
    [{ quantization: "nvfp4", first_layers_bf16: 2, last_layers_bf16: 2 }, "the first 2 and the last 2 stay in BF16"],
  ])("refuses %o", (overrides, message) => {
    expect(code(() => resolve({}, { ...text, ...overrides }))).toContain(message);
  });

  it.each([
    [{ precision_policy: "mlp_only" }, "precision_policy=mlp_only has no effect: quantization=none quantizes nothing"],
    [{ quantization: "bf16", rounding_seed: 1 }, "rounding_seed=1 has no effect"],
    [{ last_layers_bf16: 0 }, "last_layers_bf16=0 has no effect"],
    [{ profiler_steps: 3 }, "profiler_steps=3 has no effect: profiler is empty: no step is traced"],
    [{ initial_loss_scale: 1024 }, "initial_loss_scale=1024 has no effect: only dtype=float16 scales the loss"],
    [{ dtype: "float32", loss_scale_window: 9 }, "loss_scale_window=9 has no effect: only dtype=float16"],
    [{ dataset_type: "synthetic", dataset_path: "books" }, "dataset_path=books has no effect: dataset_type=synthetic"],
    [{ eval_dataset_path: "x", validation_fraction: 0.1 }, "validation_fraction=0.1 has no effect"],
    [
      { dataset_type: "synthetic", packing: "best_fit" },
      "packing=best_fit has no effect: dataset_type=synthetic has no doc",
    ],
    [{ max_segments_per_seq: 4 }, "max_segments_per_seq=4 has no effect: packing=concat cuts one stream"],
    [{ packing: "none", reset_attention_mask: "true" }, "packing=none has one document in a sequence"],
    [{ eval_interval: 10 }, "eval_interval=10 has no effect: there is no validation text"],
    [{ lr_schedule_type: "constant", learning_rate_final_fraction: 0.1 }, "stays at its peak"],
    [{ wsd_decay_steps_fraction: 0.1 }, "belongs to lr_schedule_type=wsd"],
    [{ enable_checkpointing: false, checkpoint_period: 5 }, "enable_checkpointing=false saves none"],
    [{ override_model_config: true }, "no model_name sets the sizes"],
    [
      { lr_schedule_type: "constant", warmup_steps_fraction: 0, learning_rate_schedule_steps: 5 },
      "learning_rate_schedule_steps=5 has no effect",
    ],
  ])("refuses what has no effect: %o", (overrides, message) => {
    expect(code(() => resolve({}, { ...text, ...overrides }))).toContain(message);
  });

  it("drops what has no effect from a preset, silently", () => {
    const preset = { ...text, quantization: "nvfp4", precision_policy: "mlp_only", eval_interval: 5 } as const;
    const config = resolve(preset, { quantization: "none" });
    expect(config.keys).not.toHaveProperty("precision_policy");
    expect(config.keys).not.toHaveProperty("eval_interval");
    expect(config.keys).toHaveProperty("quantization", "none");
  });

  it("sets the sizes a model_name stands for, and changes them only when told to", () => {
    const named = resolve({ ...text, emb_dim: 999 }, { model_name: "llama-tiny" });
    expect(named.model).toMatchObject({ embDim: 64, modelName: "llama-tiny" });
    const overrides = { ...text, model_name: "llama-tiny", emb_dim: 128 };
    expect(code(() => resolve({}, overrides))).toContain("add override_model_config=true");
    const changed = resolve({}, { ...overrides, override_model_config: true });
    expect(changed.model).toMatchObject({ embDim: 128, mlpDim: 192 });
    expect(resolve(changed.keys)).toEqual({ ...changed, derived: [] });
  });
});

describe("precisionPlan", () => {
  const plan = (overrides: Record<string, unknown>) => precisionPlan(resolve({}, { ...text, ...overrides }));

  it.each([
    [{}, "none", "all_linear", 0, 0],
    [{ quantization: "bf16_mixed" }, "bf16_mixed", "all_linear", 0, 0],
    [{ quantization: "nvfp4" }, "nvfp4", "all_linear", 0, 1],
    [{ quantization: "nvfp4", num_decoder_layers: 20 }, "nvfp4", "all_linear", 0, 3],
    [{ quantization: "nvfp4", last_layers_bf16: 0, first_layers_bf16: 1 }, "nvfp4", "all_linear", 1, 0],
    [{ quantization: "te_nvfp4" }, "te_nvfp4", "mlp_only", 0, 0],
    [{ quantization: "te_nvfp4", precision_policy: "all_linear" }, "te_nvfp4", "all_linear", 0, 0],
  ])("of %o", (overrides, name, policy, firstLayersBf16, lastLayersBf16) => {
    expect(plan(overrides)).toMatchObject({ recipe: { name }, policy, firstLayersBf16, lastLayersBf16 });
  });

  it("is told in the resolved keys, and in notes", () => {
    const config = resolve({}, { ...text, quantization: "nvfp4" });
    expect(config.keys).toMatchObject({ precision_policy: "all_linear", first_layers_bf16: 0, last_layers_bf16: 1 });
    expect(config.notes.join("\n")).toContain("keeps the last 1 of 4 blocks in BF16");
    expect(resolve({}, { ...text, quantization: "te_nvfp4" }).notes.join("\n")).toContain("MaxText");
    expect(resolve({}, text).notes).toEqual([]);
  });
});

describe("attention", () => {
  it("says which attention runs where a kernel is named, and refuses what means something else", () => {
    const { notes, keys } = resolve({}, { ...text, attention: "cudnn_flash_te" });
    expect(notes).toEqual([expect.stringMatching(/^attention=cudnn_flash_te: Halfbyte's tiled causal attention/)]);
    expect(keys.attention).toBe("cudnn_flash_te");
    expect(code(() => resolve({}, { ...text, attention: "paged" }))).toMatch(
      /^attention=paged: paged attention serves/,
    );
    expect(code(() => resolve({}, { ...text, attention: "fast" }))).toMatch(/attention=fast: must be one of/);
  });
});

describe("notes", () => {
  it("say that a schedule ends before the run", () => {
    const config = resolve({}, { ...text, steps: 100, learning_rate_schedule_steps: 50 });
    expect(config.notes).toEqual(["after step 50 (learning_rate_schedule_steps) the learning rate is 0 to the end"]);
  });
});

describe("llamaConfig", () => {
  it("has the model's sizes in the model's terms", () => {
    expect(llamaConfig(resolve(llamaTiny(), { ...text, dtype: "float32" }))).toEqual({
      numLayers: 2,
      embDim: 64,
      mlpDim: 192,
      numHeads: 4,
      numKvHeads: 2,
      headDim: 16,
      vocabSize: 257,
      ropeTheta: 10000,
      normEps: 1e-5,
      tieEmbeddings: true,
      dtype: "float32",
    });
  });
});

describe("a resolved configuration", () => {
  const overrides = fc.record(
    {
      dataset_type: fc.constantFrom("text", "synthetic"),
      lr_schedule_type: fc.constantFrom("constant", "linear", "cosine", "wsd"),
      quantization: fc.constantFrom("none", "bf16", "nvfp4", "te_nvfp4", "te_nvfp4_no_rht", "bf16_with_nvfp4_mixed"),
      enable_checkpointing: fc.boolean(),
      steps: fc.integer({ min: 1, max: 10_000 }),
      learning_rate: fc.double({ min: 1e-9, max: 10, noNaN: true }),
      num_decoder_layers: fc.integer({ min: 2, max: 100 }),
      validation_fraction: fc.constantFrom(0, 0.1),
    },
    { requiredKeys: [] },
  );

  it("resolves to itself from its keys, also through JSON", () => {
    fc.assert(
      fc.property(overrides, (given) => {
        const config = resolve({ ...text, ...(given as object) });
        const same = { ...config, notes: expect.any(Array), derived: [] };
        expect(resolve(config.keys)).toEqual(same);
        expect(resolve(JSON.parse(JSON.stringify(config.keys)))).toEqual(same);
        const strings = Object.fromEntries(Object.entries(config.keys).map(([key, value]) => [key, String(value)]));
        expect(resolve({}, strings)).toEqual(same);
      }),
    );
  });
});

describe("presets", () => {
  it.each(Object.keys(presets))("%s resolves, in every precision", (name) => {
    for (const quantization of ["none", "nvfp4", "te_nvfp4"]) {
      const config = resolve(presetByName(name), { ...text, dataset_type: "text", quantization });
      expect(config.model.embDim % 16).toBe(0);
      expect(config.model.mlpDim % 16).toBe(0);
    }
  });

  it("are found by name, with the nearest where there is none", () => {
    expect(presetByName("demo")).toEqual(demo());
    expect(code(() => presetByName("lama-tiny"))).toContain('did you mean "llama-tiny"?');
    expect(code(() => presetByName("constructor"))).toContain("known are llama-tiny, llama3-8b, ");
  });
});

describe("the demo", () => {
  it("costs what its comment says", () => {
    const config = resolve(demo(), text);
    const { data, run } = config;
    const perToken = flopsPerToken(llamaConfig(config), data.maxTargetLength);
    const total = perToken * data.perDeviceBatchSize * data.maxTargetLength * run.steps;
    expect(perToken / 1e6).toBeCloseTo(25.6, 1);
    expect(total).toBeLessThan(2.6e13);
  });
});
