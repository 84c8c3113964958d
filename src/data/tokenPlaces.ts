/** Where in a text each of its tokens lies. */
import type { TextSpan } from "./chatTemplate.ts";
import type { Tokenizer } from "./tokenizer.ts";

export interface PlacedTokens {
  readonly ids: Int32Array;
  /** Each token's first character and the one behind its last, in UTF-16 units; a token of part of a character has all of it. */
  readonly starts: Int32Array;
  readonly ends: Int32Array;
}

/**
 * Ids of a text whose control tokens count, with their places. They come from walking the text along the tokens' bytes. Where
 * those are not the text's (a normalizer changed it), the text is encoded in parts cut at `cuts`, and a token's place is its part.
 */
export function tokenPlaces(tokenizer: Tokenizer, text: string, cuts: readonly TextSpan[]): PlacedTokens {
  const ids = tokenizer.encode(text, { control: true });
  return walk(tokenizer, text, ids) ?? inParts(tokenizer, text, cuts);
}

/** undefined where the tokens' bytes are not the text's. */
function walk(tokenizer: Tokenizer, text: string, ids: Int32Array): PlacedTokens | undefined {
  const bytes = Buffer.from(text.toWellFormed());
  const [byteStarts, byteEnds] = [new Int32Array(ids.length), new Int32Array(ids.length)];
  let at = 0;
  for (let i = 0; i < ids.length; i++) {
    let token = tokenizer.bytesOf(ids[i]!, i === 0);
    byteStarts[i] = at;
    const fits = () => bytes.compare(token, 0, token.length, at, Math.min(at + token.length, bytes.length)) === 0;
    if (!fits()) {
      // A space that the tokenizer put before the text, or white space that an added token takes with it.
      if (token[0] === space && token.length > 1 && bytes[at] !== space) token = token.subarray(1);
      while (!fits() && isWhite(bytes[at])) at++;
      if (!fits()) return undefined;
    }
    at += token.length;
    byteEnds[i] = at;
  }
  while (isWhite(bytes[at])) at++;
  if (at !== bytes.length) return undefined;
  const units = unitsOf(text, bytes.length);
  return {
    ids,
    starts: byteStarts.map((byte) => units.from[byte]!),
    ends: byteEnds.map((byte, i) => (byte === byteStarts[i] ? units.from[byte]! : units.to[byte]!)),
  };
}

const space = 0x20;
const isWhite = (byte: number | undefined) => byte === space || (byte !== undefined && byte >= 9 && byte <= 13);

/** For each place between bytes: the unit where the character that holds the next byte begins, and where that of the last one ends. */
function unitsOf(text: string, numBytes: number) {
  const [from, to] = [new Int32Array(numBytes + 1), new Int32Array(numBytes + 1)];
  let [byte, unit] = [0, 0];
  for (const character of text) {
    const length = Buffer.byteLength(character);
    from.fill(unit, byte, byte + length);
    unit += character.length;
    to.fill(unit, byte + 1, byte + length + 1);
    byte += length;
  }
  from[numBytes] = unit;
  return { from, to };
}

function inParts(tokenizer: Tokenizer, text: string, cuts: readonly TextSpan[]): PlacedTokens {
  const borders = [...new Set([0, ...cuts.flatMap(({ start, end }) => [start, end]), text.length])];
  const [ids, starts, ends]: [number[], number[], number[]] = [[], [], []];
  for (let i = 0; i + 1 < borders.length; i++) {
    const [start, end] = [borders[i]!, borders[i + 1]!];
    for (const id of tokenizer.encode(text.slice(start, end), { control: true, continues: start > 0 })) {
      ids.push(id);
      starts.push(start);
      ends.push(end);
    }
  }
  return { ids: Int32Array.from(ids), starts: Int32Array.from(starts), ends: Int32Array.from(ends) };
}
