/** Hugging Face's config.json of a Llama model, in the style of transformers 4 (as on the hub) and 5: read and written. */
import { z } from "zod";
import { UserError } from "../base/errors.ts";
import type { LlamaConfig } from "./llama.ts";

/** What config.json says besides the model's own numbers. */
export interface HfLlamaConfig {
  readonly config: LlamaConfig;
  /** Longest sequence the model was trained on. */
  readonly maxPositions: number;
  readonly bosTokenId?: number;
  /** Any of them ends a text. */
  readonly eosTokenIds: readonly number[];
}

const count = z.int().positive();
const positive = z.number().positive();

const ropeSchema = z.object({
  rope_theta: positive.optional(),
  rope_type: z.string().optional(),
  type: z.string().optional(),
  partial_rotary_factor: z.number().optional(),
});

const llama3Schema = z.object({
  factor: positive,
  low_freq_factor: positive,
  high_freq_factor: positive,
  original_max_position_embeddings: count,
});

const configSchema = z.object({
  model_type: z.literal("llama"),
  vocab_size: count,
  hidden_size: count,
  intermediate_size: count,
  num_hidden_layers: count,
  num_attention_heads: count,
  num_key_value_heads: count.nullish(),
  head_dim: count.nullish(),
  rms_norm_eps: positive.default(1e-6),
  max_position_embeddings: count.default(2048),
  tie_word_embeddings: z.boolean().default(false),
  rope_theta: positive.nullish(),
  rope_scaling: z.looseObject({}).nullish(),
  rope_parameters: z.looseObject({}).nullish(),
  bos_token_id: z.int().nullish(),
  eos_token_id: z.union([z.int(), z.array(z.int())]).nullish(),
  // What would change the computation and is not implemented here.
  hidden_act: z.literal("silu").default("silu"),
  attention_bias: z.literal(false).default(false),
  mlp_bias: z.literal(false).default(false),
  partial_rotary_factor: z.literal(1).optional(),
  quantization_config: z
    .null({
      error: "the weights are quantized; `halfbyte quantize FOLDER to=bf16 output=PLAIN` makes plain ones to load",
    })
    .optional(),
});

/**
 * Reads a parsed config.json. `dtype` is what the model shall compute in, whatever the weights are stored in.
 * @throws UserError where it is no Llama model or one with a feature that would change the result
 */
export function parseHfConfig(json: unknown, dtype: LlamaConfig["dtype"], path = "config.json"): HfLlamaConfig {
  const raw = read(configSchema, json, path);
  const rope = { ...raw.rope_scaling, ...raw.rope_parameters };
  const { type, rope_type = type ?? "default", rope_theta, partial_rotary_factor } = read(ropeSchema, rope, path);
  if (rope_type !== "default" && rope_type !== "llama3") {
    throw new UserError(
      "E_HF_CONFIG",
      `${path}: rope type "${rope_type}" is not supported; "default" and "llama3" are`,
    );
  }
  if (partial_rotary_factor !== undefined && partial_rotary_factor !== 1) {
    throw new UserError(
      "E_HF_CONFIG",
      `${path}: partial_rotary_factor ${partial_rotary_factor} is not supported, only 1`,
    );
  }
  const numHeads = raw.num_attention_heads;
  const config: LlamaConfig = {
    numLayers: raw.num_hidden_layers,
    embDim: raw.hidden_size,
    mlpDim: raw.intermediate_size,
    numHeads,
    numKvHeads: raw.num_key_value_heads ?? numHeads,
    headDim: raw.head_dim ?? Math.floor(raw.hidden_size / numHeads),
    vocabSize: raw.vocab_size,
    ropeTheta: rope_theta ?? raw.rope_theta ?? 10_000,
    ...(rope_type === "llama3" && { ropeScaling: llama3Scaling(read(llama3Schema, rope, path)) }),
    normEps: raw.rms_norm_eps,
    tieEmbeddings: raw.tie_word_embeddings,
    dtype,
  };
  return {
    config,
    maxPositions: raw.max_position_embeddings,
    ...(typeof raw.bos_token_id === "number" && { bosTokenId: raw.bos_token_id }),
    eosTokenIds: [raw.eos_token_id ?? []].flat(),
  };
}

function llama3Scaling(rope: z.infer<typeof llama3Schema>): NonNullable<LlamaConfig["ropeScaling"]> {
  return {
    kind: "llama3",
    factor: rope.factor,
    lowFreqFactor: rope.low_freq_factor,
    highFreqFactor: rope.high_freq_factor,
    originalMaxPosition: rope.original_max_position_embeddings,
  };
}

function read<T>(schema: z.ZodType<T>, json: unknown, path: string): T {
  const result = schema.safeParse(json);
  if (result.success) return result.data;
  const issue = result.error.issues[0]!;
  throw new UserError("E_HF_CONFIG", `${path}: ${issue.path.join(".") || "it"}: ${issue.message}`);
}

export interface WriteHfOptions {
  /** Which of the two layouts of rope and dtype; readers of version 5 know both. */
  readonly style: "transformers4" | "transformers5";
  /** Dtype of the stored weights. */
  readonly storedDtype: "bfloat16" | "float32";
}

/** The config.json (as an object) that loads these parameters in transformers. */
export function toHfConfig(
  { config, maxPositions, bosTokenId, eosTokenIds }: HfLlamaConfig,
  { style, storedDtype }: WriteHfOptions,
): Readonly<Record<string, unknown>> {
  const { ropeTheta: rope_theta, ropeScaling: scaling } = config;
  const rope = scaling && {
    rope_type: "llama3",
    factor: scaling.factor,
    low_freq_factor: scaling.lowFreqFactor,
    high_freq_factor: scaling.highFreqFactor,
    original_max_position_embeddings: scaling.originalMaxPosition,
  };
  return {
    architectures: ["LlamaForCausalLM"],
    model_type: "llama",
    vocab_size: config.vocabSize,
    hidden_size: config.embDim,
    intermediate_size: config.mlpDim,
    num_hidden_layers: config.numLayers,
    num_attention_heads: config.numHeads,
    num_key_value_heads: config.numKvHeads,
    head_dim: config.headDim,
    hidden_act: "silu",
    attention_bias: false,
    mlp_bias: false,
    rms_norm_eps: config.normEps,
    max_position_embeddings: maxPositions,
    tie_word_embeddings: config.tieEmbeddings,
    ...(bosTokenId !== undefined && { bos_token_id: bosTokenId }),
    ...(eosTokenIds.length > 0 && { eos_token_id: eosTokenIds.length === 1 ? eosTokenIds[0] : eosTokenIds }),
    ...(style === "transformers4"
      ? { rope_theta, rope_scaling: rope ?? null, torch_dtype: storedDtype }
      : { rope_parameters: { rope_theta, ...(rope ?? { rope_type: "default" }) }, dtype: storedDtype }),
  };
}
