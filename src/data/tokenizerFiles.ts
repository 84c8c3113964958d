/** Tokenizers on disk: a folder with tokenizer.json and tokenizer_config.json, as Hugging Face's tools keep them. */
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { UserError } from "../base/errors.ts";
import { type BpeModel, bpeTokenizer } from "./bpeTokenizer.ts";
import { byteModel, byteTokenizer } from "./byteTokenizer.ts";
import { generalTokenizer } from "./generalTokenizer.ts";
import type { Tokenizer } from "./tokenizer.ts";
import { parseTokenizerJson, toTokenizerConfig, toTokenizerJson } from "./tokenizerJson.ts";
import { isObject, type Json, refusing } from "./tokenizerParts.ts";

/**
 * The tokenizer `tokenizer_path` names: "byte", a folder with a tokenizer.json, or such a file.
 * @throws UserError where there is none or it can't be used.
 */
export function loadTokenizer(path: string): Tokenizer {
  if (path === "byte") return byteTokenizer();
  const stat = statSync(path, { throwIfNoEntry: false });
  const file = fileOf(path);
  if (!existsSync(file)) {
    throw new UserError(
      "E_TOKENIZER",
      `tokenizer_path=${path}: ${stat ? "the folder has no tokenizer.json" : "no such file or folder"}; use "byte", or make one with: halfbyte tokenizer train dataset_path=… output=${path}`,
    );
  }
  const eosToken = namedTokens(readConfig(configFolder(path))).eos_token;
  const parsed = readJson(file);
  const byteLevel = parseTokenizerJson(parsed, file, eosToken);
  return byteLevel === undefined ? generalTokenizer(parsed, file, path, eosToken) : bpeTokenizer(byteLevel, path);
}

function fileOf(path: string): string {
  return configFolder(path) === path ? join(path, "tokenizer.json") : path;
}

/** The folder in which what belongs to a tokenizer lies: `path`, or the file's. */
export function configFolder(path: string): string {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ? path : dirname(path);
}

/**
 * The tokenizer_config.json of a folder, over the special_tokens_map.json that older folders have too; empty where there is none.
 * @throws UserError where one is no JSON object
 */
export function readConfig(folder: string): Json {
  const parts = ["special_tokens_map.json", "tokenizer_config.json"].map((name) => {
    const path = join(folder, name);
    const part = existsSync(path) ? readJson(path) : {};
    return isObject(part) ? part : refusing(path)("not an object of settings");
  });
  return Object.assign({}, ...parts);
}

/** What belongs to a tokenizer.json in its folder. */
const beside = [
  "tokenizer_config.json",
  "special_tokens_map.json",
  "chat_template.jinja",
  "additional_chat_templates",
] as const;

/** Writes the tokenizer that `tokenizer_path` names into `folder`, "byte" too, so that the folder needs nothing else. */
export function copyTokenizer(path: string, folder: string): void {
  if (path === "byte") {
    saveTokenizer(byteModel, folder);
    return;
  }
  const file = fileOf(path);
  mkdirSync(folder, { recursive: true });
  copyFileSync(file, join(folder, "tokenizer.json"));
  for (const name of beside) {
    const source = join(configFolder(path), name);
    if (existsSync(source)) cpSync(source, join(folder, name), { recursive: true });
  }
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

/** Tokens that tokenizer_config.json names, by key: `bos_token`, … Each is a string or, in older files, an object with its content. */
export function namedTokens(config: Json): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(config).flatMap(([key, value]) => {
      const content = isObject(value) ? value.content : value;
      return key.endsWith("_token") && typeof content === "string" ? [[key, content]] : [];
    }),
  );
}
