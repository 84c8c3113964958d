/**
 * Byte-level BPE (the families of GPT-2, Llama 3, Qwen) as a Hugging Face tokenizer.json, in and out. Read here and encoded by
 * our own code, which takes an eighth of the library's time; the other kinds are generalTokenizer.ts's.
 */
import { UserError } from "../base/errors.ts";
import type { BpeModel } from "./bpeTokenizer.ts";
import { spellBytes, unspellBytes } from "./byteAlphabet.ts";
import { exactPreTokenizer, isolate } from "./exactPreTokenizer.ts";
import { frameProcessor, readFrame } from "./frame.ts";
import { bpeJson } from "./sentencePieceParts.ts";
import { byteLevelPattern, translateSplitPattern } from "./splitPattern.ts";
import {
  checkedId,
  isObject,
  type Json,
  list,
  modelOf,
  type Refuse,
  readAddedTokens,
  refusing,
  show,
} from "./tokenizerParts.ts";

/** How a byte-level BPE file treats text before merging. */
type TextRules = Pick<BpeModel, "splitPatterns" | "prefixSpace" | "normalization">;

/**
 * The vocabulary of a parsed tokenizer.json; undefined where it is no byte-level BPE.
 * @param path for messages. @param eosToken spelling of the end-of-document token; default: the usual ones.
 * @throws UserError naming the part that is malformed.
 */
export function parseTokenizerJson(parsed: unknown, path: string, eosToken?: string): BpeModel | undefined {
  const refuse = refusing(path);
  const { file, model } = modelOf(parsed, refuse);
  const rules = textRules(file, model);
  if (rules === undefined) return undefined;

  const { added, eosId } = readAddedTokens(file, refuse, eosToken);
  const addedIds = new Set(added.map(({ id }) => id));
  const ids = new Map<string, number>();
  const tokens: (Uint8Array | undefined)[] = [];
  for (const [token, value] of Object.entries(model.vocab as Json)) {
    const id = checkedId(value, token, refuse);
    if (addedIds.has(id)) continue; // some files list added tokens in both places
    if (tokens[id] !== undefined) refuse(`two tokens have the id ${id}; one is ${show(token)}`);
    tokens[id] = unspellBytes(token) ?? refuse(`the token ${show(token)} is not in the byte-level alphabet`);
    ids.set(token, id);
  }
  const vocabSize = Math.max(tokens.length, ...added.map(({ id }) => id + 1));
  for (let id = tokens.length; id < vocabSize; id++) tokens.push(undefined);
  if (vocabSize > 2 * (ids.size + added.length)) refuse(`ids up to ${vocabSize - 1} for ${ids.size} tokens`);
  return {
    tokens,
    merges: readMerges(model, ids, refuse),
    added,
    eosId,
    ignoreMerges: model.ignore_merges === true,
    frame: readFrame(file.post_processor, added, refuse),
    ...rules,
  };
}

function readMerges(model: Json, ids: ReadonlyMap<string, number>, refuse: Refuse): BpeModel["merges"] {
  return list(model.merges).map((entry, rank) => {
    const pair = typeof entry === "string" ? entry.split(" ") : list(entry);
    const [left, right] = pair as readonly [unknown, unknown];
    if (pair.length !== 2 || typeof left !== "string" || typeof right !== "string") {
      return refuse(`merge ${rank} is ${show(entry)}, not a pair of tokens`);
    }
    const idOf = (token: string) => ids.get(token) ?? refuse(`merge ${rank} uses ${show(token)}, which is no token`);
    return { left: idOf(left), right: idOf(right), merged: idOf(left + right) };
  });
}

/** undefined where any part of the file is not byte-level BPE's. */
function textRules(file: Json, model: Json): TextRules | undefined {
  if (model.type !== undefined && model.type !== "BPE") return undefined;
  if (!isObject(model.vocab) || model.byte_fallback === true) return undefined;
  // With a token for each byte unk_token never occurs.
  if (model.unk_token && !hasAllBytes(model.vocab)) return undefined;
  if (["dropout", "continuing_subword_prefix", "end_of_word_suffix"].some((key) => model[key])) return undefined;
  const { normalizer } = file;
  const isNfc = isObject(normalizer) && normalizer.type === "NFC";
  if (!isNfc && normalizer !== null && normalizer !== undefined) return undefined;
  const cuts = readCuts(file.pre_tokenizer);
  return cuts && { ...cuts, normalization: isNfc ? "NFC" : "none" };
}

const hasAllBytes = (vocab: Json): boolean =>
  Array.from({ length: 256 }, (_, byte) => spellBytes(Uint8Array.of(byte))).every((spelled) => spelled in vocab);

/** Splits that isolate, then ByteLevel, or ByteLevel alone with its own regex; undefined for anything else. */
function readCuts(preTokenizer: unknown): Pick<TextRules, "splitPatterns" | "prefixSpace"> | undefined {
  try {
    const steps = flatten(exactPreTokenizer(preTokenizer, refusing("")));
    const last = steps.at(-1);
    if (last?.type !== "ByteLevel") return undefined;
    if (last.add_prefix_space === true) {
      const alone = steps.length === 1 && last.use_regex !== false;
      return alone ? { splitPatterns: [byteLevelPattern], prefixSpace: true } : undefined;
    }
    const patterns = steps.slice(0, -1).map(({ behavior, pattern }) => {
      return behavior === "Isolated" && isObject(pattern) ? pattern.Regex : undefined;
    });
    if (!patterns.every((pattern) => typeof pattern === "string")) return undefined;
    for (const pattern of patterns) translateSplitPattern(pattern);
    return { splitPatterns: patterns, prefixSpace: false };
  } catch (error) {
    if (error instanceof UserError) return undefined; // the library's to read, or to refuse
    throw error;
  }
}

const flatten = (step: unknown): readonly Json[] =>
  !isObject(step) ? [] : step.type === "Sequence" ? list(step.pretokenizers).flatMap(flatten) : [step];

/** The tokenizer.json of a vocabulary; `parseTokenizerJson` gives the vocabulary back. */
export function toTokenizerJson(model: BpeModel): Json {
  const spelled = model.tokens.map((bytes) => (bytes === undefined ? undefined : spellBytes(bytes)));
  const byteLevel = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: false };
  const frame = frameProcessor(model.frame, (id) => model.added.find((token) => token.id === id)!.content);
  return {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: model.added.map(({ singleWord, ...token }) => ({ ...token, single_word: singleWord })),
    normalizer: model.normalization === "none" ? null : { type: model.normalization },
    pre_tokenizer: model.prefixSpace
      ? { ...byteLevel, add_prefix_space: true, use_regex: true }
      : { type: "Sequence", pretokenizers: [...model.splitPatterns.map(isolate), byteLevel] },
    post_processor: frame === null ? byteLevel : { type: "Sequence", processors: [byteLevel, frame] },
    decoder: byteLevel,
    model: bpeJson(
      new Map(spelled.flatMap((token, id) => (token === undefined ? [] : [[token, id] as const]))),
      model.merges.map(({ left, right }) => [spelled[left]!, spelled[right]!]),
      { ignore_merges: model.ignoreMerges },
    ),
  };
}

/** The tokenizer_config.json that goes with it: what names the end-of-document token. */
export function toTokenizerConfig(model: BpeModel): Json {
  return {
    tokenizer_class: "PreTrainedTokenizerFast",
    eos_token: model.added.find(({ id }) => id === model.eosId)?.content,
    clean_up_tokenization_spaces: false,
  };
}
