/**
 * Model families of Hugging Face that compute as the Llama here does: what their config.json leaves out means, and where
 * they may differ. Others are refused with what this model lacks for them.
 */
export interface HfFamily {
  /** The class that transformers makes of it. */
  readonly architecture: string;
  /** num_key_value_heads where it is left out; null there, and here, is num_attention_heads. */
  readonly numKvHeads: number | null;
  readonly tieEmbeddings: boolean;
  readonly maxPositions: number;
  /** Tokens that attention sees back where sliding_window is left out; null is all of them. */
  readonly slidingWindow: number | null;
}

/** By model_type. */
export const hfFamilies = {
  llama: {
    architecture: "LlamaForCausalLM",
    numKvHeads: null,
    tieEmbeddings: false,
    maxPositions: 2048,
    slidingWindow: null,
  },
  mistral: {
    architecture: "MistralForCausalLM",
    numKvHeads: 8,
    tieEmbeddings: false,
    maxPositions: 131072,
    slidingWindow: 4096,
  },
} as const satisfies Record<string, HfFamily>;

export type HfFamilyName = keyof typeof hfFamilies;
export const hfFamilyNames = Object.keys(hfFamilies) as [HfFamilyName, ...HfFamilyName[]];

/** What families need that the model here has not. */
export const refusedFamilies: Readonly<Record<string, string>> = {
  qwen2: "its projections to queries, keys and values add biases",
  qwen2_moe: "its MLPs are experts, and its projections add biases",
  qwen3: "it normalises the queries and keys of each head",
  qwen3_moe: "its MLPs are experts, and it normalises the queries and keys of each head",
  mixtral: "its MLPs are experts",
  gemma: "its norms add 1 to their weights and its embeddings are scaled",
  gemma2: "it has norms after its layers, soft caps and windows",
  gemma3_text: "it has norms after its layers and windows",
  phi3: "its queries, keys and values come from one matrix",
  nemotron_h: "it has Mamba layers",
  bamba: "it has Mamba layers",
  mamba: "it is a Mamba",
  mamba2: "it is a Mamba",
};
