/** A model's weights as files: one safetensors file, or a Hugging Face folder with one or with shards and their index. */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { z } from "zod";
import { UserError } from "../base/errors.ts";
import { parseJson } from "../base/json.ts";
import type { HostArray, Spec } from "../core/index.ts";
import { hasShards } from "./processShards.ts";
import { openSafetensors, type SafetensorsFile } from "./safetensors.ts";
import { listCheckpoints } from "./stepFolders.ts";

/** Open weights. `close()` them; they hold file descriptors. */
export interface ModelFiles {
  /** As it was given. */
  readonly path: string;
  readonly files: readonly SafetensorsFile[];
  /** Shape and dtype of each tensor. */
  readonly specs: ReadonlyMap<string, Spec>;
  /** Of a folder whose weights are in shards. */
  readonly index?: ModelIndex;
  /** What a person may not expect of how they are read. */
  readonly notes: readonly string[];
  /** config.json; empty for a single file. */
  readonly config: Readonly<Record<string, unknown>>;
  /** Other files that go along where weights are written again. Absent: those of the folder. */
  readonly others?: readonly FileToCopy[];
  read(name: string): Promise<HostArray>;
  /** Values `begin` … `begin + count` of a tensor, as [count]. */
  readPart(name: string, begin: number, count: number): Promise<HostArray>;
  close(): Promise<void>;
}

/** A file, and its name in another folder. */
export interface FileToCopy {
  readonly name: string;
  readonly from: string;
}

const wholeName = "model.safetensors";
export const indexName = `${wholeName}.index.json`;
const indexSchema = z.looseObject({
  metadata: z.looseObject({}).optional(),
  weight_map: z.record(z.string(), z.string().regex(/^[^/\\]+$/)),
});

export type ModelIndex = z.infer<typeof indexSchema>;

/**
 * Opens a `.safetensors` file or a folder, and checks every header and that the index tells the truth. Of a folder with both, the
 * single file is read, as transformers does.
 * @throws UserError where a file or tensor is missing or malformed
 */
export async function openModelFiles(path: string): Promise<ModelFiles> {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat === undefined) throw new UserError("E_CHECKPOINT", `${path}: there is no such file or folder`);
  const files: SafetensorsFile[] = [];
  const close = async () => {
    await Promise.all(files.map((file) => file.close()));
  };
  try {
    const folder = stat.isDirectory();
    if (folder && !hasModelFiles(path)) throw noModel(path);
    const [whole, sharded] = [wholeName, indexName].map((name) => folder && existsSync(join(path, name)));
    const index = sharded && !whole ? readIndex(join(path, indexName)) : undefined;
    const names = !folder ? [""] : index === undefined ? [wholeName] : shardNames(index);
    for (const name of names) files.push(await openSafetensors(join(path, name)));
    const home = homesOf(files);
    if (index !== undefined) checkIndex(path, index.weight_map, home);
    return {
      path,
      files,
      specs: new Map([...home].map(([name, file]) => [name, file.tensors.get(name)!])),
      ...(index && { index }),
      notes: whole && sharded ? [`${path} has ${wholeName} and ${indexName}: the single file was read`] : [],
      config: folder ? readConfig(path) : {},
      read: async (name) => (home.get(name) ?? files[0]!).read(name),
      readPart: async (name, begin, count) => (home.get(name) ?? files[0]!).readPart(name, begin, count),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Whether a folder holds a model as Hugging Face keeps it. */
export const hasModelFiles = (folder: string): boolean =>
  [wholeName, indexName].some((name) => existsSync(join(folder, name)));

/** Weights in containers that are not read: pickles, which can hold any program, and other frameworks'. */
const otherContainers = /\.(bin|pt|pth|h5|msgpack|gguf)$/;

/** Of a folder without: where its weights may be instead, if it is one of Halfbyte's, or in which container. */
function noModel(folder: string): UserError {
  const what = hasShards(folder, "params") ? "checkpoint" : existsSync(join(folder, "checkpoints")) ? "run" : undefined;
  const fix =
    what !== undefined
      ? `; it is a ${what}, with plain float32 weights: halfbyte convert ${folder} dtype=bfloat16 output=FOLDER makes bfloat16 of them`
      : listCheckpoints(folder).length > 0
        ? `; ${checkpointsFolder(folder)}`
        : otherWeightsIn(folder);
  return new UserError("E_CHECKPOINT", `${folder}: no such file as ${wholeName} or ${indexName}${fix}`);
}

function otherWeightsIn(folder: string): string {
  const other = readdirSync(folder).find((name) => otherContainers.test(name));
  if (other === undefined) return "";
  if (other.endsWith(".gguf")) return `; give the file in it, ${join(folder, other)}, to halfbyte convert`;
  return `; its weights are in ${other}, which is not read: have transformers save them with safe_serialization=True`;
}

/** What to give in place of the folder of a run's checkpoints. */
export const checkpointsFolder = (path: string): string =>
  `these are a run's checkpoints: give the run's folder, ${dirname(path)}, or one step's folder in it`;

/** @throws UserError */
function readIndex(path: string): ModelIndex {
  const parsed = indexSchema.safeParse(readJson(path));
  if (!parsed.success) throw new UserError("E_CHECKPOINT", `${path}: no weight_map of file names`);
  return parsed.data;
}

const shardNames = ({ weight_map }: ModelIndex): readonly string[] => [...new Set(Object.values(weight_map))].sort();

/** @throws UserError where two files have a tensor of one name */
function homesOf(files: readonly SafetensorsFile[]): Map<string, SafetensorsFile> {
  const home = new Map<string, SafetensorsFile>();
  for (const file of files) {
    for (const name of file.tensors.keys()) {
      const other = home.get(name);
      if (other !== undefined)
        throw new UserError("E_CHECKPOINT", `"${name}" is both in ${other.path} and in ${file.path}`);
      home.set(name, file);
    }
  }
  return home;
}

function checkIndex(
  folder: string,
  map: Readonly<Record<string, string>>,
  home: ReadonlyMap<string, SafetensorsFile>,
): void {
  const missing = Object.entries(map).filter(([name, file]) => {
    const found = home.get(name);
    return found === undefined || basename(found.path) !== file;
  });
  if (missing.length === 0) return;
  const list = missing.slice(0, 5).map(([name, file]) => `"${name}" in ${file}`);
  const more = missing.length > 5 ? ` and ${missing.length - 5} more` : "";
  throw new UserError("E_CHECKPOINT", `${join(folder, indexName)} names what is not there: ${list.join(", ")}${more}`);
}

function readConfig(folder: string): Readonly<Record<string, unknown>> {
  const path = join(folder, "config.json");
  if (!existsSync(path)) return {};
  return readJsonObject(path);
}

/** @throws UserError where it is no JSON object, as every config.json is */
export function readJsonObject(path: string): Readonly<Record<string, unknown>> {
  const json = readJson(path);
  if (typeof json === "object" && json !== null && !Array.isArray(json)) return json as Record<string, unknown>;
  throw new UserError("E_HF_CONFIG", `${path}: it must be an object`);
}

/** @throws UserError */
export function readJson(path: string): unknown {
  try {
    return parseJson(readFileSync(path, "utf8"));
  } catch (error) {
    throw new UserError("E_CHECKPOINT", `${path}: not readable as JSON (${(error as Error).message})`);
  }
}
