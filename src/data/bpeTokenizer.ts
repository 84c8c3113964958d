/** Byte-level BPE: split the text, look each pre-token up in a cache, merge the ones not seen before. */
import { createHash } from "node:crypto";
import { UserError } from "../base/errors.ts";
import { mergePairs } from "./bpeMerge.ts";
import { translateSplitPattern } from "./splitPattern.ts";
import { decodeBytes, type Tokenizer } from "./tokenizer.ts";

/** A byte-level BPE vocabulary as plain data. */
export interface BpeModel {
  /** Bytes of each token by id; undefined for ids without an ordinary token (control tokens, gaps). */
  readonly tokens: readonly (Uint8Array | undefined)[];
  /** Merges in the order they were learned. */
  readonly merges: readonly { readonly left: number; readonly right: number; readonly merged: number }[];
  /** Control tokens' spellings by id; ids lie within 0..tokens.length-1. */
  readonly control: ReadonlyMap<number, string>;
  readonly eosId: number;
  /** In tokenizer.json's dialect. */
  readonly splitPattern: string;
  /** A pre-token that is itself a token is not merged from its bytes. */
  readonly ignoreMerges: boolean;
  /** Unicode normalisation before anything else. */
  readonly normalization: "NFC" | "none";
}

const cachedLength = 64; // UTF-16 units; longer pre-tokens are rare and not worth remembering
const cachedEntries = 1 << 17;

export function bpeTokenizer(model: BpeModel, name: string): Tokenizer {
  const vocabSize = model.tokens.length;
  const split = translateSplitPattern(model.splitPattern);
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

  const cache = new Map<string, Int32Array>();
  const encodePreToken = (piece: string): Int32Array => {
    const bytes = Buffer.from(piece);
    const whole = model.ignoreMerges ? wholeTokens.get(bytes.toString("latin1")) : undefined;
    if (whole !== undefined) return Int32Array.of(whole);
    return mergePairs(
      Int32Array.from(bytes, (byte) => idOfByte[byte]!),
      table,
    );
  };
  const lookUp = (piece: string): Int32Array => {
    const known = cache.get(piece);
    if (known !== undefined) return known;
    const ids = encodePreToken(piece);
    if (piece.length <= cachedLength) {
      if (cache.size >= cachedEntries) cache.clear();
      cache.set(piece, ids);
    }
    return ids;
  };

  let buffer = new Int32Array(1 << 12);
  let used = 0;
  const reserve = (count: number) => {
    if (used + count <= buffer.length) return;
    const grown = new Int32Array(Math.max(used + count, 2 * buffer.length));
    grown.set(buffer.subarray(0, used));
    buffer = grown;
  };
  const appendText = (raw: string) => {
    const text = model.normalization === "NFC" ? raw.normalize("NFC") : raw;
    let end = 0; // text between matches belongs to no alternative and is a pre-token of its own
    const append = (piece: string) => {
      const ids = lookUp(piece);
      reserve(ids.length);
      for (let i = 0; i < ids.length; i++) buffer[used++] = ids[i]!;
    };
    split.lastIndex = 0;
    for (let match = split.exec(text); match !== null; match = split.exec(text)) {
      if (match[0].length === 0) {
        split.lastIndex++;
        continue;
      }
      if (match.index > end) append(text.slice(end, match.index));
      append(match[0]);
      end = match.index + match[0].length;
    }
    if (end < text.length) append(text.slice(end));
  };

  const controlBytes = new Map([...model.control].map(([id, spelling]) => [id, Buffer.from(spelling)]));
  const controlIds = new Map([...model.control].map(([id, spelling]) => [spelling, id]));
  const controlPattern = patternOf([...controlIds.keys()]);
  const none = new Uint8Array();
  const source = {
    isControl: (id: number) => model.control.has(id),
    bytesOf: (id: number) => controlBytes.get(id) ?? model.tokens[id] ?? none,
  };
  return {
    name,
    hash: hashOf(model),
    vocabSize,
    eosId: model.eosId,
    encode(text, options) {
      used = 0;
      if (options?.control && controlPattern !== undefined) {
        for (const piece of text.split(controlPattern)) {
          const id = controlIds.get(piece);
          if (id === undefined) appendText(piece);
          else {
            reserve(1);
            buffer[used++] = id;
          }
        }
      } else appendText(text);
      return buffer.slice(0, used);
    },
    decode: (ids, options) => decodeBytes(source, ids, options),
    ...source,
  };
}

/** Matches any of the spellings, the longest first; captured, so that `split` keeps them. */
function patternOf(spellings: readonly string[]): RegExp | undefined {
  if (spellings.length === 0) return undefined;
  const escaped = [...spellings]
    .sort((a, b) => b.length - a.length)
    .map((spelling) => spelling.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
  return new RegExp(`(${escaped.join("|")})`, "u");
}

function byteIds(model: BpeModel, name: string): Int32Array {
  const ids = new Int32Array(256).fill(-1);
  model.tokens.forEach((bytes, id) => {
    if (bytes?.length === 1) ids[bytes[0]!] = id;
  });
  const missing = ids.indexOf(-1);
  if (missing >= 0) {
    throw new UserError(
      "E_TOKENIZER",
      `${name}: no token for the byte 0x${missing.toString(16).padStart(2, "0")}; a byte-level vocabulary has all 256`,
    );
  }
  return ids;
}

function hashOf(model: BpeModel): string {
  const hash = createHash("sha256");
  hash.update(JSON.stringify([model.splitPattern, model.ignoreMerges, model.normalization, model.eosId]));
  model.tokens.forEach((bytes, id) => {
    hash.update(`\n${id}:${model.control.get(id) ?? ""}:`);
    if (bytes !== undefined) hash.update(bytes);
  });
  for (const { left, right, merged } of model.merges) hash.update(`\n${left},${right},${merged}`);
  return hash.digest("hex");
}
