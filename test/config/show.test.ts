import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import {
  differences,
  explainKey,
  explainKeys,
  fields,
  refuseChangedRun,
  resolve,
  resumable,
  showConfig,
} from "../../src/config/index.ts";
import { llamaTiny } from "../../src/presets/index.ts";

const config = (overrides: Record<string, unknown> = {}) =>
  resolve(llamaTiny(), { dataset_path: "books", ...overrides });

describe("showConfig", () => {
  it("prints every key with an effect, by groups, as it can be typed", () => {
    expect(showConfig(config({ quantization: "nvfp4", last_layers_bf16: 0 }))).toMatchInlineSnapshot(`
      "# model
      model_name=custom
      emb_dim=64
      mlp_dim=192
      num_decoder_layers=2
      num_query_heads=4
      num_kv_heads=2
      head_dim=16
      vocab_size=257
      make_vocab_size_divisible_by=1
      rope_theta=10000
      rope_type=default
      norm_eps=0.00001
      logits_via_embedding=true
      # data
      dataset_type=text
      dataset_path=books
      eval_dataset_path=
      train_data_columns=
      dataset_bad_records=stop
      tokenize_workers=-1
      validation_fraction=0
      tokenizer_path=byte
      packing=concat
      reset_attention_mask=false
      max_target_length=128
      per_device_batch_size=8
      # optimizer
      learning_rate=0.003
      lr_schedule_type=cosine
      warmup_steps_fraction=0.1
      warmup_steps=-1
      learning_rate_final_fraction=0.1
      learning_rate_schedule_steps=200
      lr_after_schedule=zero
      adam_b1=0.9
      adam_b2=0.95
      adam_eps=1e-8
      adam_weight_decay=0.1
      gradient_clipping_threshold=1
      gradient_accumulation_steps=1
      z_loss_multiplier=0
      # run
      run_name=
      base_output_directory=runs
      hardware=any
      steps=200
      enable_checkpointing=true
      checkpoint_period=100
      max_num_checkpoints_to_keep=3
      checkpoint_keep_period=-1
      load_parameters_path=
      load_full_state_path=
      init_weights_seed=0
      data_shuffle_seed=0
      rounding_seed=0
      max_skipped_steps=10
      telemetry_period=0
      profiler=
      log_period=1
      # compute
      dtype=bfloat16
      quantization=nvfp4
      rht=true
      stochastic_rounding=true
      weight_scaling=2d
      scale_gain=1
      scale_bound=448
      row_scaled_activation=false
      four_over_six=none
      precision_policy=all_linear
      first_layers_bf16=0
      last_layers_bf16=0
      precision_overrides=
      precision_switch_step=never
      packed_residuals=false
      remat_policy=none
      scan_layers=false
      native_kernels=auto
      attention=autoselected
      "
    `);
    const lines = showConfig(config())
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("#"));
    const typed = Object.fromEntries(
      lines.map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]),
    );
    expect(resolve({}, typed)).toEqual({ ...config(), derived: [] });
  });
});

describe("explain", () => {
  it("tells meaning, range, default and other spellings", () => {
    expect(explainKey("learning_rate")).toMatchInlineSnapshot(`
      "learning_rate (optimizer; read by src/optim)
        Peak learning rate of AdamW.
        Must be a number above 0 and at most 10. Default: 0.001.
      "
    `);
    expect(explainKey("base_emb_dim")).toContain("Also written base_emb_dim");
    expect(explainKey("enable_checkpointing")).toContain("Must be true or false. Default: true");
    expect(explainKey("learnig_rate")).toBeUndefined();
  });

  it("lists every key, each with a sentence", () => {
    const lines = explainKeys()
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("#"));
    expect(lines).toHaveLength(fields().size);
    for (const field of fields().values()) {
      expect(field.doc.length, field.key).toBeGreaterThan(5);
      expect(field.rule, field.key).not.toBe("");
      expect(field.accepts(field.defaultValue), field.key).toBe(true);
    }
  });
});

describe("the documentation", () => {
  it("lists the keys that may change when a run goes on", () => {
    const text = readFileSync(new URL("../../docs/checkpoints.md", import.meta.url), "utf8");
    const [, section] = /^### What may change\n([\s\S]*?)^Everything else/m.exec(text)!;
    const rows = [...section!.matchAll(/^\| ((?:`\w+`(?:, )?)+) \| (.*) \|$/gm)].map(([, keys, why]) => ({
      keys: [...keys!.matchAll(/`(\w+)`/g)].map(([, key]) => key),
      why,
    }));
    expect(rows).toEqual(resumable.map(({ keys, why }) => ({ keys: [...keys], why })));
  });
});

describe("differences", () => {
  it("are listed by key, and only some may lie between a run and its resumption", () => {
    const before = config({ learning_rate_schedule_steps: 200 }).keys;
    const longer = config({ steps: 400, learning_rate_schedule_steps: 200, log_period: 10, run_name: "x" }).keys;
    expect(differences(before, longer).map(({ key }) => key)).toEqual(["run_name", "steps", "log_period"]);
    expect(() => refuseChangedRun(before, longer, "runs/x")).not.toThrow();
    const other = config({ learning_rate: 1, quantization: "nvfp4", learning_rate_schedule_steps: 200 }).keys;
    expect(() => refuseChangedRun(before, other, "runs/x")).toThrow(
      /^runs\/x was started with other settings:\n {2}learning_rate: 0.003 → 1\n[\s\S]*quantization: none → nvfp4\n[\s\S]*another run_name; load_full_state_path=runs\/x begins a run of other settings with its whole state$/,
    );
  });
});
