/** What each token of a tokenizer.json spells, by the file's decoder as Hugging Face's JavaScript library computes it. */
import type { AddedToken } from "./addedTokens.ts";
import { unspellBytes } from "./byteAlphabet.ts";
import type { Tokenizer } from "./tokenizer.ts";
import { isObject, type Json, list, stepsOf } from "./tokenizerParts.ts";

/** What we use of the library. */
export interface Library {
  readonly normalizer: ((text: string) => string) | null;
  /** @param section_index 0 at the beginning of the text */
  readonly pre_tokenizer: ((text: string, options: { readonly section_index: number }) => string[]) | null;
  readonly model: {
    (pieces: readonly string[]): string[];
    readonly vocab: readonly (string | undefined)[];
    readonly tokens_to_ids: ReadonlyMap<string, number>;
    readonly unk_token_id?: number;
  };
  readonly decoder: { decode(tokens: readonly string[]): string } | null;
}

/** A byte that is no part of a token, spelled as one. */
export const byteToken = /^<0x([0-9A-F]{2})>$/;
export const byteSpelling = (byte: number) => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`;

/** The library takes a space from the start of every text, also where none was put before it. */
export function exactDecoder(decoder: unknown): unknown {
  if (!isObject(decoder)) return null;
  if (decoder.type === "Sequence") return { ...decoder, decoders: list(decoder.decoders).map(exactDecoder) };
  const never = decoder.prepend_scheme === "never" || decoder.add_prefix_space === false;
  if (decoder.type !== "Metaspace" || !never) return decoder;
  return { type: "Replace", pattern: { String: decoder.replacement ?? "▁" }, content: " " };
}

/**
 * The bytes of each token, learnt from the library's decoder: what a token adds behind another one, and what it is at the
 * start of a text, where SentencePiece's decoders drop a space.
 */
export function tokenBytes(file: Json, library: Library, added: ReadonlyMap<number, AddedToken>): Tokenizer["bytesOf"] {
  const { vocab } = library.model;
  const byteLevel = stepsOf(file.decoder, "decoders").some(({ type }) => type === "ByteLevel");
  const byteFallback = isObject(file.model) && file.model.byte_fallback === true;
  const textOf = (...tokens: readonly string[]) => library.decoder?.decode(tokens) ?? tokens.join(" ");
  const anchor = vocab.find((token) => token !== undefined && !byteToken.test(token) && /[a-z]$/.test(textOf(token)));
  const spellings = new Map(
    [...added].map(([id, { content, normalized }]) => [
      id,
      normalized ? (library.normalizer?.(content) ?? content) : content,
    ]),
  );
  const compute = (id: number, atStart: boolean): Uint8Array => {
    const token = spellings.get(id) ?? vocab[id];
    if (token === undefined) return new Uint8Array();
    if (byteLevel) return (spellings.has(id) ? undefined : unspellBytes(token)) ?? Buffer.from(token);
    const byte = byteFallback ? byteToken.exec(token) : null;
    if (byte !== null) return Uint8Array.of(Number.parseInt(byte[1]!, 16));
    if (atStart || anchor === undefined) return Buffer.from(textOf(token));
    return Buffer.from(textOf(anchor, token).slice(textOf(anchor).length));
  };
  const [inside, start] = [new Map<number, Uint8Array>(), new Map<number, Uint8Array>()];
  return (id, atStart = false) => {
    const known = (atStart ? start : inside).get(id);
    if (known !== undefined) return known;
    const bytes = compute(id, atStart);
    (atStart ? start : inside).set(id, bytes);
    return bytes;
  };
}
