/** What is said of a key that does not exist. */
import { UserError } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";
import { foreignKeys } from "./elsewhere.ts";
import { fields } from "./fields.ts";
import type { SettingKey } from "./schema.ts";
import { aliases, translations } from "./spellings.ts";

/** What other programs call our keys. */
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
  lr: "learning_rate",
  weight_decay: "adam_weight_decay",
  grad_clip: "gradient_clipping_threshold",
  max_grad_norm: "gradient_clipping_threshold",
  max_steps: "steps",
  epochs: "steps",
  num_epochs: "steps",
  data_path: "dataset_path",
  output_dir: "base_output_directory",
  precision: "quantization",
  recipe: "quantization",
};

/** The key that `name` is, or is another spelling of; undefined for translations and unknown names. */
export function knownKey(name: string): SettingKey | undefined {
  if (fields.has(name)) return name as SettingKey;
  return Object.hasOwn(aliases, name) ? aliases[name] : undefined;
}

/** Every name that a command line may set. */
export const settableNames = (): string[] => [
  ...fields.keys(),
  ...Object.keys(aliases),
  ...Object.keys(translations),
  ...Object.keys(foreignKeys),
];

/** The name that exists and is probably meant by `name`. */
function meantName(name: string): string | undefined {
  const last = name.split(".").at(-1)!;
  const plain = last.replace(/^-+/, "").replaceAll("-", "_").toLowerCase();
  const names = settableNames();
  if (names.includes(plain)) return plain;
  return Object.hasOwn(otherNames, plain) ? otherNames[plain] : nearest(last, names);
}

/** The key that is probably meant by `name`. */
export function meantKey(name: string): SettingKey | undefined {
  const meant = knownKey(name) ?? meantName(name);
  return meant === undefined ? undefined : knownKey(meant);
}

export function unknownKey(name: string): UserError {
  const meant = meantName(name);
  const fix =
    meant === undefined
      ? "`halfbyte explain` lists the keys"
      : `did you mean ${meant}? (${aboutName(meant)})${name.includes(".") ? " Keys are written without a section" : ""}`;
  return new UserError("E_UNKNOWN_KEY", `unknown key "${name}"; ${fix}`);
}

function aboutName(name: string): string {
  const field = fields.get(knownKey(name) ?? "");
  if (field !== undefined) return `${field.group}: ${field.doc}`;
  return Object.hasOwn(translations, name) ? translations[name]!.doc : "a key of MaxText";
}
