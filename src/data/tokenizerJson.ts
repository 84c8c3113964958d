/**
 * Hugging Face's tokenizer.json, the part of it that byte-level BPE uses, in and out. Anything else in a file is
 * refused by name: a setting silently ignored would give other ids.
 */
import { UserError } from "../base/errors.ts";
import type { BpeModel } from "./bpeTokenizer.ts";
import { spellBytes, unspellBytes } from "./byteAlphabet.ts";

type Json = { readonly [key: string]: unknown };

const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** The end-of-document token of the common families, where no tokenizer_config.json names it. */
const usualEnds = ["<|end_of_text|>", "<|endoftext|>", "</s>", "<eos>", "<|im_end|>"];

/**
 * The vocabulary of a parsed tokenizer.json.
 * @param name for messages. @param eosToken spelling of the end-of-document token; default: the usual ones.
 * @throws UserError naming the part that is malformed or not supported.
 */
export function parseTokenizerJson(file: unknown, name: string, eosToken?: string): BpeModel {
  const refuse = (problem: string): never => {
    throw new UserError("E_TOKENIZER", `${name}: ${problem}`);
  };
  if (!isObject(file) || !isObject(file.model)) return refuse("not a tokenizer.json (an object with a `model`)");
  const model = file.model;
  if (model.type !== undefined && model.type !== "BPE") refuse(`model type ${show(model.type)}; supported: "BPE"`);
  if (!isObject(model.vocab)) return refuse("model.vocab is missing");
  for (const key of ["dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"]) {
    if (model[key]) refuse(`model.${key}=${show(model[key])} is not supported by byte-level BPE here`);
  }
  if (model.byte_fallback === true)
    refuse("model.byte_fallback=true is not supported: the vocabulary must be byte-level");

  const maxVocab = 2 ** 21;
  const checkedId = (id: unknown, token: unknown): number =>
    typeof id === "number" && Number.isInteger(id) && id >= 0 && id < maxVocab
      ? id
      : refuse(`token ${show(token)} has the id ${show(id)}; ids are integers from 0 to ${maxVocab - 1}`);

  const control = new Map<number, string>();
  const added = new Map<string, number>();
  for (const entry of list(file.added_tokens)) {
    if (!isObject(entry) || typeof entry.content !== "string" || entry.content === "") {
      return refuse("an added_tokens entry without content");
    }
    const id = checkedId(entry.id, entry.content);
    control.set(id, entry.content);
    added.set(entry.content, id);
  }
  const ids = new Map<string, number>();
  const tokens: (Uint8Array | undefined)[] = [];
  const setToken = (id: number, bytes: Uint8Array | undefined, token: string) => {
    if (tokens[id] !== undefined) refuse(`two tokens have the id ${id}; one is ${show(token)}`);
    tokens[id] = bytes;
  };
  for (const [token, value] of Object.entries(model.vocab)) {
    const id = checkedId(value, token);
    if (control.has(id)) continue; // some files list control tokens in both places
    setToken(id, unspellBytes(token) ?? refuse(`the token ${show(token)} is not in the byte-level alphabet`), token);
    ids.set(token, id);
  }
  const vocabSize = Math.max(tokens.length, ...[...control.keys()].map((id) => id + 1));
  for (let id = tokens.length; id < vocabSize; id++) tokens.push(undefined);
  if (vocabSize > 2 * (ids.size + control.size)) refuse(`ids up to ${vocabSize - 1} for ${ids.size} tokens`);

  const merges = list(model.merges).map((entry, rank) => {
    const pair = typeof entry === "string" ? entry.split(" ") : list(entry);
    const [left, right] = pair as readonly [unknown, unknown];
    if (pair.length !== 2 || typeof left !== "string" || typeof right !== "string") {
      return refuse(`merge ${rank} is ${show(entry)}, not a pair of tokens`);
    }
    const idOf = (token: string) => ids.get(token) ?? refuse(`merge ${rank} uses ${show(token)}, which is no token`);
    return { left: idOf(left), right: idOf(right), merged: idOf(left + right) };
  });

  const eosSpelling = eosToken ?? usualEnds.find((spelling) => added.has(spelling));
  const eosId = eosSpelling === undefined ? undefined : added.get(eosSpelling);
  if (eosId === undefined) {
    return refuse(
      `no end-of-document token: ${eosSpelling === undefined ? `none of ${usualEnds.join(" ")}` : show(eosSpelling)} is among its added tokens; name it as "eos_token" in tokenizer_config.json beside it`,
    );
  }
  return {
    tokens,
    merges,
    control,
    eosId,
    splitPattern: readSplitPattern(file.pre_tokenizer, refuse),
    ignoreMerges: model.ignore_merges === true,
    normalization: readNormalization(file.normalizer, refuse),
  };
}

function readNormalization(normalizer: unknown, refuse: (problem: string) => never): BpeModel["normalization"] {
  if (normalizer === null || normalizer === undefined) return "none";
  if (isObject(normalizer) && normalizer.type === "NFC") return "NFC";
  return refuse(`normalizer ${show(normalizer)}; supported: none, NFC`);
}

/** GPT-2's pattern, which ByteLevel with `use_regex` means. */
const byteLevelPattern = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

function readSplitPattern(preTokenizer: unknown, refuse: (problem: string) => never): string {
  const steps =
    isObject(preTokenizer) && preTokenizer.type === "Sequence" ? list(preTokenizer.pretokenizers) : [preTokenizer];
  const byteLevel = steps.at(-1);
  if (!isObject(byteLevel) || byteLevel.type !== "ByteLevel") {
    return refuse(`pre_tokenizer ${show(preTokenizer)}; supported: ByteLevel, or Split and then ByteLevel`);
  }
  if (byteLevel.add_prefix_space === true) return refuse("pre_tokenizer add_prefix_space=true is not supported");
  if (steps.length === 1 && byteLevel.use_regex !== false) return byteLevelPattern;
  const [split] = steps;
  const regex = isObject(split) && isObject(split.pattern) ? split.pattern.Regex : undefined;
  if (steps.length !== 2 || !isObject(split) || split.type !== "Split" || typeof regex !== "string") {
    return refuse(
      `pre_tokenizer ${show(preTokenizer)}; supported: ByteLevel, or one Split by Regex and then ByteLevel`,
    );
  }
  if (split.behavior !== "Isolated" || split.invert === true || byteLevel.use_regex !== false) {
    return refuse(
      `pre_tokenizer ${show(preTokenizer)}; supported: Split "Isolated", then ByteLevel with use_regex=false`,
    );
  }
  return regex;
}

/** The tokenizer.json of a vocabulary; `parseTokenizerJson` gives the vocabulary back. */
export function toTokenizerJson(model: BpeModel): Json {
  const spelled = model.tokens.map((bytes) => (bytes === undefined ? undefined : spellBytes(bytes)));
  const byteLevel = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: false };
  return {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: [...model.control].map(([id, content]) => ({
      id,
      content,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special: true,
    })),
    normalizer: model.normalization === "none" ? null : { type: model.normalization },
    pre_tokenizer: {
      type: "Sequence",
      pretokenizers: [
        { type: "Split", pattern: { Regex: model.splitPattern }, behavior: "Isolated", invert: false },
        byteLevel,
      ],
    },
    post_processor: byteLevel,
    decoder: byteLevel,
    model: {
      type: "BPE",
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: model.ignoreMerges,
      vocab: Object.fromEntries(spelled.flatMap((token, id) => (token === undefined ? [] : [[token, id]]))),
      merges: model.merges.map(({ left, right }) => [spelled[left], spelled[right]]),
    },
  };
}

/** The tokenizer_config.json that goes with it: what names the end-of-document token. */
export function toTokenizerConfig(model: BpeModel): Json {
  return {
    tokenizer_class: "PreTrainedTokenizerFast",
    eos_token: model.control.get(model.eosId),
    clean_up_tokenization_spaces: false,
  };
}

function show(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 120 ? `${text.slice(0, 117)}…` : text;
}
