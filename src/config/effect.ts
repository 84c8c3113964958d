/** Keys that only count together with others: set where they have no effect, they are a mistake. */
import { strategyOf } from "../data/packingSettings.ts";
import { hasSwitch, recipeShown, recipesWith, switchKeys } from "../quant/index.ts";
import type { SettingKey, Settings } from "./schema.ts";
import { overrideQuantizes, quantizes } from "./stages.ts";

export interface EffectRule {
  readonly keys: readonly SettingKey[];
  /** The settings that decide it. */
  readonly reads: readonly SettingKey[];
  /** Where the keys have an effect, in words: "only with …". */
  readonly only: string;
  /** Why the keys have no effect with these settings, or undefined where they have one. */
  readonly without: (settings: Settings) => string | undefined;
}

export function hasValidation(settings: Settings): boolean {
  return settings.dataset_type === "synthetic" || settings.eval_dataset_path !== "" || settings.validation_fraction > 0;
}

const packingStrategy = ({ packing, dataset_type: datasetType }: Settings) => strategyOf({ packing, datasetType });
const strategyNotes = { concat: "cuts one stream wherever a sequence ends", none: "has one document in a sequence" };

const quantizesAnything = (settings: Settings): boolean => quantizes(settings) || overrideQuantizes(settings);

export const effectRules: readonly EffectRule[] = [
  {
    keys: ["override_model_config"],
    reads: ["model_name"],
    only: "with a model_name",
    without: ({ model_name }) => (model_name === "custom" ? "no model_name sets the sizes" : undefined),
  },
  {
    keys: ["rope_factor", "rope_low_freq_factor", "rope_high_freq_factor", "original_max_position_embeddings"],
    reads: ["rope_type", "model_name"],
    only: "with rope_type=llama3.1",
    without: ({ rope_type }) => (rope_type === "default" ? "rope_type=default scales no frequency" : undefined),
  },
  {
    keys: ["dataset_path", "eval_dataset_path", "validation_fraction", "tokenizer_path"],
    reads: ["dataset_type"],
    only: "with data from files",
    without: ({ dataset_type }) =>
      dataset_type === "synthetic"
        ? "dataset_type=synthetic reads no files and has validation of its own; dataset_type=text reads them"
        : undefined,
  },
  {
    keys: ["packing", "reset_attention_mask", "max_segments_per_seq"],
    reads: ["dataset_type"],
    only: "with text or other documents",
    without: ({ dataset_type }) =>
      dataset_type === "synthetic" ? "dataset_type=synthetic has no documents" : undefined,
  },
  {
    keys: ["reset_attention_mask"],
    reads: ["packing", "dataset_type"],
    only: "where a sequence can have several documents",
    without: (settings) =>
      packingStrategy(settings) === "none" ? "packing=none has one document in a sequence" : undefined,
  },
  {
    keys: ["max_segments_per_seq"],
    reads: ["packing", "dataset_type"],
    only: "with packing=best_fit",
    without: (settings) => {
      const strategy = packingStrategy(settings);
      return strategy === "best_fit" ? undefined : `packing=${strategy} ${strategyNotes[strategy]}`;
    },
  },
  {
    keys: ["train_data_columns", "dataset_bad_records", "tokenize_workers"],
    reads: ["dataset_type"],
    only: "with dataset_type=text, completion or chat",
    without: ({ dataset_type }) =>
      /^(tokens|megatron|synthetic)$/.test(dataset_type)
        ? `dataset_type=${dataset_type} has no records and nothing to tokenise`
        : undefined,
  },
  {
    keys: ["dataset_token_dtype"],
    reads: ["dataset_type"],
    only: "with dataset_type=tokens",
    without: ({ dataset_type }) =>
      dataset_type === "tokens" ? undefined : `dataset_type=${dataset_type} needs no word of how ids are stored`,
  },
  {
    keys: ["validation_fraction"],
    reads: ["eval_dataset_path"],
    only: "without eval_dataset_path",
    without: ({ eval_dataset_path }) =>
      eval_dataset_path !== "" ? "eval_dataset_path gives the validation text" : undefined,
  },
  {
    keys: ["warmup_steps_fraction"],
    reads: ["warmup_steps"],
    only: "without warmup_steps",
    without: ({ warmup_steps }) =>
      warmup_steps === -1 ? undefined : `warmup_steps=${warmup_steps} says how long warm-up is`,
  },
  {
    keys: ["learning_rate_final_fraction", "lr_after_schedule"],
    reads: ["lr_schedule_type"],
    only: "with a schedule that is not constant",
    without: ({ lr_schedule_type }) =>
      lr_schedule_type === "constant" ? "lr_schedule_type=constant stays at its peak" : undefined,
  },
  {
    keys: ["learning_rate_schedule_steps"],
    reads: ["lr_schedule_type", "warmup_steps_fraction", "warmup_steps"],
    only: "with a schedule that has a warm-up by its fraction, or an end",
    without: ({ lr_schedule_type, warmup_steps_fraction, warmup_steps }) =>
      lr_schedule_type === "constant" && (warmup_steps_fraction === 0 || warmup_steps !== -1)
        ? "lr_schedule_type=constant has no end"
        : undefined,
  },
  {
    keys: ["wsd_decay_steps_fraction"],
    reads: ["lr_schedule_type"],
    only: "with lr_schedule_type=wsd",
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
    reads: ["dtype"],
    only: "with dtype=float16",
    without: ({ dtype }) =>
      dtype === "float16" ? undefined : `only dtype=float16 scales the loss; ${dtype} has the range of float32`,
  },
  {
    keys: ["init_weights_seed"],
    reads: ["load_parameters_path", "load_full_state_path"],
    only: "without load_parameters_path and load_full_state_path",
    without: ({ load_parameters_path, load_full_state_path }) =>
      load_parameters_path !== ""
        ? "load_parameters_path gives the first weights"
        : load_full_state_path !== ""
          ? "load_full_state_path gives the first weights"
          : undefined,
  },
  {
    keys: ["skip_first_n_steps_for_profiler", "profiler_steps"],
    reads: ["profiler"],
    only: "with profiler=trace",
    without: ({ profiler }) => (profiler === "" ? "profiler is empty: no step is traced" : undefined),
  },
  {
    keys: ["telemetry_gradient_cosine"],
    reads: ["telemetry_period", "quantization", "precision_overrides"],
    only: "with a telemetry_period, and a quantization or precision_overrides that quantize",
    without: (settings) =>
      settings.telemetry_period === 0
        ? "telemetry_period=0 measures no step"
        : quantizesAnything(settings)
          ? undefined
          : `quantization=${recipeShown(settings.quantization)} computes the gradients of BF16`,
  },
  {
    keys: ["checkpoint_keep_period"],
    reads: ["max_num_checkpoints_to_keep"],
    only: "with a max_num_checkpoints_to_keep",
    without: ({ max_num_checkpoints_to_keep: keep }) =>
      keep === -1 ? "max_num_checkpoints_to_keep=-1 keeps all" : undefined,
  },
  {
    keys: ["eval_interval", "eval_steps", "eval_precision", "keep_best_checkpoint"],
    reads: ["dataset_type", "eval_dataset_path", "validation_fraction"],
    only: "with validation data",
    without: (settings) =>
      hasValidation(settings) ? undefined : "there is no validation text: set eval_dataset_path or validation_fraction",
  },
  {
    keys: ["checkpoint_period", "max_num_checkpoints_to_keep", "checkpoint_keep_period", "keep_best_checkpoint"],
    reads: ["enable_checkpointing"],
    only: "with enable_checkpointing=true",
    without: ({ enable_checkpointing }) => (enable_checkpointing ? undefined : "enable_checkpointing=false saves none"),
  },
  {
    keys: ["precision_policy", "first_layers_bf16", "last_layers_bf16"],
    reads: ["quantization"],
    only: "with a quantization that quantizes",
    without: (settings) =>
      quantizes(settings) ? undefined : `quantization=${recipeShown(settings.quantization)} quantizes nothing`,
  },
  {
    keys: ["rounding_seed", "packed_residuals"],
    reads: ["quantization", "precision_overrides"],
    only: "with a quantization or precision_overrides that quantize",
    without: (settings) =>
      quantizesAnything(settings) ? undefined : `quantization=${recipeShown(settings.quantization)} quantizes nothing`,
  },
  {
    keys: ["precision_switch_step"],
    reads: ["quantization", "precision_overrides"],
    only: "where something is quantized",
    without: (settings) => (quantizesAnything(settings) ? undefined : "nothing is quantized"),
  },
  {
    keys: ["precision_switch_gemms", "precision_switch_to"],
    reads: ["precision_switch_step"],
    only: "with a precision_switch_step",
    without: ({ precision_switch_step: step }) =>
      step === "never" ? "precision_switch_step=never switches nothing" : undefined,
  },
  ...switchKeys.map(
    (key): EffectRule => ({
      keys: [key],
      reads: ["quantization"],
      get only() {
        return `with a quantization that has this switch: ${recipesWith(key).join(", ")}`;
      },
      without: ({ quantization }) =>
        hasSwitch(quantization, key)
          ? undefined
          : `quantization=${recipeShown(quantization)} has no such switch; these have: ${recipesWith(key).join(", ")}`,
    }),
  ),
  {
    keys: ["four_over_six_error"],
    reads: ["four_over_six"],
    only: "with four_over_six that chooses",
    without: ({ four_over_six: operands }) =>
      operands === "default" || operands === "none" ? "four_over_six chooses for no operand" : undefined,
  },
];

/** Why `key` has no effect with these settings, or undefined where it has one. */
export function noEffect(key: SettingKey, settings: Settings): string | undefined {
  for (const rule of effectRules) {
    const reason = rule.keys.includes(key) ? rule.without(settings) : undefined;
    if (reason !== undefined) return reason;
  }
  return undefined;
}
