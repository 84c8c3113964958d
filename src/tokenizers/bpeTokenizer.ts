/** Byte-level BPE: split the text, look each pre-token up in a cache, merge the ones not seen before. */
import { createHash } from "node:crypto";
import { UserError } from "../base/errors.ts";
import { type AddedToken, addedTokenSplitter } from "./addedTokens.ts";
import { mergePairs } from "./bpeMerge.ts";
import { type Frame, framedIds, isFramed } from "./frame.ts";
import { pieceCache } from "./pieceCache.ts";
import { cutsAtSpaces } from "./spaceCuts.ts";
import { translateSplitPattern } from "./splitPattern.ts";
import { decodeBytes, type Tokenizer } from "./tokenizer.ts";

/** A byte-level BPE vocabulary as plain data. */
export interface BpeModel {
  /** Bytes of each token by id; undefined for ids without one of these (added tokens, gaps). */
  readonly tokens: readonly (Uint8Array | undefined)[];
  /** Merges in the order they were learned. */
  readonly merges: readonly { readonly left: number; readonly right: number; readonly merged: number }[];
  /** Their ids lie within 0..tokens.length-1. */
  readonly added: readonly AddedToken[];
  readonly eosId: number;
  /** In tokenizer.json's dialect; each cuts the pieces of the one before. */
  readonly splitPatterns: readonly string[];
  /** A text that begins with no space gets one. */
  readonly prefixSpace: boolean;
  /** A pre-token that is itself a token is not merged from its bytes. */
  readonly ignoreMerges: boolean;
  /** Unicode normalisation before anything else. */
  readonly normalization: "NFC" | "none";
  /** Put around a text on demand. */
  readonly frame: Frame;
}

export function bpeTokenizer(model: BpeModel, name: string): Tokenizer {
  const vocabSize = model.tokens.length;
  const splits = model.splitPatterns.map(translateSplitPattern);
  const idOfByte = byteIds(model, name);
  const wholeTokens = new Map<string, number>();
  if (model.ignoreMerges) {
    model.tokens.forEach((bytes, id) => {
      if (bytes !== undefined) wholeTokens.set(Buffer.from(bytes).toString("latin1"), id);
    });
  }
  const table = {
    rankOfPair: new Map<number, number>(),
    mergedId: Int32Array.from(model.merges, ({ merged }) => merged),
    vocabSize,
  };
  model.merges.forEach(({ left, right }, rank) => {
    const pair = left * vocabSize + right;
    if (!table.rankOfPair.has(pair)) table.rankOfPair.set(pair, rank);
  });

  const idsOf = pieceCache((piece) => {
    const bytes = Buffer.from(piece);
    const whole = model.ignoreMerges ? wholeTokens.get(bytes.toString("latin1")) : undefined;
    if (whole !== undefined) return Int32Array.of(whole);
    return mergePairs(
      Int32Array.from(bytes, (byte) => idOfByte[byte]!).filter((id) => id >= 0),
      table,
    );
  });

  let buffer = new Int32Array(1 << 12);
  let used = 0;
  const reserve = (count: number) => {
    if (used + count <= buffer.length) return;
    const grown = new Int32Array(Math.max(used + count, 2 * buffer.length));
    grown.set(buffer.subarray(0, used));
    buffer = grown;
  };
  const append = (piece: string) => {
    const ids = idsOf(piece);
    reserve(ids.length);
    for (let i = 0; i < ids.length; i++) buffer[used++] = ids[i]!;
  };
  /** Gives what the patterns from `level` on make of a piece that those before have cut. */
  const cut = (piece: string, level: number, take: (piece: string) => void) => {
    const split = splits[level];
    if (split === undefined) {
      take(piece);
      return;
    }
    let end = 0; // text between matches belongs to no alternative and is a piece of its own
    // Not split.lastIndex: a pattern may occur at two levels.
    for (const match of piece.matchAll(split)) {
      if (match[0].length === 0) continue;
      if (match.index > end) cut(piece.slice(end, match.index), level + 1, take);
      cut(match[0], level + 1, take);
      end = match.index + match[0].length;
    }
    if (end < piece.length) cut(piece.slice(end), level + 1, take);
  };

  const sections = addedTokenSplitter(model.added, (text) =>
    model.normalization === "NFC" ? text.normalize("NFC") : text,
  );
  const prefixed = (text: string) => (model.prefixSpace && text !== "" && text[0] !== " " ? ` ${text}` : text);
  const piecesOf = (text: string) => {
    const pieces: string[] = [];
    cut(prefixed(text), 0, (piece) => pieces.push(piece));
    return pieces;
  };
  const added = new Map(model.added.map((token) => [token.id, { ...token, bytes: Buffer.from(token.content) }]));
  const none = new Uint8Array();
  const source = {
    isControl: (id: number) => added.get(id)?.special === true,
    bytesOf: (id: number) => added.get(id)?.bytes ?? model.tokens[id] ?? none,
  };
  return {
    name,
    hash: hashOf(model),
    vocabSize,
    eosId: model.eosId,
    frame: model.frame,
    cutsAtSpaces: model.merges.length === 0 || cutsAtSpaces(piecesOf, model.added),
    encode(text, { control = false, framed = false } = {}) {
      used = 0;
      for (const section of sections(text.toWellFormed(), control)) {
        if ("text" in section) cut(prefixed(section.text), 0, append);
        else {
          reserve(1);
          buffer[used++] = section.id;
        }
      }
      const ids = buffer.slice(0, used);
      return framed ? framedIds(model.frame, ids) : ids;
    },
    decode: (ids, options) => decodeBytes(source, ids, options),
    ...source,
  };
}

/** Ids of single bytes; −1 for one without a token, which the text loses, as with Hugging Face's library: SmolLM2 has 21. */
function byteIds(model: BpeModel, name: string): Int32Array {
  const ids = new Int32Array(256).fill(-1);
  model.tokens.forEach((bytes, id) => {
    if (bytes?.length === 1) ids[bytes[0]!] = id;
  });
  const missing = ids.findIndex((id, byte) => id < 0 && isUsual(byte));
  if (missing >= 0) {
    throw new UserError(
      "E_TOKENIZER",
      `${name}: no token for the byte 0x${missing.toString(16).padStart(2, "0")}; a byte-level vocabulary has all of usual texts`,
    );
  }
  return ids;
}

/** Printable ASCII and the white space of texts. */
const isUsual = (byte: number): boolean => (byte >= 0x20 && byte < 0x7f) || byte === 0x09 || byte === 0x0a;

function hashOf(model: BpeModel): string {
  const hash = createHash("sha256");
  const { splitPatterns, prefixSpace, ignoreMerges, normalization, eosId, added, frame } = model;
  const rules = [splitPatterns, prefixSpace, ignoreMerges, normalization, eosId, added];
  hash.update(JSON.stringify(isFramed(frame) ? [...rules, frame] : rules));
  model.tokens.forEach((bytes, id) => {
    hash.update(`\n${id}:`);
    if (bytes !== undefined) hash.update(bytes);
  });
  for (const { left, right, merged } of model.merges) hash.update(`\n${left},${right},${merged}`);
  return hash.digest("hex");
}
