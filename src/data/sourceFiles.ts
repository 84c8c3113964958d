/** Which files a `dataset_path` means: a file, what a folder has at any depth, or a pattern; and what form each has. */
import { existsSync, readdirSync, realpathSync, statSync } from "node:fs";
import { basename, join, relative } from "node:path";
import { UserError } from "../base/errors.ts";
import { compressionOf, withoutCompression } from "./fileBytes.ts";
import { expandGlob, isGlob, statIfThere } from "./glob.ts";
import { mixtureMeant } from "./mixture.ts";
import type { RecordKind } from "./records.ts";

/** What a file's bytes are, once unpacked: one plain text, or records. */
export type FileForm = "text" | "jsonl" | "parquet" | "tokens";

export interface SourceFile {
  readonly path: string;
  readonly bytes: number;
  /** Its path below the data set's root, with "/": the same wherever the data set lies. */
  readonly key: string;
  readonly form: FileForm;
}

const endings = {
  text: [".txt", ".md"],
  jsonl: [".jsonl", ".ndjson", ".json"],
  parquet: [".parquet"],
} as const;
/** Formats that would be read as garbage; a file of another ending is taken for text when it is named outright. */
const otherFormats = /\.(zip|tar|tgz|bz2|xz|csv|tsv|arrow|arrayrecord|tfrecord|pdf|docx|html?|safetensors|gguf|npy)$/i;
const tokenFormats = /\.(bin|idx)$/i;

/** The form that a file's ending says, or undefined for an ending that is not one of ours. */
function knownForm(path: string): FileForm | undefined {
  const name = withoutCompression(path).toLowerCase();
  const forms = Object.keys(endings) as (keyof typeof endings)[];
  return forms.find((form) => endings[form].some((ending) => name.endsWith(ending)));
}

/** What the files of a data set hold. */
export type DataKind = RecordKind | StoredKind;
/** Tokens that were made elsewhere: ids alone, or with Megatron's index beside them. */
export type StoredKind = "tokens" | "megatron";

export const isStored = (kind: DataKind): kind is StoredKind => kind === "tokens" || kind === "megatron";

export interface ListOptions {
  /** The key the path came from, for messages. Default: dataset_path. */
  readonly setting?: string;
  /** What is wanted: chats and completions come in records only, tokens in .bin. Default: text. */
  readonly kind?: DataKind;
}

/**
 * The files of `path`, sorted by path. Empty files are left out.
 * @throws UserError where nothing is there, or it is of a form that can't be read
 */
export function listSourceFiles(path: string, options: ListOptions = {}): SourceFile[] {
  const { setting = "dataset_path" } = options;
  const fail = (problem: string): never => {
    throw new UserError("E_DATASET_PATH", `${setting}=${path}: ${problem}`);
  };
  try {
    return filesOf(path, options, fail);
  } catch (error) {
    if (!(error instanceof Error && "syscall" in error)) throw error;
    return fail(`it can't be looked through (${error.message})`);
  }
}

function filesOf(
  path: string,
  { kind = "text", setting }: ListOptions,
  fail: (problem: string) => never,
): SourceFile[] {
  const stat = statIfThere(path);
  const mayBePrefix = kind === "megatron" && (stat === undefined || /\.idx$/i.test(path));
  const prefix = mayBePrefix ? prefixOf(path) : undefined;
  if (prefix !== undefined) return listSourceFiles(prefix, { kind, ...(setting !== undefined && { setting }) });
  let paths: string[];
  let root: string | undefined; // what keys are relative to; a file named outright has its name alone
  if (stat?.isDirectory()) {
    root = path;
    paths = [...filesBelow(path)].filter((file) => isWanted(file, kind));
    if (paths.length === 0) fail(`the folder has no ${endingsOf(kind)} file`);
    if (!isStored(kind)) refuseMixedFolder(paths, fail);
  } else if (stat !== undefined) paths = [path];
  else if (isGlob(path)) {
    paths = expandGlob(path);
    root = path.slice(0, path.search(/[*?{]/)).replace(/[^/\\]*$/, "");
    if (paths.length === 0) fail("no file matches this pattern");
  } else {
    const meant = mixtureMeant(path);
    return fail(`no such file or folder${meant === undefined ? "" : `; with a weight it is written ${meant}`}`);
  }

  const keyOf = (file: string) => (root === undefined ? basename(file) : relative(root, file).replaceAll("\\", "/"));
  const files = paths
    .map((file) => ({ path: file, bytes: statSync(file).size, key: keyOf(file), form: formOf(file, kind, fail) }))
    .filter(({ bytes }) => bytes > 0)
    .sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0));
  if (files.length === 0) fail(`every file is empty (${paths.length} of them)`);
  return files;
}

/** Whether a file of a folder is meant. A .json beside texts is some tool's settings more often than records: it is to be named. */
function isWanted(path: string, kind: DataKind): boolean {
  if (isStored(kind)) return isBin(path);
  const form = knownForm(path);
  return form !== undefined && (kind === "text" || form !== "text") && !/\.json$/i.test(withoutCompression(path));
}

const isBin = (path: string) => /\.bin$/i.test(path);

/** The .bin that Megatron's name without an ending, or with that of the index, means; undefined where there is none. */
function prefixOf(path: string): string | undefined {
  const bin = `${path.replace(/\.idx$/i, "")}.bin`;
  return existsSync(bin) ? bin : undefined;
}

function endingsOf(kind: DataKind): string {
  if (isStored(kind)) return ".bin";
  const all = [...(kind === "text" ? endings.text : []), ".jsonl", ".parquet"];
  return `${all.slice(0, -1).join(", ")} or ${all.at(-1)}`;
}

/** The README.md of a folder of records is no document of it; which files are meant, only the user can say. */
function refuseMixedFolder(paths: readonly string[], fail: (problem: string) => never): void {
  const text = paths.find((path) => knownForm(path) === "text");
  const records = paths.find((path) => knownForm(path) !== "text");
  if (text === undefined || records === undefined) return;
  fail(
    `the folder has plain text (such as ${text}) and records (such as ${records}): say which by a pattern, such as '**/*.${records.split(".").at(-1)}' or '**/*.txt' behind the folder`,
  );
}

function formOf(path: string, kind: DataKind, fail: (problem: string) => never): FileForm {
  if (isStored(kind)) {
    return isBin(path) ? "tokens" : fail(`${path}: dataset_type=${kind} reads files whose names end in .bin`);
  }
  const form = knownForm(path);
  const plain = withoutCompression(path);
  if (tokenFormats.test(plain)) {
    fail(
      `${path} holds tokens, not text: dataset_type=megatron reads .bin with its .idx, dataset_type=tokens a plain .bin`,
    );
  }
  if (otherFormats.test(plain)) {
    fail(
      `${path} is of a format that is not read; text, JSON Lines, Parquet, and either of the first two packed as .gz or .zst are`,
    );
  }
  if (form === "parquet" && compressionOf(path) !== undefined)
    fail(`${path}: unpack it; Parquet is packed inside already`);
  if (kind !== "text" && (form ?? "text") === "text") {
    fail(`${path} is plain text; dataset_type=${kind} reads records: .jsonl or .parquet`);
  }
  return form ?? "text";
}

function* filesBelow(folder: string): Generator<string, void> {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (entry.name.startsWith(".")) continue;
    const path = join(folder, entry.name);
    if (entry.isDirectory()) yield* filesBelow(path);
    // A link to a file counts as the file; a link to a folder is not followed, so there are no circles.
    else if (entry.isFile() || statIfThere(path)?.isFile()) yield path;
  }
}

/** @throws UserError where training and validation would read the same file. */
export function refuseSharedFiles(
  train: readonly Pick<SourceFile, "path">[],
  validation: readonly Pick<SourceFile, "path">[],
): void {
  const training = new Map(train.map(({ path }) => [realpathSync(path), path]));
  const shared = validation.filter(({ path }) => training.has(realpathSync(path)));
  if (shared.length === 0) return;
  throw new UserError(
    "E_SPLIT_OVERLAP",
    `dataset_path and eval_dataset_path share ${shared.length} file(s), such as ${shared[0]!.path}: validation on training text says nothing. Move them apart, or use validation_fraction instead`,
  );
}

/** @throws UserError where two sources are the same files, however each is spelled */
export function refuseSameSources(
  sources: readonly { readonly path: string; readonly files: readonly Pick<SourceFile, "path">[] }[],
  setting: string,
): void {
  const seen = new Map<string, string>();
  for (const { path, files } of sources) {
    const real = JSON.stringify(files.map(({ path }) => realpathSync(path)).sort());
    const before = seen.get(real);
    if (before !== undefined) {
      throw new UserError(
        "E_DATASET_MIXTURE",
        `${setting}: ${before} and ${path} are the same files: name them once; a weight says how often they are drawn`,
      );
    }
    seen.set(real, path);
  }
}

/**
 * @param hashes of the validation files
 * @param trainedOn the training files, by their hashes
 * @throws UserError where a validation file is a copy of a training file
 */
export function refuseCopies(
  files: readonly Pick<SourceFile, "path">[],
  hashes: readonly string[],
  trainedOn: ReadonlyMap<string, string>,
): void {
  const copies = files.flatMap(({ path }, i) => {
    const original = trainedOn.get(hashes[i]!);
    return original === undefined ? [] : `${path} of ${original}`;
  });
  if (copies.length === 0) return;
  throw new UserError(
    "E_SPLIT_OVERLAP",
    `${copies.length} file(s) of eval_dataset_path are copies of what is trained on, such as ${copies[0]}: validation on training text says nothing. Remove them from one of the two, or use validation_fraction instead`,
  );
}
