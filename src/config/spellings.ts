/**
 * Other names of keys, and other words for values: MaxText's and Megatron Bridge's. A name that means exactly a key is a
 * row of `aliases`; one whose value has to be translated, or that sets more than one key, is a row of `translations`.
 */
import { nearest } from "../base/nearest.ts";
import type { ValueKind } from "./fields.ts";
import type { SettingKey } from "./schema.ts";

export const aliases: Readonly<Record<string, SettingKey>> = {
  base_emb_dim: "emb_dim",
  base_mlp_dim: "mlp_dim",
  base_num_decoder_layers: "num_decoder_layers",
  base_num_query_heads: "num_query_heads",
  base_num_kv_heads: "num_kv_heads",
  rope_max_timescale: "rope_theta",
  normalization_layer_epsilon: "norm_eps",
  cosine_learning_rate_final_fraction: "learning_rate_final_fraction",
  train_iters: "steps",
  lr_warmup_iters: "warmup_steps",
  loss_scale_window: "loss_scale_growth_interval",
  num_layers_at_start_in_bf16: "first_layers_bf16",
  num_layers_at_end_in_bf16: "last_layers_bf16",
  reset_position_ids: "reset_attention_mask",
};

export interface Translation {
  readonly kind: ValueKind;
  /** What a value may be: "must be …". */
  readonly rule: string;
  readonly doc: string;
  /** The settings a value stands for; undefined where it is no value, or what is wrong with it. */
  readonly toSettings: (value: never) => Readonly<Record<string, unknown>> | string | undefined;
}

/** Recipes of Megatron Bridge that are more than a name of ours. */
const megatronRecipes: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  fp16_mixed: { dtype: "float16", quantization: "none" },
  nemotron_h_bf16_with_fp8_current_scaling_mixed: {
    quantization: "bf16_with_fp8_current_scaling_mixed",
    first_layers_bf16: 2,
    last_layers_bf16: 2,
  },
  nanov2_bf16_with_fp8_current_scaling_mixed: {
    quantization: "bf16_with_fp8_subchannel_scaling_mixed",
    first_layers_bf16: 2,
    last_layers_bf16: 2,
  },
  nemotron_3_super_bf16_with_nvfp4_mixed: { quantization: "bf16_with_nvfp4_mixed", last_layers_bf16: 14 },
};
const plainMegatronRecipes = [
  "bf16_mixed",
  "bf16_with_fp8_delayed_scaling_mixed",
  "bf16_with_fp8_current_scaling_mixed",
  "bf16_with_fp8_subchannel_scaling_mixed",
  "bf16_with_mxfp8_mixed",
  "bf16_with_nvfp4_mixed",
];

/** TransformerEngine's switches of NVFP4, which turn something off. */
const disabled = (off: Readonly<Record<string, string>>, on: Readonly<Record<string, string>>): Translation => {
  const [[key, value] = []] = Object.entries(off);
  return {
    kind: "boolean",
    rule: "true or false",
    doc: `TransformerEngine's: true is ${key}=${value}`,
    toSettings: (value: boolean) => (value ? off : on),
  };
};

export const translations: Readonly<Record<string, Translation>> = {
  disable_rht: disabled({ rht: "false" }, { rht: "true" }),
  disable_stochastic_rounding: disabled({ stochastic_rounding: "false" }, { stochastic_rounding: "true" }),
  disable_2d_quantization: disabled({ weight_scaling: "1d" }, { weight_scaling: "2d" }),
  mock: {
    kind: "boolean",
    rule: "true or false",
    doc: "Megatron Bridge's: true is dataset_type=synthetic, false is dataset_type=text",
    toSettings: (value: boolean) => ({ dataset_type: value ? "synthetic" : "text" }),
  },
  lr_decay_iters: {
    kind: "integer",
    rule: "an integer at least 1",
    doc: "Megatron Bridge's: learning_rate_schedule_steps, with lr_after_schedule=final",
    toSettings: (value: number) =>
      value < 1 ? undefined : { learning_rate_schedule_steps: value, lr_after_schedule: "final" },
  },
  mixed_precision_recipe: {
    kind: "string",
    rule: `one of ${[...plainMegatronRecipes, ...Object.keys(megatronRecipes)].join(", ")}`,
    doc: "Megatron Bridge's: quantization, dtype, and blocks that stay in BF16, by the name of a recipe",
    toSettings: (value: string) => {
      const name = value.replaceAll("-", "_");
      if (/^fp16_with_/.test(name)) return "recipes compute in BF16 here; take the one that begins with bf16_with";
      if (Object.hasOwn(megatronRecipes, name)) return { dtype: "bfloat16", ...megatronRecipes[name] };
      return plainMegatronRecipes.includes(name) ? { dtype: "bfloat16", quantization: name } : undefined;
    },
  },
};

/** What other programs write for a value of ours that means exactly the same. */
export const sameValues: Readonly<Partial<Record<SettingKey, Readonly<Record<string, string>>>>> = {
  quantization: { "": "none" },
  model_name: { default: "custom" },
  packing: { True: "best_fit", true: "best_fit", False: "none", false: "none" },
  reset_attention_mask: { True: "true", False: "false" },
  ...Object.fromEntries(
    ["rht", "stochastic_rounding", "row_scaled_activation", "power_of_two_scales"].map((key) => [
      key,
      { True: "true", False: "false" },
    ]),
  ),
};

/** What may be meant by a value that is none. */
const otherValues: Readonly<Partial<Record<SettingKey, Readonly<Record<string, string>>>>> = {
  dtype: { bf16: "bfloat16", fp16: "float16", half: "float16", fp32: "float32", float: "float32" },
};

/** The choice that `value` probably means, or undefined. */
export function nearestChoice(key: SettingKey, value: string, choices: readonly string[]): string | undefined {
  const meant = otherValues[key]?.[value.toLowerCase()];
  return meant !== undefined && choices.includes(meant) ? meant : nearest(value, choices);
}
