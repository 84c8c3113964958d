/**
 * The tokenizer that a GGUF file holds in its metadata, as Hugging Face's two files: tokenizer.json and tokenizer_config.json.
 * Two kinds: "gpt2", byte-level BPE with its merges and the name of its split pattern; and "llama", SentencePiece's BPE, whose
 * merges follow from the scores of the pieces.
 */
import type { GgufNumbers, GgufValue } from "../gguf/index.ts";
import { isolate } from "./exactPreTokenizer.ts";
import { frameProcessor } from "./frame.ts";
import { bpeJson, sentencePieceParts } from "./sentencePieceParts.ts";
import { defaultSplitPattern } from "./splitPattern.ts";
import { type Json, type Refuse, refuseLongTokens, refusing, show } from "./tokenizerParts.ts";

export interface TokenizerFiles {
  /** tokenizer.json */
  readonly tokenizer: Json;
  /** tokenizer_config.json */
  readonly config: Json;
}

const byteLevel = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true };
const cutsThenBytes = (...patterns: readonly string[]): Json => ({
  type: "Sequence",
  pretokenizers: [...patterns.map(isolate), { ...byteLevel, use_regex: false }],
});
const oneDigit = defaultSplitPattern.replace("{1,3}", "");

/** How text is cut before merging, by the names of tokenizer.ggml.pre. */
const gpt2 = { pre_tokenizer: { ...byteLevel, use_regex: true } };
const digitsThenGpt2 = {
  pre_tokenizer: {
    type: "Sequence",
    pretokenizers: [
      { type: "Digits", individual_digits: true },
      { ...byteLevel, use_regex: true },
    ],
  },
};
const llama3 = { pre_tokenizer: cutsThenBytes(defaultSplitPattern), ignore_merges: true };
const qwen2 = { pre_tokenizer: cutsThenBytes(oneDigit), normalizer: { type: "NFC" } };

interface Cuts {
  readonly pre_tokenizer: Json;
  readonly ignore_merges?: boolean;
  readonly normalizer?: Json;
}

const cutsByName: Readonly<Record<string, Cuts>> = {
  "gpt-2": gpt2,
  olmo: gpt2,
  dolma: gpt2,
  mpt: gpt2,
  smollm: digitsThenGpt2,
  starcoder: digitsThenGpt2,
  refact: digitsThenGpt2,
  "command-r": digitsThenGpt2,
  codeshell: digitsThenGpt2,
  "llama-bpe": llama3,
  llama3,
  "llama-v3": llama3,
  falcon3: llama3,
  "smaug-bpe": llama3,
  dbrx: { pre_tokenizer: llama3.pre_tokenizer },
  qwen2,
  "deepseek-r1-qwen": qwen2,
  stablelm2: { pre_tokenizer: qwen2.pre_tokenizer },
};

/** Kinds of tokens. */
const [unknownToken, controlToken, userToken, unusedToken] = [2, 3, 4, 5];

/** What both kinds read. */
interface Vocabulary {
  readonly tokens: readonly string[];
  /** 1 for each token where the file says nothing. */
  readonly kinds: ArrayLike<number>;
  readonly metadata: ReadonlyMap<string, GgufValue>;
  readonly refuse: Refuse;
}

/**
 * @param path for messages. @throws UserError where there is none, it is of another kind or its parts don't fit
 */
export function tokenizerOfGguf(metadata: ReadonlyMap<string, GgufValue>, path: string): TokenizerFiles {
  const refuse = refusing(path);
  const kind = metadata.get("tokenizer.ggml.model") ?? refuse("it holds no tokenizer (tokenizer.ggml.model)");
  const tokens = texts(metadata.get("tokenizer.ggml.tokens")) ?? refuse("tokenizer.ggml.tokens is no list of texts");
  const types = numbers(metadata.get("tokenizer.ggml.token_type"));
  const kinds = types ?? new Int32Array(tokens.length).fill(1);
  if (kinds.length !== tokens.length)
    refuse(`tokenizer.ggml.token_type has ${kinds.length} of ${tokens.length} entries`);
  const vocabulary: Vocabulary = { tokens, kinds, metadata, refuse };
  if (kind !== "gpt2" && kind !== "llama") {
    return refuse(
      `its tokenizer is of the kind ${show(kind)}; gpt2 (byte-level BPE) and llama (SentencePiece) are read`,
    );
  }
  const parts = kind === "gpt2" ? byteLevelParts(vocabulary) : pieceParts(vocabulary);
  return {
    tokenizer: {
      version: "1.0",
      truncation: null,
      padding: null,
      added_tokens: addedTokens(vocabulary),
      normalizer: null,
      ...parts,
      post_processor: beginAndEnd(vocabulary),
    },
    config: configOf(vocabulary),
  };
}

const texts = (value: GgufValue | undefined): readonly string[] | undefined =>
  Array.isArray(value) && value.every((item) => typeof item === "string") ? value : undefined;
const numbers = (value: GgufValue | undefined): Exclude<GgufNumbers, BigInt64Array | BigUint64Array> | undefined =>
  ArrayBuffer.isView(value) && !(value instanceof BigInt64Array || value instanceof BigUint64Array) ? value : undefined;

/** Rows of the embedding that no text gives: fillers that converters make up. */
const isFiller = (token: string, id: number, kind: number): boolean => kind === unusedToken && token === `[PAD${id}]`;

/** The vocabulary by token. Of two tokens alike, as a few files have, the first counts. */
function vocabOf({ tokens, kinds }: Vocabulary): Map<string, number> {
  const vocab = new Map<string, number>();
  for (const [id, token] of tokens.entries()) {
    if (!vocab.has(token) && !isFiller(token, id, kinds[id]!)) vocab.set(token, id);
  }
  return vocab;
}

function addedTokens({ tokens, kinds }: Vocabulary): Json[] {
  return tokens.flatMap((content, id) => {
    const kind = kinds[id]!;
    if (content === "" || ![unknownToken, controlToken, userToken].includes(kind)) return [];
    const rules = { single_word: false, lstrip: false, rstrip: false, normalized: false };
    return [{ id, content, ...rules, special: kind !== userToken }];
  });
}

function byteLevelParts(vocabulary: Vocabulary): Json {
  const { metadata, refuse } = vocabulary;
  const name = metadata.get("tokenizer.ggml.pre") ?? refuse("it does not say how text is cut (tokenizer.ggml.pre)");
  const cuts = typeof name === "string" && Object.hasOwn(cutsByName, name) ? cutsByName[name]! : undefined;
  if (cuts === undefined) {
    const known = Object.keys(cutsByName).join(", ");
    return refuse(`how its tokenizer cuts text, ${show(name)} (tokenizer.ggml.pre), is not known; known are ${known}`);
  }
  const vocab = vocabOf(vocabulary);
  const merges = texts(metadata.get("tokenizer.ggml.merges")) ?? refuse("tokenizer.ggml.merges is no list of texts");
  const pairs = merges.map((merge, rank) => {
    // Tokens are spelled without spaces, but for one that is a text of its own.
    const at = merge.indexOf(" ", 1);
    const pair = [merge.slice(0, at), merge.slice(at + 1)];
    if (at < 0 || !pair.every((token) => vocab.has(token)))
      refuse(`merge ${rank}, ${show(merge)}, is no pair of tokens`);
    return pair;
  });
  const { pre_tokenizer, normalizer = null, ignore_merges = false } = cuts;
  return {
    normalizer,
    pre_tokenizer,
    decoder: { ...byteLevel, use_regex: true },
    model: bpeJson(vocab, pairs, { ignore_merges }),
  };
}

function pieceParts(vocabulary: Vocabulary): Json {
  const { tokens, metadata, refuse } = vocabulary;
  const scores =
    numbers(metadata.get("tokenizer.ggml.scores")) ?? refuse("tokenizer.ggml.scores is no list of numbers");
  if (scores.length !== tokens.length) refuse(`tokenizer.ggml.scores has ${scores.length} of ${tokens.length} entries`);
  const vocab = vocabOf(vocabulary);
  refuseLongTokens(vocab.keys(), refuse);
  return sentencePieceParts({
    vocab,
    scores,
    unknown: tokens[idAt(vocabulary, "unknown_token_id") ?? 0]!,
    prefix: metadata.get("tokenizer.ggml.add_space_prefix") !== false,
    byteFallback: true,
  });
}

/** A token's id that the metadata gives, checked. */
function idAt({ tokens, metadata, refuse }: Vocabulary, key: string): number | undefined {
  const id = metadata.get(`tokenizer.ggml.${key}`);
  if (id === undefined) return undefined;
  if (typeof id === "number" && tokens[id] !== undefined) return id;
  return refuse(`tokenizer.ggml.${key} is ${id}; there are ${tokens.length} tokens`);
}

/** What puts the tokens of begin and end around a text, where the file asks for them. */
function beginAndEnd(vocabulary: Vocabulary): Json | null {
  const { tokens, metadata } = vocabulary;
  // SentencePiece's models have a begin unless they say otherwise; byte-level ones only if they say so.
  const usual = metadata.get("tokenizer.ggml.model") === "llama";
  const asked = (key: string, unless: boolean) => metadata.get(`tokenizer.ggml.${key}`) ?? unless;
  const bos = asked("add_bos_token", usual) === true ? idAt(vocabulary, "bos_token_id") : undefined;
  const eos = asked("add_eos_token", false) === true ? idAt(vocabulary, "eos_token_id") : undefined;
  const listed = (id: number | undefined) => (id === undefined ? [] : [id]);
  return frameProcessor({ before: listed(bos), after: listed(eos) }, (id) => tokens[id]!);
}

function configOf(vocabulary: Vocabulary): Json {
  const { tokens, metadata } = vocabulary;
  const named = { bos_token: "bos_token_id", eos_token: "eos_token_id", unk_token: "unknown_token_id" };
  const all = { ...named, pad_token: "padding_token_id" };
  const names = Object.entries(all).flatMap(([name, key]) => {
    const id = idAt(vocabulary, key);
    return id === undefined ? [] : [[name, tokens[id]]];
  });
  const length = metadata.get(`${metadata.get("general.architecture")}.context_length`);
  const template = metadata.get("tokenizer.chat_template");
  return {
    tokenizer_class: "PreTrainedTokenizerFast",
    ...Object.fromEntries(names),
    ...(typeof length === "number" && { model_max_length: length }),
    clean_up_tokenization_spaces: false,
    ...(typeof template === "string" && { chat_template: template }),
  };
}
