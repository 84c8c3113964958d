/**
 * What `tokenizer_path` names, whatever holds it: a tokenizer.json, Meta's or SentencePiece's tokenizer.model, a GGUF file, or a
 * folder with one of them. All become the two files of Hugging Face's tools, or what those say.
 */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { UserError } from "../base/errors.ts";
import { fileBeginning } from "../base/fileBeginning.ts";
import { parseJson } from "../base/json.ts";
import { readGgufMetadata } from "../gguf/index.ts";
import type { BpeModel } from "./bpeTokenizer.ts";
import { tokenizerOfGguf } from "./ggufTokenizer.ts";
import { isPieceFile, readPieceFile } from "./sentencePieceModel.ts";
import { isRankFile, readRankFile, tiktokenConfig } from "./tiktokenModel.ts";
import { isObject, type Json, refusing } from "./tokenizerParts.ts";

export interface TokenizerSource {
  readonly file: string;
  /** How it is written there. */
  readonly format: "tokenizer.json" | "tiktoken ranks" | "SentencePiece" | "GGUF";
  /** A tokenizer.json, parsed, or a byte-level BPE. @throws UserError where it can't be read */
  readonly content: () => { readonly json: unknown } | { readonly model: BpeModel };
  /** tokenizer_config.json: its own words where the folder has one, over what the file says. */
  readonly config: Json;
}

/** @throws UserError where there is none or it can't be read */
export function readTokenizerSource(path: string): TokenizerSource {
  const file = fileOf(path);
  const config = readConfig(dirname(file));
  const refuse = refusing(file);
  const beginning = fileBeginning(file, 1024);
  const text = beginning.toString("latin1");
  if (text.startsWith("GGUF")) {
    const own = tokenizerOfGguf(readGgufMetadata(file), file);
    return { file, format: "GGUF", content: () => ({ json: own.tokenizer }), config: own.config };
  }
  if (isRankFile(text)) {
    const content = () => ({ model: readRankFile(readFileSync(file, "latin1"), refuse) });
    return { file, format: "tiktoken ranks", content, config: { ...tiktokenConfig, ...config } };
  }
  if (isPieceFile(beginning)) {
    const own = readPieceFile(readFileSync(file), refuse);
    return {
      file,
      format: "SentencePiece",
      content: () => ({ json: own.tokenizer }),
      config: { ...own.config, ...config },
    };
  }
  return { file, format: "tokenizer.json", content: () => ({ json: readJson(file) }), config };
}

/** The file of a folder that holds the tokenizer, by preference. */
function fileOf(path: string): string {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat?.isFile()) return path;
  const found = stat && ["tokenizer.json", "tokenizer.model"].find((name) => existsSync(join(path, name)));
  if (found) return join(path, found);
  const ggufs = stat ? readdirSync(path).filter((name) => name.endsWith(".gguf")) : [];
  // The parts of a split file are one.
  const models = new Set(ggufs.map((name) => name.replace(/-\d{5}-of-\d{5}(?=\.gguf$)/, "")));
  if (models.size === 1) return join(path, ggufs.sort()[0]!);
  throw new UserError(
    "E_TOKENIZER",
    `tokenizer_path=${path}: ${stat ? "the folder has no tokenizer.json, tokenizer.model or single .gguf file" : "no such file or folder"}; use "byte", or make one with: halfbyte tokenizer train dataset_path=… output=${path}`,
  );
}

/**
 * The tokenizer_config.json of a folder, over the special_tokens_map.json that older folders have too; empty where there is none.
 * @throws UserError where one is no JSON object
 */
function readConfig(folder: string): Json {
  const parts = ["special_tokens_map.json", "tokenizer_config.json"].map((name) => {
    const path = join(folder, name);
    const part = existsSync(path) ? readJson(path) : {};
    return isObject(part) ? part : refusing(path)("not an object of settings");
  });
  return Object.assign({}, ...parts);
}

function readJson(path: string): unknown {
  try {
    return parseJson(readFileSync(path, "utf8"));
  } catch (error) {
    throw new UserError("E_TOKENIZER", `${path}: not readable as JSON (${(error as Error).message})`);
  }
}

/** Tokens that a tokenizer_config.json names, by key: `bos_token`, … Each is a string or, in older files, an object with its content. */
export function namedTokens(config: Json): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(config).flatMap(([key, value]) => {
      const content = isObject(value) ? value.content : value;
      return key.endsWith("_token") && typeof content === "string" ? [[key, content]] : [];
    }),
  );
}
