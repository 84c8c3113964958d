/** Models by name: what `model_name` stands for. */
import type { Settings } from "./schema.ts";

export const sizeKeys = [
  "emb_dim",
  "mlp_dim",
  "num_decoder_layers",
  "num_query_heads",
  "num_kv_heads",
  "head_dim",
  "rope_theta",
  "norm_eps",
  "logits_via_embedding",
] as const;

export type ModelSizes = Pick<Settings, (typeof sizeKeys)[number]>;

export const modelSizes: Readonly<Record<Exclude<Settings["model_name"], "custom">, ModelSizes>> = {
  "llama-tiny": {
    emb_dim: 64,
    mlp_dim: 192,
    num_decoder_layers: 2,
    num_query_heads: 4,
    num_kv_heads: 2,
    head_dim: 16,
    rope_theta: 10000,
    norm_eps: 1e-5,
    logits_via_embedding: true,
  },
  "llama-demo": {
    emb_dim: 256,
    mlp_dim: 704,
    num_decoder_layers: 4,
    num_query_heads: 4,
    num_kv_heads: 2,
    head_dim: 64,
    rope_theta: 10000,
    norm_eps: 1e-5,
    logits_via_embedding: true,
  },
};
