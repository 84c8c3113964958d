/** Model folders made from others: the same shards with other tensors, and copies of what goes along. */
import { constants, existsSync, statSync } from "node:fs";
import { copyFile, readdir } from "node:fs/promises";
import { basename, dirname, extname, join } from "node:path";
import { UserError } from "../base/errors.ts";
import { byteLength, type HostArray } from "../core/index.ts";
import { type FileToCopy, indexName, type ModelFiles } from "./modelFiles.ts";
import { type LazyArray, type SafetensorsFile, writeSafetensors } from "./safetensors.ts";
import { removeLeftovers, writeFolder, writeJson } from "./wholeFolder.ts";

export interface ModelToWrite {
  /** What becomes of each file of the source. */
  readonly entries: (file: SafetensorsFile) => readonly (readonly [string, HostArray | LazyArray])[];
  readonly config: Readonly<Record<string, unknown>>;
  /** Files of the source's folder that don't hold for the new one. */
  readonly without?: readonly string[];
}

/** Weights in other containers: they would go on saying what the model was. */
const otherWeights = [".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx", ".ot"];

/** What was written. */
export interface WrittenModel {
  /** Bytes of the safetensors files. */
  readonly bytes: number;
  /** Names of the other files that were copied. */
  readonly copied: readonly string[];
  /** What a person may not expect of how the source was read. */
  readonly notes: readonly string[];
}

/**
 * Writes a model folder from an open one, a tensor at a time: the same shards under the same names, an index, config.json,
 * and copies of the other files (tokenizer and the like). It is whole or not there.
 * @throws UserError (E_OUTPUT) where something of that name exists
 */
export async function writeModelFiles(source: ModelFiles, output: string, model: ModelToWrite): Promise<WrittenModel> {
  refuseExisting(output);
  const { index, notes } = source;
  let bytes = 0;
  const others = source.others ?? (await othersBeside(source.path, model.without ?? []));
  await removeLeftovers(dirname(output), basename(output));
  await writeFolder(output, async (folder) => {
    const weight_map: Record<string, string> = {};
    let total_size = 0;
    for (const file of source.files) {
      const name = index ? basename(file.path) : "model.safetensors";
      const entries = model.entries(file);
      const written = await writeSafetensors(join(folder, name), entries, file.metadata);
      bytes += written.bytes;
      for (const [tensor, spec] of entries) {
        weight_map[tensor] = name;
        total_size += byteLength(spec);
      }
    }
    if (index) {
      const metadata = { ...index.metadata, total_size };
      await writeJson(join(folder, indexName), { metadata, weight_map });
    }
    if (Object.keys(model.config).length > 0) await writeJson(join(folder, "config.json"), model.config);
    for (const { name, from } of others) await copyFile(from, join(folder, name), constants.COPYFILE_FICLONE);
  });
  const copied = others.map(({ name }) => name);
  return { bytes, copied, notes: [...notes, ...tokenizerNotes(copied)] };
}

/** Files that hold a tokenizer, of Hugging Face's kinds and others. */
const tokenizerFile =
  /^(tokenizer\.(json|model)|vocab\.(json|txt)|tekken\.json|sentencepiece\.bpe\.model|spiece\.model)$|\.tiktoken$/;

/** Says that a model is written without a tokenizer. @param files what is written beside its weights */
export const tokenizerNotes = (files: readonly string[]): string[] =>
  files.some((name) => tokenizerFile.test(name))
    ? []
    : ["the source has no tokenizer, so that none was written: programs that read text need one in the folder"];

/** Of a single file nothing goes along. */
async function othersBeside(path: string, without: readonly string[]): Promise<FileToCopy[]> {
  if (!statSync(path).isDirectory()) return [];
  return (await othersOf(path, without)).map((name) => ({ name, from: join(path, name) }));
}

/** @throws UserError (E_OUTPUT) */
export function refuseExisting(output: string): void {
  if (!existsSync(output)) return;
  throw new UserError("E_OUTPUT", `output=${output} exists already: choose another name, or remove it first`);
}

/** Names of the files that go along. @throws UserError where one is a link to nothing */
export async function othersOf(folder: string, without: readonly string[]): Promise<string[]> {
  const skipped = new Set(["config.json", indexName, ...without]);
  return (await readdir(folder, { withFileTypes: true }))
    .filter(({ name }) => !skipped.has(name) && ![".safetensors", ...otherWeights].includes(extname(name)))
    .filter((entry) => entry.isFile() || (entry.isSymbolicLink() && leadsToFile(join(folder, entry.name))))
    .map(({ name }) => name)
    .sort();
}

function leadsToFile(link: string): boolean {
  const target = statSync(link, { throwIfNoEntry: false });
  if (target !== undefined) return target.isFile();
  throw new UserError("E_CHECKPOINT", `${link} is a link to nothing: restore what it leads to, or remove it`);
}
