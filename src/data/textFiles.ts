/** Which files a `dataset_path` means: a file, a folder of .txt and .md files at any depth, or a pattern. */
import { readdirSync, realpathSync, statSync } from "node:fs";
import { basename, join, relative } from "node:path";
import { UserError } from "../base/errors.ts";
import { expandGlob, isGlob } from "./glob.ts";

/** One document. */
export interface TextFile {
  readonly path: string;
  readonly bytes: number;
  /** Its path below the data set's root, with "/": the same wherever the data set lies. */
  readonly key: string;
}

const textEndings = [".txt", ".md"];
/** Formats that would be read as garbage; a file of another ending is taken for text when it is named outright. */
const otherFormats = /\.(jsonl?|ndjson|parquet|gz|zst|zip|tar|bin|idx|csv|arrow|pdf|docx|safetensors|gguf)$/i;

/**
 * The documents of `path`, sorted by path. Empty files are left out.
 * @param setting the key the path came from, for messages.
 * @throws UserError where nothing is there, or it is not plain text.
 */
export function listTextFiles(path: string, setting = "dataset_path"): TextFile[] {
  const fail = (problem: string): never => {
    throw new UserError("E_DATASET_PATH", `${setting}=${path}: ${problem}`);
  };
  const stat = statSync(path, { throwIfNoEntry: false });
  let paths: string[];
  let root: string | undefined; // what keys are relative to; a file named outright has its name alone
  if (stat?.isDirectory()) {
    root = path;
    paths = filesBelow(path).filter((file) => textEndings.some((ending) => file.toLowerCase().endsWith(ending)));
    if (paths.length === 0) fail(`the folder has no ${textEndings.join(" or ")} file`);
  } else if (stat !== undefined) paths = [path];
  else if (isGlob(path)) {
    paths = expandGlob(path);
    root = path.slice(0, path.search(/[*?{]/)).replace(/[^/\\]*$/, "");
    if (paths.length === 0) fail("no file matches this pattern");
  } else return fail("no such file or folder");
  const other = paths.find((file) => otherFormats.test(file));
  if (other !== undefined) fail(`${other} is not plain text; dataset_type=text reads plain text files`);

  const keyOf = (file: string) => (root === undefined ? basename(file) : relative(root, file).replaceAll("\\", "/"));
  const files = paths
    .map((file) => ({ path: file, bytes: statSync(file).size, key: keyOf(file) }))
    .filter(({ bytes }) => bytes > 0)
    .sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0));
  if (files.length === 0) fail(`every file is empty (${paths.length} of them)`);
  return files;
}

function filesBelow(folder: string): string[] {
  const files: string[] = [];
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (entry.name.startsWith(".")) continue;
    const path = join(folder, entry.name);
    if (entry.isDirectory()) files.push(...filesBelow(path));
    // A link to a file counts as the file; a link to a folder is not followed, so there are no circles.
    else if (entry.isFile() || statSync(path, { throwIfNoEntry: false })?.isFile()) files.push(path);
  }
  return files;
}

/** @throws UserError where training and validation would read the same file. */
export function refuseSharedFiles(train: readonly TextFile[], validation: readonly TextFile[]): void {
  const training = new Map(train.map(({ path }) => [realpathSync(path), path]));
  const shared = validation.filter(({ path }) => training.has(realpathSync(path)));
  if (shared.length === 0) return;
  throw new UserError(
    "E_SPLIT_OVERLAP",
    `dataset_path and eval_dataset_path share ${shared.length} file(s), such as ${shared[0]!.path}: validation on training text says nothing. Move them apart, or use validation_fraction instead`,
  );
}
