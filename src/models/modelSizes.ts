/** Models by name: what `model_name` stands for, by the keys of the settings. */

/** Published sizes leave nothing open; small models of our own take the vocabulary of the run. */
export interface ModelSizes {
  readonly emb_dim: number;
  readonly mlp_dim: number;
  readonly num_decoder_layers: number;
  readonly num_query_heads: number;
  readonly num_kv_heads: number;
  readonly head_dim: number;
  readonly vocab_size?: number;
  readonly rope_theta: number;
  readonly norm_eps: number;
  readonly logits_via_embedding: boolean;
}

export const modelNames = ["llama-tiny", "llama-demo"] as const;
export type ModelName = (typeof modelNames)[number];

export const modelSizes: Readonly<Record<ModelName, ModelSizes>> = {
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
