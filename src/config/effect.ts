/** Keys that only count together with others: set where they have no effect, they are a mistake. */
import type { SettingKey, Settings } from "./schema.ts";
import { quantizes } from "./stages.ts";

interface EffectRule {
  readonly keys: readonly SettingKey[];
  /** Why the keys have no effect with these settings, or undefined where they have one. */
  readonly without: (settings: Settings) => string | undefined;
}

export function hasValidation(settings: Settings): boolean {
  return settings.dataset_type === "synthetic" || settings.eval_dataset_path !== "" || settings.validation_fraction > 0;
}

const rules: readonly EffectRule[] = [
  {
    keys: ["override_model_config"],
    without: ({ model_name }) => (model_name === "custom" ? "no model_name sets the sizes" : undefined),
  },
  {
    keys: ["dataset_path", "eval_dataset_path", "validation_fraction", "tokenizer_path"],
    without: ({ dataset_type }) =>
      dataset_type === "synthetic" ? "dataset_type=synthetic reads no text and has validation of its own" : undefined,
  },
  {
    keys: ["validation_fraction"],
    without: ({ eval_dataset_path }) =>
      eval_dataset_path !== "" ? "eval_dataset_path gives the validation text" : undefined,
  },
  {
    keys: ["eval_interval", "eval_steps"],
    without: (settings) =>
      hasValidation(settings) ? undefined : "there is no validation text: set eval_dataset_path or validation_fraction",
  },
  {
    keys: ["learning_rate_final_fraction"],
    without: ({ lr_schedule_type }) =>
      lr_schedule_type === "constant" ? "lr_schedule_type=constant stays at its peak" : undefined,
  },
  {
    keys: ["learning_rate_schedule_steps"],
    without: ({ lr_schedule_type, warmup_steps_fraction }) =>
      lr_schedule_type === "constant" && warmup_steps_fraction === 0
        ? "lr_schedule_type=constant without warm-up has no end"
        : undefined,
  },
  {
    keys: ["wsd_decay_steps_fraction"],
    without: ({ lr_schedule_type }) =>
      lr_schedule_type === "wsd" ? undefined : `it belongs to lr_schedule_type=wsd, not ${lr_schedule_type}`,
  },
  {
    keys: [
      "initial_loss_scale",
      "min_loss_scale",
      "loss_scale_growth_factor",
      "loss_scale_growth_interval",
      "loss_scale_backoff_factor",
    ],
    without: ({ dtype }) =>
      dtype === "float16" ? undefined : `only dtype=float16 scales the loss; ${dtype} has the range of float32`,
  },
  {
    keys: ["checkpoint_period", "max_num_checkpoints_to_keep"],
    without: ({ enable_checkpointing }) => (enable_checkpointing ? undefined : "enable_checkpointing=false saves none"),
  },
  {
    keys: ["precision_policy", "first_layers_bf16", "last_layers_bf16", "rounding_seed"],
    without: (settings) =>
      quantizes(settings) ? undefined : `quantization=${settings.quantization} quantizes nothing`,
  },
];

/** Why `key` has no effect with these settings, or undefined where it has one. */
export function noEffect(key: SettingKey, settings: Settings): string | undefined {
  for (const rule of rules) {
    const reason = rule.keys.includes(key) ? rule.without(settings) : undefined;
    if (reason !== undefined) return reason;
  }
  return undefined;
}
