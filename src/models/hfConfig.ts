/** Hugging Face's config.json of a Llama model, in the style of transformers 4 (as on the hub) and 5: read and written. */
import { z } from "zod";
import { UserError } from "../base/errors.ts";
import { type HfFamilyName, hfFamilies, hfFamilyNames, refusedFamilies } from "./hfFamilies.ts";
import type { LlamaConfig } from "./llama.ts";

/** What config.json says besides the model's own numbers. */
export interface HfLlamaConfig {
  /** Its model_type. */
  readonly family: HfFamilyName;
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
  rope_theta: positive.nullish(),
  rope_type: z.string().nullish(),
  type: z.string().nullish(),
  partial_rotary_factor: z.number().nullish(),
  // Of scaled positions, which say by how much themselves; without scaling it says nothing.
  original_max_position_embeddings: z.number().nullish(),
});

const llama3Schema = z.object({
  factor: positive,
  low_freq_factor: positive,
  high_freq_factor: positive,
  original_max_position_embeddings: count,
});

const configSchema = z.object({
  vocab_size: count,
  hidden_size: count,
  intermediate_size: count,
  num_hidden_layers: count,
  num_attention_heads: count,
  num_key_value_heads: count.nullish(),
  head_dim: count.nullish(),
  rms_norm_eps: positive.default(1e-6),
  max_position_embeddings: count.optional(),
  sliding_window: count.nullish(),
  tie_word_embeddings: z.boolean().nullish(),
  rope_theta: positive.nullish(),
  rope_scaling: z.looseObject({}).nullish(),
  rope_parameters: z.looseObject({}).nullish(),
  bos_token_id: z.int().nullish(),
  eos_token_id: z.union([z.int(), z.array(z.int())]).nullish(),
  // What would change the computation and is not implemented here.
  hidden_act: z.literal("silu").default("silu"),
  attention_bias: z.literal(false).default(false),
  mlp_bias: z.literal(false).default(false),
  partial_rotary_factor: z.literal(1).nullish(),
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
  const family = familyOf(json, path);
  const { tieEmbeddings, ...defaults } = hfFamilies[family];
  const raw = read(configSchema, json, path);
  const numHeads = raw.num_attention_heads;
  const maxPositions = raw.max_position_embeddings ?? defaults.maxPositions;
  const window = raw.sliding_window === undefined ? defaults.slidingWindow : raw.sliding_window;
  if (family === "mistral" && window !== null && window < maxPositions) {
    const fix = `where no text is longer than ${window} tokens, write "sliding_window": null`;
    refuse(path, `attention sees ${window} tokens back (sliding_window), and here it sees all ${maxPositions}; ${fix}`);
  }
  const kvHeads = raw.num_key_value_heads === undefined ? defaults.numKvHeads : raw.num_key_value_heads;
  const headDim = raw.head_dim ?? Math.floor(raw.hidden_size / numHeads);
  if (headDim % 2 !== 0) refuse(path, `head_dim is ${headDim}; rotary positions turn pairs, so it must be even`);
  const config: LlamaConfig = {
    numLayers: raw.num_hidden_layers,
    embDim: raw.hidden_size,
    mlpDim: raw.intermediate_size,
    numHeads,
    numKvHeads: kvHeads ?? numHeads,
    headDim,
    vocabSize: raw.vocab_size,
    ...ropeOf(raw, path),
    normEps: raw.rms_norm_eps,
    tieEmbeddings: raw.tie_word_embeddings ?? tieEmbeddings,
    dtype,
  };
  return {
    family,
    config,
    maxPositions,
    ...(typeof raw.bos_token_id === "number" && { bosTokenId: raw.bos_token_id }),
    eosTokenIds: [raw.eos_token_id ?? []].flat(),
  };
}

function familyOf(json: unknown, path: string): HfFamilyName {
  const { model_type: type } = read(z.looseObject({ model_type: z.string() }), json, path);
  if (Object.hasOwn(hfFamilies, type)) return type as HfFamilyName;
  const why = Object.hasOwn(refusedFamilies, type) ? `: ${refusedFamilies[type]}` : "";
  return refuse(path, `model_type "${type}" is not read${why}; ${hfFamilyNames.join(" and ")} are`);
}

type RawConfig = z.infer<typeof configSchema>;

/** Rotary positions, in the spelling of transformers 4 (rope_theta, rope_scaling) or 5 (rope_parameters). */
function ropeOf(raw: RawConfig, path: string): Pick<LlamaConfig, "ropeTheta" | "ropeScaling"> {
  const { rope_scaling, rope_parameters } = raw;
  const both = { ...rope_scaling, ...rope_parameters };
  const differing = Object.keys(rope_scaling ?? {}).find(
    (key) => rope_parameters?.[key] !== undefined && rope_parameters[key] !== rope_scaling![key],
  );
  if (differing !== undefined) refuse(path, `rope_scaling and rope_parameters give different values of ${differing}`);
  const nested = Object.keys(both).find((key) => typeof both[key] === "object" && both[key] !== null);
  if (nested !== undefined) refuse(path, `rope_parameters has an object "${nested}": one set for all layers is read`);
  const { type, rope_type, rope_theta, partial_rotary_factor } = read(ropeSchema, both, path);
  if (type != null && rope_type != null && type !== rope_type) {
    refuse(path, `rope type "${rope_type}" (rope_type) and "${type}" (type, the older name) are different`);
  }
  if (rope_theta != null && raw.rope_theta != null && rope_theta !== raw.rope_theta) {
    refuse(path, `rope_theta is ${raw.rope_theta}, and ${rope_theta} in rope_parameters`);
  }
  const kind = rope_type ?? type ?? "default";
  if (kind !== "default" && kind !== "llama3") {
    refuse(path, `rope type "${kind}" is not supported; "default" and "llama3" are`);
  }
  // Factors of 1 change nothing.
  const unused = Object.keys(both).find(
    (key) => !Object.hasOwn(ropeSchema.shape, key) && both[key] != null && both[key] !== 1,
  );
  if (kind === "default" && unused !== undefined) {
    const said = (rope_type ?? type) == null ? "no rope_type is given" : 'rope_type "default" scales nothing';
    refuse(path, `rotary positions have ${unused}: ${both[unused]}, but ${said}: name the type, or remove ${unused}`);
  }
  if (partial_rotary_factor != null && partial_rotary_factor !== 1) {
    refuse(path, `partial_rotary_factor ${partial_rotary_factor} is not supported, only 1`);
  }
  return {
    ropeTheta: rope_theta ?? raw.rope_theta ?? 10_000,
    ...(kind === "llama3" && { ropeScaling: llama3Scaling(read(llama3Schema, both, path)) }),
  };
}

function refuse(path: string, what: string): never {
  throw new UserError("E_HF_CONFIG", `${path}: ${what}`);
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
  const { path: key, message } = result.error.issues[0]!;
  if (key.length > 0 && valueAt(json, key) === undefined) return refuse(path, `${key.join(".")} is missing`);
  return refuse(path, `${key.join(".") || "it"}: ${message}`);
}

const valueAt = (json: unknown, key: readonly PropertyKey[]): unknown =>
  key.reduce<unknown>((value, part) => (value as Record<PropertyKey, unknown> | null | undefined)?.[part], json);

/** Dtypes that a model's weights are stored in. */
export type StoredDType = "float32" | "bfloat16" | "float16";

export interface WriteHfOptions {
  /** Which of the two layouts of rope and dtype; readers of version 5 know both. */
  readonly style: "transformers4" | "transformers5";
  /** Dtype of the stored weights. */
  readonly storedDtype: StoredDType;
}

/** The config.json (as an object) that loads these parameters in transformers. */
export function toHfConfig(
  { family, config, maxPositions, bosTokenId, eosTokenIds }: HfLlamaConfig,
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
    architectures: [hfFamilies[family].architecture],
    model_type: family,
    vocab_size: config.vocabSize,
    hidden_size: config.embDim,
    intermediate_size: config.mlpDim,
    num_hidden_layers: config.numLayers,
    num_attention_heads: config.numHeads,
    num_key_value_heads: config.numKvHeads,
    head_dim: config.headDim,
    hidden_act: "silu",
    ...(family === "llama" ? { attention_bias: false, mlp_bias: false } : { sliding_window: null }),
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
