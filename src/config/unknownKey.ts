/** What is said of a key that does not exist. */
import { UserError } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";
import { fields } from "./fields.ts";
import { aliases } from "./schema.ts";

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

/** The key `name` stands for, or undefined. */
export function knownKey(name: string): string | undefined {
  if (fields.has(name)) return name;
  return Object.hasOwn(aliases, name) ? aliases[name] : undefined;
}

export function unknownKey(name: string): UserError {
  const last = name.split(".").at(-1)!;
  const plain = last.replace(/^-+/, "").replaceAll("-", "_").toLowerCase();
  const meant =
    knownKey(plain) ??
    (Object.hasOwn(otherNames, plain) ? otherNames[plain] : undefined) ??
    nearest(last, [...fields.keys(), ...Object.keys(aliases)]);
  const field = fields.get(knownKey(meant ?? "") ?? "");
  const fix =
    field === undefined
      ? "`halfbyte explain` lists the keys"
      : `did you mean ${meant}? (${field.group}: ${field.doc})${name.includes(".") ? " Keys are written without a section" : ""}`;
  return new UserError("E_UNKNOWN_KEY", `unknown key "${name}"; ${fix}`);
}
