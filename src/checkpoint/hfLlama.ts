/** A Llama checkpoint folder as Hugging Face keeps it: config.json and safetensors, in one file or in shards. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { UserError } from "../base/errors.ts";
import { decodeArray } from "../core/codecs.ts";
import { type HostArray, hostArray, isFloat, type Spec, showSpec } from "../core/index.ts";
import { type HfLlamaConfig, parseHfConfig } from "../models/hfConfig.ts";
import { checkHfTensors, llamaFromHf } from "../models/hfMapping.ts";
import type { LlamaConfig, LlamaTree } from "../models/llama.ts";
import { openSafetensors, type SafetensorsFile } from "./safetensors.ts";

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
  const files: SafetensorsFile[] = [];
  try {
    for (const name of weightFiles(folder)) files.push(await openSafetensors(join(folder, name)));
    const home = new Map(files.flatMap((file) => [...file.tensors.keys()].map((name) => [name, file] as const)));
    const specs = new Map<string, Spec>([...home].map(([name, file]) => [name, file.tensors.get(name)!]));
    checkHfTensors(parsed.config, specs);
    const params = await llamaFromHf(parsed.config, async (name) => toFloat32(name, await home.get(name)!.read(name)));
    return { ...parsed, params };
  } finally {
    await Promise.all(files.map((file) => file.close()));
  }
}

const indexSchema = z.object({ weight_map: z.record(z.string(), z.string()) });

/** Names of the folder's weight files. */
function weightFiles(folder: string): readonly string[] {
  const index = join(folder, "model.safetensors.index.json");
  if (!existsSync(index)) return ["model.safetensors"];
  const parsed = indexSchema.safeParse(readJson(index));
  if (!parsed.success) throw new UserError("E_CHECKPOINT", `${index}: no weight_map of file names`);
  return [...new Set(Object.values(parsed.data.weight_map))].sort();
}

function toFloat32(name: string, array: HostArray): HostArray {
  if (!isFloat(array.dtype))
    throw new UserError("E_CHECKPOINT", `"${name}" is ${showSpec(array)}; weights must be floats`);
  const values = decodeArray(array.dtype, array.data);
  return hostArray(array.shape, "float32", values instanceof Float32Array ? values : Float32Array.from(values));
}

function readJson(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch (error) {
    throw new UserError("E_CHECKPOINT", `${path}: not readable as JSON (${(error as Error).message})`);
  }
}
