/**
 * A GGUF file of llama.cpp's architecture "llama" as a source. Its tensors have other names, and the rows of queries and keys
 * another order: the two that rotary positions turn together are neighbours there, and half a head apart in Hugging Face's.
 */
import { UserError } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";
import { dtypeInfo } from "../core/dtype.ts";
import { type HostArray, hostArray, sizeOf, type TypedArray } from "../core/index.ts";
import { type GgufFile, type GgufTensor, openGguf } from "../gguf/index.ts";
import { type HfLlamaConfig, toHfConfig } from "../models/hfConfig.ts";
import { checkHfTensors, hfName } from "../models/hfMapping.ts";
import type { LlamaBlock, LlamaConfig, LlamaTree } from "../models/llama.ts";
import { tokenizerOfGguf } from "../tokenizers/index.ts";
import { llama3Frequencies } from "./ggufRope.ts";
import { inOrder } from "./huggingFaceSource.ts";
import type { ModelSource, SourceTensor, SourceTensors } from "./source.ts";

const blockNames: Readonly<Record<keyof LlamaBlock<unknown>, string>> = {
  attnNorm: "attn_norm",
  q: "attn_q",
  k: "attn_k",
  v: "attn_v",
  o: "attn_output",
  mlpNorm: "ffn_norm",
  gate: "ffn_gate",
  up: "ffn_up",
  down: "ffn_down",
};

const topNames: Readonly<Record<Exclude<keyof LlamaTree<unknown>, "layers">, string>> = {
  embed: "token_embd",
  norm: "output_norm",
  head: "output",
};

/** "blk.3.attn_q.weight" → "layers.3.q"; undefined for a name that is no parameter. */
export function pathOfGgufName(name: string): string | undefined {
  const [, layer, inBlock] = /^blk\.(\d+)\.(\w+)\.weight$/.exec(name) ?? [];
  if (inBlock !== undefined) {
    const key = Object.entries(blockNames).find(([, theirs]) => theirs === inBlock)?.[0];
    return key && `layers.${layer}.${key}`;
  }
  return Object.entries(topNames).find(([, theirs]) => `${theirs}.weight` === name)?.[0];
}

/** Llama 3.1's slower frequencies come as this tensor, not as metadata. */
const ropeFactors = "rope_freqs.weight";

/** @throws UserError where the file is malformed, of another architecture, or has tensors that the model has not */
export async function openGgufSource(path: string): Promise<ModelSource> {
  const file = await openGguf(path);
  try {
    const config = await configOf(file);
    const stored = storedTensors(file, config.config);
    checkHfTensors(config.config, stored);
    const tokenizer = tokenizerOfGguf(file.metadata, file.path);
    const paired = inOrder(config, stored);
    return {
      kind: "gguf",
      path: file.path,
      config,
      json: toHfConfig(config, { style: "transformers4", storedDtype: "bfloat16" }),
      tensors: new Map([...paired].map(([name, tensor]) => [name, halved(name, tensor, config.config)])),
      paired,
      metadata: { format: "pt" },
      files: [
        { name: "tokenizer.json", json: tokenizer.tokenizer },
        { name: "tokenizer_config.json", json: tokenizer.config },
      ],
      tokenizerPath: file.path,
      dropped: file.tensors.has(ropeFactors) ? [ropeFactors] : [],
      quantized: [...file.tensors.values()].some(({ type }) => type.blockValues > 1),
      close: () => file.close(),
    };
  } catch (error) {
    await file.close();
    throw error;
  }
}

async function configOf(file: GgufFile): Promise<HfLlamaConfig> {
  const { metadata, path, tensors } = file;
  const refuse = (what: string): never => {
    throw new UserError("E_GGUF", `${path}: ${what}`);
  };
  const architecture = metadata.get("general.architecture");
  if (architecture !== "llama")
    refuse(`its architecture is "${architecture}"; "llama" is read (Llama, Mistral, SmolLM)`);
  const at = (key: string): number | undefined => {
    const value = metadata.get(`llama.${key}`);
    if (value === undefined) return undefined;
    return typeof value === "number" && value > 0 ? value : refuse(`llama.${key} is ${value}; it must be above 0`);
  };
  const needed = (key: string): number => at(key) ?? refuse(`llama.${key} is missing`);
  if ((at("expert_count") ?? 0) > 0) refuse("it is a mixture of experts (llama.expert_count), which is not read");
  refuseScaledPositions(metadata, at, refuse);
  const numHeads = needed("attention.head_count");
  const embDim = needed("embedding_length");
  const headDim = at("attention.key_length") ?? embDim / numHeads;
  if (headDim % 2 !== 0) refuse(`its heads have ${headDim} values; rotary positions turn pairs of them`);
  const turned = at("rope.dimension_count") ?? headDim;
  if (turned !== headDim) refuse(`rotary positions turn ${turned} of ${headDim} values of a head; all are turned here`);
  const embedding: GgufTensor = tensors.get(`${topNames.embed}.weight`) ?? refuse("it has no token_embd.weight");
  const ropeTheta = decimal(at("rope.freq_base") ?? 10_000);
  const config: LlamaConfig = {
    numLayers: needed("block_count"),
    embDim,
    mlpDim: needed("feed_forward_length"),
    numHeads,
    numKvHeads: at("attention.head_count_kv") ?? numHeads,
    headDim,
    vocabSize: embedding.shape[0]!,
    ropeTheta,
    normEps: decimal(needed("attention.layer_norm_rms_epsilon")),
    tieEmbeddings: !tensors.has(`${topNames.head}.weight`),
    dtype: "float32",
  };
  const token = (key: string) => metadata.get(`tokenizer.ggml.${key}`);
  const [bos, eos] = [token("bos_token_id"), token("eos_token_id")];
  const factors = tensors.get(ropeFactors)?.shape;
  const scaled =
    factors !== undefined && sizeOf(factors) === headDim / 2
      ? llama3Frequencies((await file.read(ropeFactors)).data as Float32Array, { headDim, ropeTheta })
      : undefined;
  if (factors !== undefined && scaled === undefined) refuse(`${ropeFactors} is no scaling of Llama 3.1's kind`);
  return {
    family: "llama",
    config: scaled === undefined ? config : { ...config, ropeScaling: scaled },
    maxPositions: needed("context_length"),
    ...(typeof bos === "number" && { bosTokenId: bos }),
    eosTokenIds: typeof eos === "number" ? [eos] : [],
  };
}

/** llama.cpp takes a type that is not said for linear, and scaling by 1 for none; scale_linear is the factor's older name. */
function refuseScaledPositions(
  metadata: GgufFile["metadata"],
  at: (key: string) => number | undefined,
  refuse: (what: string) => never,
): void {
  const type = metadata.get("llama.rope.scaling.type") ?? "linear";
  const factorKey = ["rope.scaling.factor", "rope.scale_linear"].find((key) => at(key) !== undefined);
  const factor = factorKey === undefined ? 1 : at(factorKey);
  const by = factor === 1 ? "" : ` (llama.${factorKey} is ${factor})`;
  if (type !== "none" && (type !== "linear" || factor !== 1))
    refuse(`its rotary positions are scaled by "${type}"${by}, which is not read`);
  const attention = at("rope.scaling.attn_factor") ?? 1;
  if (attention !== 1) refuse(`llama.rope.scaling.attn_factor is ${attention}; attention that is scaled is not read`);
}

/** The shortest decimal number that is this float32: 1e-5, which is stored as 0.00000999999974…. */
function decimal(value: number): number {
  if (Math.fround(value) !== value) return value;
  return [6, 7, 8].map((digits) => Number(value.toPrecision(digits))).find((n) => Math.fround(n) === value) ?? value;
}

/** Under Hugging Face's names. @throws UserError naming those that are no parameters */
function storedTensors(file: GgufFile, { numLayers }: LlamaConfig): SourceTensors {
  const entries = [...file.tensors].filter(([name]) => name !== ropeFactors);
  const unknown = entries.map(([name]) => name).filter((name) => pathOfGgufName(name) === undefined);
  if (unknown.length > 0) {
    const near = nearest(unknown[0]!, file.tensors.keys());
    const list = unknown.slice(0, 8).map((name) => `"${name}"`);
    const more = unknown.length > 8 ? ` and ${unknown.length - 8} more` : "";
    const hint = near === undefined || unknown.includes(near) ? "" : ` (beside "${near}")`;
    throw new UserError(
      "E_GGUF",
      `${file.path}: it has tensors that a Llama of ${numLayers} layers has not: ${list.join(", ")}${more}${hint}`,
    );
  }
  return new Map(
    entries.map(([name, { shape, type }]): [string, SourceTensor] => [
      hfName(pathOfGgufName(name)!)!,
      {
        shape,
        dtype: type.dtype,
        unit: type.blockValues,
        readPart: (begin, count) => file.readPart(name, begin, count),
      },
    ]),
  );
}

/** Queries and keys with the rows of each head in Hugging Face's order; other tensors as they are. */
function halved(name: string, tensor: SourceTensor, { headDim, embDim }: LlamaConfig): SourceTensor {
  if (!/\.(q|k)_proj\.weight$/.test(name)) return tensor;
  const unit = headDim * embDim;
  const readPart = async (begin: number, count: number): Promise<HostArray> => {
    const { dtype, data } = await tensor.readPart(begin, count);
    const rows: TypedArray = new (dtypeInfo(dtype).array)(count);
    for (let row = 0; row < count / embDim; row++) {
      const [head, inHead] = [Math.floor(row / headDim), row % headDim];
      const pair = inHead % (headDim / 2);
      const from = head * headDim + 2 * pair + (inHead < headDim / 2 ? 0 : 1);
      rows.set(data.subarray(from * embDim, (from + 1) * embDim) as never, row * embDim);
    }
    return hostArray([count], dtype, rows);
  };
  return { ...tensor, unit, readPart };
}
