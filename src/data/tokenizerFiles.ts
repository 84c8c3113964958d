/** Tokenizers on disk: a folder with tokenizer.json and tokenizer_config.json, as Hugging Face's tools keep them. */
import { copyFileSync, existsSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { UserError } from "../base/errors.ts";
import { type BpeModel, bpeTokenizer } from "./bpeTokenizer.ts";
import { byteModel, byteTokenizer } from "./byteTokenizer.ts";
import { generalTokenizer } from "./generalTokenizer.ts";
import type { Tokenizer } from "./tokenizer.ts";
import { parseTokenizerJson, toTokenizerConfig, toTokenizerJson } from "./tokenizerJson.ts";

/**
 * The tokenizer `tokenizer_path` names: "byte", a folder with a tokenizer.json, or such a file.
 * @throws UserError where there is none or it can't be used.
 */
export function loadTokenizer(path: string): Tokenizer {
  if (path === "byte") return byteTokenizer();
  const stat = statSync(path, { throwIfNoEntry: false });
  const { file, config } = filesOf(path);
  if (!existsSync(file)) {
    throw new UserError(
      "E_TOKENIZER",
      `tokenizer_path=${path}: ${stat ? "the folder has no tokenizer.json" : "no such file or folder"}; use "byte", or make one with: halfbyte tokenizer train dataset_path=… output=${path}`,
    );
  }
  const eosToken = existsSync(config) ? eosOfConfig(readJson(config)) : undefined;
  const parsed = readJson(file);
  const byteLevel = parseTokenizerJson(parsed, file, eosToken);
  return byteLevel === undefined ? generalTokenizer(parsed, file, path, eosToken) : bpeTokenizer(byteLevel, path);
}

function filesOf(path: string): { readonly file: string; readonly config: string } {
  const file = statSync(path, { throwIfNoEntry: false })?.isDirectory() ? join(path, "tokenizer.json") : path;
  return { file, config: join(dirname(file), "tokenizer_config.json") };
}

/** Writes the tokenizer that `tokenizer_path` names into `folder`, "byte" too, so that the folder needs nothing else. */
export function copyTokenizer(path: string, folder: string): void {
  if (path === "byte") {
    saveTokenizer(byteModel, folder);
    return;
  }
  const { file, config } = filesOf(path);
  mkdirSync(folder, { recursive: true });
  copyFileSync(file, join(folder, "tokenizer.json"));
  if (existsSync(config)) copyFileSync(config, join(folder, "tokenizer_config.json"));
}

/** Writes `folder`/tokenizer.json and tokenizer_config.json, each whole or not at all. */
export function saveTokenizer(model: BpeModel, folder: string): void {
  mkdirSync(folder, { recursive: true });
  writeWhole(join(folder, "tokenizer.json"), toTokenizerJson(model));
  writeWhole(join(folder, "tokenizer_config.json"), toTokenizerConfig(model));
}

function writeWhole(path: string, value: unknown): void {
  const unfinished = join(dirname(path), `.${basename(path)}.${process.pid}.tmp`);
  writeFileSync(unfinished, `${JSON.stringify(value, null, 2)}\n`);
  renameSync(unfinished, path);
}

function readJson(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch (error) {
    throw new UserError("E_TOKENIZER", `${path}: not readable as JSON (${(error as Error).message})`);
  }
}

/** "eos_token" is a string or, in older files, an object with its content. */
function eosOfConfig(config: unknown): string | undefined {
  const eos = (config as { eos_token?: unknown } | null)?.eos_token;
  const content = typeof eos === "object" && eos !== null ? (eos as { content?: unknown }).content : eos;
  return typeof content === "string" ? content : undefined;
}
