/** Tokenizers on disk: read from what `tokenizer_path` names, kept as Hugging Face's tools keep them. */
import { copyFileSync, cpSync, existsSync, mkdirSync, realpathSync, renameSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { UserError } from "../base/errors.ts";
import { type BpeModel, bpeTokenizer } from "./bpeTokenizer.ts";
import { byteModel, byteTokenizer } from "./byteTokenizer.ts";
import { generalTokenizer } from "./generalTokenizer.ts";
import { withPatternLimits } from "./patternLimits.ts";
import type { Tokenizer } from "./tokenizer.ts";
import { parseTokenizerJson, toTokenizerConfig, toTokenizerJson } from "./tokenizerJson.ts";
import { type Json, refusing } from "./tokenizerParts.ts";
import { namedTokens, readTokenizerSource, type TokenizerSource } from "./tokenizerSource.ts";

/**
 * The tokenizer `tokenizer_path` names: "byte"; a tokenizer.json, tokenizer.model or .gguf file; or a folder with one.
 * @throws UserError where there is none or it can't be used.
 */
export function loadTokenizer(path: string): Tokenizer {
  return path === "byte" ? byteTokenizer() : tokenizerOf(readTokenizerSource(path), path);
}

/** How the tokenizer that `tokenizer_path` names is written down. @throws UserError where there is none */
export function tokenizerFormat(path: string): string {
  return path === "byte" ? "a token a byte" : readTokenizerSource(path).format;
}

/** @param name the tokenizer's, for people. @throws UserError where the source can't be used */
export function tokenizerOf({ config, file, ...source }: TokenizerSource, name: string): Tokenizer {
  const content = source.content();
  if ("model" in content) return bpeTokenizer(content.model, name);
  const { eos_token: eosToken } = namedTokens(config);
  const byteLevel = parseTokenizerJson(content.json, file, eosToken);
  const build = () =>
    byteLevel === undefined ? generalTokenizer(content.json, file, name, eosToken) : bpeTokenizer(byteLevel, name);
  return withPatternLimits(content.json as Json, refusing(file), () => tried(file, build()));
}

/** Regular expressions are compiled when they are used first, for each kind of string: what is too much for one shows here. */
function tried(file: string, tokenizer: Tokenizer): Tokenizer {
  try {
    for (const text of ["a", "日"]) for (const control of [false, true]) tokenizer.encode(text, { control });
  } catch (error) {
    if (error instanceof UserError) throw error;
    refusing(file)(`it can't be used (${(error as Error).message})`);
  }
  return tokenizer;
}

/** What belongs to a tokenizer in its folder. */
const beside = [
  "tokenizer_config.json",
  "special_tokens_map.json",
  "chat_template.jinja",
  "additional_chat_templates",
] as const;

/**
 * Writes the tokenizer that `tokenizer_path` names into `folder` as a tokenizer.json with what belongs to it, so that the folder
 * needs nothing else. "byte" and tokenizers in other formats too.
 */
export function copyTokenizer(path: string, folder: string): void {
  if (path === "byte") {
    saveTokenizer(byteModel, folder);
    return;
  }
  const source = readTokenizerSource(path);
  mkdirSync(folder, { recursive: true });
  // A run may go on with its own copy.
  if (realpathSync(source.file) === join(realpathSync(folder), "tokenizer.json")) return;
  for (const name of beside) {
    const from = join(dirname(source.file), name);
    if (existsSync(from)) cpSync(from, join(folder, name), { recursive: true });
  }
  const target = join(folder, "tokenizer.json");
  if (source.format === "tokenizer.json") copyFileSync(source.file, target);
  else {
    const content = source.content();
    writeWhole(target, "model" in content ? toTokenizerJson(content.model) : content.json);
    writeWhole(join(folder, "tokenizer_config.json"), source.config);
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
