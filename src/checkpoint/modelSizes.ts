/** The sizes of a model by the keys of the settings: what weights of another must agree in with a run's model. */
import { UserError } from "../base/errors.ts";
import type { LlamaConfig } from "../models/llama.ts";

/** The setting that gave a path to weights. */
export type PathKey = "load_parameters_path" | "load_full_state_path";

/** A path to weights, and the setting that gave it. */
export interface GivenPath {
  readonly key: PathKey;
  readonly path: string;
}

type Size = string | number | boolean | undefined;
export type Sizes = Readonly<Record<string, Size>>;

export function sizesOf(config: LlamaConfig): Sizes {
  const { ropeScaling } = config;
  return {
    vocab_size: config.vocabSize,
    emb_dim: config.embDim,
    mlp_dim: config.mlpDim,
    num_decoder_layers: config.numLayers,
    num_query_heads: config.numHeads,
    num_kv_heads: config.numKvHeads,
    head_dim: config.headDim,
    logits_via_embedding: config.tieEmbeddings,
    rope_theta: config.ropeTheta,
    rope_type: ropeScaling === undefined ? "default" : "llama3.1",
    rope_factor: ropeScaling?.factor,
    rope_low_freq_factor: ropeScaling?.lowFreqFactor,
    rope_high_freq_factor: ropeScaling?.highFreqFactor,
    original_max_position_embeddings: ropeScaling?.originalMaxPosition,
    norm_eps: config.normEps,
  };
}

/** The same without those that the model has not. */
export const sizesSet = (config: LlamaConfig): Readonly<Record<string, NonNullable<Size>>> =>
  Object.fromEntries(
    Object.entries(sizesOf(config)).flatMap(([key, size]) => (size === undefined ? [] : [[key, size]])),
  );

/**
 * @param stored of the weights, as far as it is known @param tokenizerPath the weights' own tokenizer, where they have one
 * @throws UserError naming every size that differs, and the keys to set
 */
export function requireSizes(given: GivenPath, stored: Sizes, config: LlamaConfig, tokenizerPath?: string): void {
  const differing = Object.entries(sizesOf(config)).filter(
    ([size, wanted]) => stored[size] !== undefined && stored[size] !== wanted,
  );
  if (differing.length === 0) return;
  const found = differing.map(([size]) => `${size}=${shown(stored[size])}`);
  const wanted = differing.map(([size, value]) => `${size}=${value}`);
  const another = tokenizerPath !== undefined && differing.some(([size]) => size === "vocab_size");
  const tokenizer = another ? `; their tokenizer is tokenizer_path=${tokenizerPath}` : "";
  refusePath(
    given,
    `the weights have ${found.join(", ")}, the run ${wanted.join(", ")}: set ${found.join(" ")}${tokenizer}`,
  );
}

/** A file may say anything where a size is meant. */
const shown = (value: unknown): string => (typeof value === "object" ? JSON.stringify(value) : String(value));

export function refusePath({ key, path }: GivenPath, what: string): never {
  throw new UserError("E_LOAD_PARAMETERS", `${key}=${path}: ${what}`);
}
