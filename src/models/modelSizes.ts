/** Models by name: what `model_name` stands for, by the keys of the settings. */

export interface ModelSizes {
  readonly emb_dim: number;
  readonly mlp_dim: number;
  readonly num_decoder_layers: number;
  readonly num_query_heads: number;
  readonly num_kv_heads: number;
  readonly head_dim: number;
  /** Absent: that of the run's tokenizer. */
  readonly vocab_size?: number;
  readonly rope_type: "default" | "llama3.1";
  readonly rope_theta: number;
  readonly rope_factor?: number;
  readonly rope_low_freq_factor?: number;
  readonly rope_high_freq_factor?: number;
  readonly original_max_position_embeddings?: number;
  readonly norm_eps: number;
  readonly logits_via_embedding: boolean;
}

const small = {
  num_query_heads: 4,
  num_kv_heads: 2,
  rope_type: "default",
  rope_theta: 10000,
  norm_eps: 1e-5,
  logits_via_embedding: true,
} as const;

/** What all sizes of Llama 3 share (Grattafiori et al. 2024). */
const llama3 = {
  num_kv_heads: 8,
  head_dim: 128,
  vocab_size: 128256,
  rope_type: "default",
  rope_theta: 500000,
  norm_eps: 1e-5,
  logits_via_embedding: false,
} as const;
const llama3Size8b = { ...llama3, emb_dim: 4096, mlp_dim: 14336, num_decoder_layers: 32, num_query_heads: 32 };
const llama3Size70b = { ...llama3, emb_dim: 8192, mlp_dim: 28672, num_decoder_layers: 80, num_query_heads: 64 };
const llama3Size405b = { ...llama3, emb_dim: 16384, mlp_dim: 53248, num_decoder_layers: 126, num_query_heads: 128 };

/** Llama 3.1's rotary positions, which reach 131,072 tokens. */
const longRope = {
  rope_type: "llama3.1",
  rope_factor: 8,
  rope_low_freq_factor: 1,
  rope_high_freq_factor: 4,
  original_max_position_embeddings: 8192,
} as const;

const table = {
  "llama-tiny": { ...small, emb_dim: 64, mlp_dim: 192, num_decoder_layers: 2, head_dim: 16 },
  "llama-demo": { ...small, emb_dim: 256, mlp_dim: 704, num_decoder_layers: 4, head_dim: 64 },
  "llama3-8b": llama3Size8b,
  "llama3-70b": llama3Size70b,
  "llama3.1-8b": { ...llama3Size8b, ...longRope },
  "llama3.1-70b": { ...llama3Size70b, ...longRope },
  "llama3.1-405b": { ...llama3Size405b, ...longRope },
} as const satisfies Record<string, ModelSizes>;

export type ModelName = keyof typeof table;
export const modelSizes: Readonly<Record<ModelName, ModelSizes>> = table;
export const modelNames = Object.keys(table) as [ModelName, ...ModelName[]];
