/** What is said of a key that does not exist. */
import { UserError } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";
import { foreignKeys } from "./elsewhere.ts";
import { fields } from "./fields.ts";
import type { SettingKey } from "./schema.ts";
import { aliases, translations } from "./spellings.ts";

/** What other programs call our keys: Hugging Face, nanoGPT, Megatron-LM, torchtitan. */
const otherNames: Readonly<Record<string, string>> = {
  hidden_size: "emb_dim",
  n_embd: "emb_dim",
  intermediate_size: "mlp_dim",
  ffn_hidden_size: "mlp_dim",
  num_hidden_layers: "num_decoder_layers",
  num_layers: "num_decoder_layers",
  n_layer: "num_decoder_layers",
  num_attention_heads: "num_query_heads",
  n_head: "num_query_heads",
  num_key_value_heads: "num_kv_heads",
  tie_word_embeddings: "logits_via_embedding",
  tie_embeddings: "logits_via_embedding",
  rms_norm_eps: "norm_eps",
  seq_len: "max_target_length",
  seq_length: "max_target_length",
  block_size: "max_target_length",
  batch_size: "per_device_batch_size",
  micro_batch_size: "per_device_batch_size",
  local_batch_size: "per_device_batch_size",
  global_batch_size: "per_device_batch_size",
  max_position_embeddings: "max_target_length",
  encoder_seq_length: "max_target_length",
  num_query_groups: "num_kv_heads",
  n_kv_heads: "num_kv_heads",
  n_heads: "num_query_heads",
  n_layers: "num_decoder_layers",
  rotary_base: "rope_theta",
  untie_embeddings_and_output_weights: "logits_via_embedding",
  lr: "learning_rate",
  min_lr: "learning_rate_final_fraction",
  min_lr_factor: "learning_rate_final_fraction",
  lr_decay_style: "lr_schedule_type",
  lr_warmup_fraction: "warmup_steps_fraction",
  weight_decay: "adam_weight_decay",
  adam_beta1: "adam_b1",
  adam_beta2: "adam_b2",
  beta1: "adam_b1",
  beta2: "adam_b2",
  grad_clip: "gradient_clipping_threshold",
  clip_grad: "gradient_clipping_threshold",
  max_norm: "gradient_clipping_threshold",
  max_grad_norm: "gradient_clipping_threshold",
  max_steps: "steps",
  eval_iters: "eval_steps",
  save_interval: "checkpoint_period",
  log_interval: "log_period",
  seed: "init_weights_seed",
  epochs: "steps",
  num_epochs: "steps",
  data_path: "dataset_path",
  output_dir: "base_output_directory",
  precision: "quantization",
  recipe: "quantization",
  fp8: "quantization",
  fp4: "quantization",
  fp8_recipe: "quantization",
  fp4_recipe: "quantization",
};

/** What to do with a value of another program's key that is not a value of ours. */
const remarks: Readonly<Record<string, string>> = {
  global_batch_size: "a step has per_device_batch_size times gradient_accumulation_steps sequences",
  min_lr: "the fraction is min_lr divided by learning_rate",
  untie_embeddings_and_output_weights: "it is the opposite",
  seed: "data_shuffle_seed and rounding_seed are the others",
  epochs: "the text is read again as often as steps needs",
  num_epochs: "the text is read again as often as steps needs",
};

/** The key that `name` is, or is another spelling of; undefined for translations and unknown names. */
export function knownKey(name: string): SettingKey | undefined {
  if (fields().has(name)) return name as SettingKey;
  return Object.hasOwn(aliases, name) ? aliases[name] : undefined;
}

/** Every name that a command line may set. */
export const settableNames = (): string[] => [
  ...fields().keys(),
  ...Object.keys(aliases),
  ...Object.keys(translations),
  ...Object.keys(foreignKeys),
];

/** The last part of `name` as keys are written. */
const plainName = (name: string): string =>
  name.split(".").at(-1)!.replace(/^-+/, "").replaceAll("-", "_").toLowerCase();

/** The name that exists and is probably meant by `name`. */
export function meantName(name: string): string | undefined {
  const plain = plainName(name);
  const names = settableNames();
  if (names.includes(plain)) return plain;
  return Object.hasOwn(otherNames, plain) ? otherNames[plain] : nearest(plain, names);
}

/** The key that is probably meant by `name`. */
export function meantKey(name: string): SettingKey | undefined {
  const meant = knownKey(name) ?? meantName(name);
  return meant === undefined ? undefined : knownKey(meant);
}

export function unknownKey(name: string): UserError {
  const meant = meantName(name);
  if (meant === undefined)
    return new UserError("E_UNKNOWN_KEY", `unknown key "${name}"; \`halfbyte explain\` lists the keys`);
  const plain = plainName(name);
  const remark = meant !== plain && Object.hasOwn(remarks, plain) ? `; ${remarks[plain]}` : "";
  const section = name.includes(".") ? " Keys are written without a section" : "";
  return new UserError(
    "E_UNKNOWN_KEY",
    `unknown key "${name}"; did you mean ${meant}? (${aboutName(meant)}${remark})${section}`,
  );
}

function aboutName(name: string): string {
  const field = fields().get(knownKey(name) ?? "");
  if (field !== undefined) return `${field.group}: ${field.doc}`;
  return Object.hasOwn(translations, name) ? translations[name]!.doc : "a key of MaxText";
}
