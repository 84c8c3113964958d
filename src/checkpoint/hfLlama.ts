/** A Llama checkpoint folder as Hugging Face keeps it: config.json and safetensors, in one file or in shards. */
import { join } from "node:path";
import { UserError } from "../base/errors.ts";
import { decodeArray } from "../core/codecs.ts";
import { type HostArray, hostArray, isFloat, sameShape, showSpec, sizeOf } from "../core/index.ts";
import { type HfLlamaConfig, parseHfConfig } from "../models/hfConfig.ts";
import { checkHfTensors, embeddingName, headName, llamaFromHf } from "../models/hfMapping.ts";
import type { LlamaConfig, LlamaTree } from "../models/llama.ts";
import { type ModelFiles, openModelFiles, readJson } from "./modelFiles.ts";

/** A Hugging Face checkpoint read: sizes and parameters. */
export interface HfLlama extends HfLlamaConfig {
  /** Float32, on the host. */
  readonly params: LlamaTree<HostArray>;
}

/**
 * Loads a checkpoint folder. Weights of any float dtype become float32; `dtype` is what the model shall compute in.
 * @throws UserError where a file or tensor is missing, misshapen, or the model has features that are not supported
 */
export async function loadHfLlama(folder: string, dtype: LlamaConfig["dtype"] = "bfloat16"): Promise<HfLlama> {
  const configPath = join(folder, "config.json");
  const parsed = parseHfConfig(readJson(configPath), dtype, configPath);
  const model = await openModelFiles(folder);
  try {
    checkHfTensors(parsed.config, model.specs);
    await checkStoredHead(parsed.config, model);
    const params = await llamaFromHf(parsed.config, async (name) => toFloat32(name, await model.read(name)));
    return { ...parsed, params };
  } finally {
    await model.close();
  }
}

/** Values that are compared at once. */
const compared = 1 << 20;

/**
 * A head that is tied and stored all the same must be the embedding: programs differ in which of the two they take.
 * @throws UserError where it is another matrix
 */
export async function checkStoredHead({ tieEmbeddings }: LlamaConfig, model: ModelFiles): Promise<void> {
  const [head, embedding] = [model.specs.get(headName), model.specs.get(embeddingName)!];
  if (!tieEmbeddings || head === undefined) return;
  const size = sizeOf(embedding.shape);
  let same = sameShape(head.shape, embedding.shape);
  for (let begin = 0; same && begin < size; begin += compared) {
    const count = Math.min(compared, size - begin);
    const [a, b] = await Promise.all([headName, embeddingName].map((name) => model.readPart(name, begin, count)));
    const [x, y] = [decodeArray(a!.dtype, a!.data), decodeArray(b!.dtype, b!.data)];
    same = x.every((value, i) => Object.is(value, y[i]));
  }
  if (same) return;
  throw new UserError(
    "E_CHECKPOINT",
    `${model.path}: config.json says tie_word_embeddings: true, but "${headName}" is not "${embeddingName}": if it is the head, set that to false; if not, remove it`,
  );
}

function toFloat32(name: string, array: HostArray): HostArray {
  if (!isFloat(array.dtype))
    throw new UserError("E_CHECKPOINT", `"${name}" is ${showSpec(array)}; weights must be floats`);
  const values = decodeArray(array.dtype, array.data);
  return hostArray(array.shape, "float32", values instanceof Float32Array ? values : Float32Array.from(values));
}
