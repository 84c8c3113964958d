/** Which tokens of a text lie in spans of it. */
import type { TextSpan } from "./chatTemplate.ts";
import type { Tokenizer } from "./tokenizer.ts";

export interface MarkedTokens {
  readonly ids: Int32Array;
  /** 1 for each token that overlaps a span. */
  readonly mask: Uint8Array;
}

/**
 * Ids of a text whose control tokens count, and which of them overlap `spans` (in order, apart). They are found by walking the text
 * along the tokens' bytes. Where those are not the text's (a normalizer changed it), the text is encoded in parts cut at the spans.
 */
export function markTokens(tokenizer: Tokenizer, text: string, spans: readonly TextSpan[]): MarkedTokens {
  const ids = tokenizer.encode(text, { control: true });
  const mask = walk(tokenizer, text, ids, spans);
  return mask === undefined ? inParts(tokenizer, text, spans) : { ids, mask };
}

/** undefined where the tokens' bytes are not the text's. */
function walk(tokenizer: Tokenizer, text: string, ids: Int32Array, spans: readonly TextSpan[]): Uint8Array | undefined {
  const bytes = Buffer.from(text.toWellFormed());
  const byteSpans = inBytes(text, spans);
  const mask = new Uint8Array(ids.length);
  let [at, next] = [0, 0];
  for (let i = 0; i < ids.length; i++) {
    let token = tokenizer.bytesOf(ids[i]!, i === 0);
    const start = at;
    if (!isAt(bytes, at, token)) {
      // A space that the tokenizer put before the text, or white space that an added token takes with it.
      if (token[0] === space && token.length > 1 && bytes[at] !== space) token = token.subarray(1);
      while (!isAt(bytes, at, token) && isWhite(bytes[at])) at++;
      if (!isAt(bytes, at, token)) return undefined;
    }
    at += token.length;
    while (next < byteSpans.length && byteSpans[next]!.end <= start) next++;
    if (next < byteSpans.length && at > byteSpans[next]!.start) mask[i] = 1;
  }
  while (isWhite(bytes[at])) at++;
  return at === bytes.length ? mask : undefined;
}

const space = 0x20;
const isWhite = (byte: number | undefined) => byte === space || (byte !== undefined && byte >= 9 && byte <= 13);

function isAt(bytes: Uint8Array, at: number, token: Uint8Array): boolean {
  for (let i = 0; i < token.length; i++) if (bytes[at + i] !== token[i]) return false;
  return true;
}

/** The spans of a text, which begin and end between characters, in bytes of its UTF-8. */
function inBytes(text: string, spans: readonly TextSpan[]): TextSpan[] {
  let [unit, byte] = [0, 0];
  const byteAt = (to: number) => {
    byte += Buffer.byteLength(text.slice(unit, to));
    unit = to;
    return byte;
  };
  return spans.map(({ start, end }) => ({ start: byteAt(start), end: byteAt(end) }));
}

function inParts(tokenizer: Tokenizer, text: string, spans: readonly TextSpan[]): MarkedTokens {
  const ids: number[] = [];
  const mask: number[] = [];
  const append = (start: number, end: number, mark: number) => {
    if (start === end) return;
    for (const id of tokenizer.encode(text.slice(start, end), { control: true, continues: start > 0 })) {
      ids.push(id);
      mask.push(mark);
    }
  };
  let done = 0;
  for (const { start, end } of spans) {
    append(done, start, 0);
    append(start, end, 1);
    done = end;
  }
  append(done, text.length, 0);
  return { ids: Int32Array.from(ids), mask: Uint8Array.from(mask) };
}
