/**
 * Any tokenizer.json that is not byte-level BPE (SentencePiece's kinds, Unigram, WordPiece): normalised, cut and merged by
 * Hugging Face's JavaScript library, piece by piece through a cache. What surrounds that is ours: added tokens (raw text
 * makes no control tokens), text that comes in parts, and decoding to bytes.
 */
import { createHash } from "node:crypto";
import { UserError } from "../base/errors.ts";
import { type AddedToken, addedTokenSplitter } from "./addedTokens.ts";
import { exactPreTokenizer } from "./exactPreTokenizer.ts";
import { framedIds, readFrame } from "./frame.ts";
import { libraryTokenizers } from "./lateLibraries.ts";
import { pieceCache } from "./pieceCache.ts";
import { cutsAtSpaces } from "./spaceCuts.ts";
import { refuseGrowth } from "./textGrowth.ts";
import { byteSpelling, byteToken, exactDecoder, type Library, tokenBytes } from "./tokenBytes.ts";
import { decodeBytes, type Tokenizer } from "./tokenizer.ts";
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
  stepsOf,
} from "./tokenizerParts.ts";

/** @param path the file's, for messages. @throws UserError naming the part that can't be used */
export function generalTokenizer(parsed: unknown, path: string, name: string, eosToken?: string): Tokenizer {
  const refuse = refusing(path);
  /** The library meets what it did not expect in a file with errors of its own. */
  const guarded =
    <A extends readonly unknown[], R>(run: (...args: A) => R) =>
    (...args: A): R => {
      try {
        return run(...args);
      } catch (error) {
        if (error instanceof UserError) throw error;
        return refuse(`Hugging Face's library can't use it (${(error as Error).message})`);
      }
    };
  const { encode, decode, bytesOf, ...facts } = guarded(build)(parsed, refuse, name, eosToken);
  return { ...facts, encode: guarded(encode), decode: guarded(decode), bytesOf: guarded(bytesOf) };
}

function build(parsed: unknown, refuse: Refuse, name: string, eosToken: string | undefined): Tokenizer {
  const { file } = modelOf(parsed, refuse);
  const { added, eosId } = readAddedTokens(file, refuse, eosToken);
  const frame = readFrame(file.post_processor, added, refuse);
  refuseInexact(file, refuse);
  refuseGrowth(file, refuse);
  checkVocab(file.model as Json, refuse);
  const library = openLibrary(
    {
      ...file,
      model: withoutControl(file.model as Json, added),
      pre_tokenizer: exactPreTokenizer(file.pre_tokenizer, refuse),
      decoder: exactDecoder(file.decoder),
      added_tokens: [],
    },
    refuse,
  );
  const { model } = library;
  const addedById = new Map(added.map((token) => [token.id, token]));
  const vocabSize = Math.max(model.vocab.length, ...added.map(({ id }) => id + 1));

  const bytesFallBack = (file.model as Json).byte_fallback === true;
  const idsOfToken = (token: string): readonly (number | undefined)[] => {
    const id = model.tokens_to_ids.get(token);
    if (id !== undefined || !bytesFallBack) return [id ?? model.unk_token_id];
    // The library does this for BPE alone.
    const bytes = Array.from(Buffer.from(token), (byte) => model.tokens_to_ids.get(byteSpelling(byte)));
    return bytes.includes(undefined) ? [model.unk_token_id] : bytes;
  };
  const idsOf = pieceCache((piece) => {
    return Int32Array.from(
      model([piece])
        .flatMap(idsOfToken)
        .filter((id) => id !== undefined),
    );
  });
  const cutWords = wordCutter(model.vocab);
  // The text going on is no beginning: nothing is put before it.
  const goingOn = goingOnFile(file.normalizer);
  const normalizer = {
    start: library.normalizer,
    on: goingOn.changed ? openLibrary(goingOn.file, refuse).normalizer : library.normalizer,
  };

  const sectionsOf = (continues: boolean) =>
    addedTokenSplitter(added, (text, first) => {
      const use = first && continues ? normalizer.on : normalizer.start;
      return use === null ? text : use(text);
    });
  const sections = { start: sectionsOf(false), on: sectionsOf(true) };

  /** Ids of added tokens, and the words between them, which are merged each for itself. */
  function* words(raw: string, control: boolean, continues: boolean): Generator<number | string> {
    for (const section of (continues ? sections.on : sections.start)(raw.toWellFormed(), control)) {
      if ("id" in section) yield section.id;
      else if (section.text !== "") {
        const options = { section_index: section.first && !continues ? 0 : 1 };
        const pieces = library.pre_tokenizer === null ? [section.text] : library.pre_tokenizer(section.text, options);
        for (const piece of pieces) yield* cutWords(piece);
      }
    }
  }

  const spellsByte = isSpelledByte(file.model as Json);
  const source = {
    isControl: (id: number) => {
      const token = addedById.get(id);
      return token?.special === true && !spellsByte(token.content);
    },
    bytesOf: tokenBytes(file, library, addedById),
  };
  return {
    name,
    hash: createHash("sha256")
      .update(JSON.stringify([file, eosId]))
      .digest("hex"),
    vocabSize,
    eosId,
    frame,
    cutsAtSpaces: cutsAtSpaces((text, continues) => [...words(text, false, continues)], added),
    encode(raw, { control = false, continues = false, framed = false } = {}) {
      const ids: number[] = [];
      for (const word of words(raw, control, continues)) {
        if (typeof word === "number") ids.push(word);
        else for (const id of idsOf(word)) ids.push(id);
      }
      return framed ? framedIds(frame, Int32Array.from(ids)) : Int32Array.from(ids);
    },
    decode: (ids, options) => decodeBytes(source, ids, options),
    ...source,
  };
}

/** Parts of which the library makes something else than the reference does. */
function refuseInexact(file: Json, refuse: Refuse): void {
  const model = file.model as Json;
  if (model.dropout) refuse(`model.dropout=${model.dropout} draws ids at random`);
  if (model.type === "BPE" && model.continuing_subword_prefix) {
    refuse(
      `model.continuing_subword_prefix=${JSON.stringify(model.continuing_subword_prefix)} is not supported in BPE`,
    );
  }
  if (stepsOf(file.normalizer, "normalizers").some(({ type }) => type === "Precompiled")) {
    refuse('normalizer "Precompiled" (SentencePiece\'s own tables) is not supported');
  }
  for (const { type, pattern } of [...stepsOf(file.normalizer, "normalizers"), ...stepsOf(file.decoder, "decoders")]) {
    const source = isObject(pattern) ? (pattern.String ?? pattern.Regex) : undefined;
    if (type === "Replace" && typeof source !== "string") refuse(`a Replace of the pattern ${show(pattern)}`);
  }
  for (const { type } of stepsOf(file.decoder, "decoders")) {
    if (type === "BPEDecoder" || type === "CTC") refuse(`decoder ${JSON.stringify(type)} is not supported`);
  }
}

/** @throws UserError through `refuse` where the vocabulary has not the form that the model's type has */
function checkVocab({ type, vocab }: Json, refuse: Refuse): void {
  if (type === "Unigram") {
    const entries = list(vocab);
    const bad = entries.find((entry) => typeof list(entry)[0] !== "string" || typeof list(entry)[1] !== "number");
    if (entries.length === 0 || bad !== undefined) refuse("model.vocab is no list of tokens with scores");
  } else if (type === "BPE" || type === "WordPiece") {
    const entries = isObject(vocab) ? Object.entries(vocab) : refuse("model.vocab is no object of tokens with ids");
    for (const [token, id] of entries) checkedId(id, token, refuse);
  } else refuse(`model type ${show(type)} is not supported; BPE, Unigram and WordPiece are`);
}

/**
 * The model with its control tokens respelled by what no text holds (a lone surrogate), so that raw text never gives one. The
 * unknown token keeps its spelling, by which the model finds it, and so do tokens of single bytes.
 */
function withoutControl(model: Json, added: readonly AddedToken[]): Json {
  const control = new Set(added.filter(({ special }) => special).map(({ content }) => content));
  const spellsByte = isSpelledByte(model);
  const hidden = (token: unknown) =>
    control.has(token as string) && token !== model.unk_token && !spellsByte(token as string)
      ? `\ud800${token}`
      : token;
  const vocab = Array.isArray(model.vocab)
    ? model.vocab.map(([token, score]) => [hidden(token), score])
    : Object.fromEntries(Object.entries(model.vocab as Json).map(([token, id]) => [hidden(token), id]));
  return { ...model, vocab };
}

/** Whether a token stands for a byte of what the vocabulary lacks: text, though some files list it among the control tokens. */
const isSpelledByte = ({ byte_fallback }: Json) => {
  return (token: string): boolean => byte_fallback === true && byteToken.test(token);
};

/** The file with no vocabulary and with a normalizer that puts nothing before a text and takes nothing from its beginning. */
function goingOnFile(normalizer: unknown): { readonly changed: boolean; readonly file: Json } {
  const steps = stepsOf(normalizer, "normalizers");
  const normalizers = steps
    .filter(({ type }) => type !== "Prepend")
    .map((step) => (step.type === "Strip" ? { ...step, strip_left: false } : step));
  return {
    changed: steps.some(({ type }) => type === "Prepend" || type === "Strip"),
    file: {
      model: { type: "BPE", vocab: {}, merges: [] },
      normalizer: { type: "Sequence", normalizers },
      added_tokens: [],
    },
  };
}

function openLibrary(file: Json, refuse: Refuse): Library {
  const absent = { normalizer: null, pre_tokenizer: null, post_processor: null, decoder: null };
  try {
    const whole = { ...absent, ...file, post_processor: null };
    return new (libraryTokenizers().Tokenizer)(whole, { clean_up_tokenization_spaces: false }) as unknown as Library;
  } catch (error) {
    return refuse((error as Error).message);
  }
}

/**
 * SentencePiece's BPE takes a whole text as one piece, with ▁ for spaces. Where no token has a ▁ behind another character, no
 * merge crosses into a ▁, and words can be merged one by one: the same ids, and the cache helps.
 */
function wordCutter(vocab: Library["model"]["vocab"]): (piece: string) => readonly string[] {
  const cuts = vocab.includes("▁") && !vocab.some((token) => token !== undefined && /[^▁]▁/u.test(token));
  return (piece) => (cuts && piece.includes("▁") ? (piece.match(/▁*[^▁]+|▁+/gu) ?? []) : [piece]);
}
