/** A Llama checkpoint folder as Hugging Face keeps it: config.json and safetensors, in one file or in shards. */
import { join } from "node:path";
import { UserError } from "../base/errors.ts";
import { decodeArray } from "../core/codecs.ts";
import { type HostArray, hostArray, isFloat, showSpec } from "../core/index.ts";
import { type HfLlamaConfig, parseHfConfig } from "../models/hfConfig.ts";
import { checkHfTensors, llamaFromHf } from "../models/hfMapping.ts";
import type { LlamaConfig, LlamaTree } from "../models/llama.ts";
import { openModelFiles, readJson } from "./modelFiles.ts";

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
    const params = await llamaFromHf(parsed.config, async (name) => toFloat32(name, await model.read(name)));
    return { ...parsed, params };
  } finally {
    await model.close();
  }
}

function toFloat32(name: string, array: HostArray): HostArray {
  if (!isFloat(array.dtype))
    throw new UserError("E_CHECKPOINT", `"${name}" is ${showSpec(array)}; weights must be floats`);
  const values = decodeArray(array.dtype, array.data);
  return hostArray(array.shape, "float32", values instanceof Float32Array ? values : Float32Array.from(values));
}
