/**
 * Added tokens: tokens of a tokenizer.json that are found in the text as they are spelled, before any merging. The special
 * ones among them (the end of a document, of a turn) are control tokens: in raw text they are ordinary characters, unless
 * parsing them is asked for. The others always count.
 */

import { wordCharacters } from "./exactPreTokenizer.ts";

export interface AddedToken {
  readonly id: number;
  readonly content: string;
  /** A control token. */
  readonly special: boolean;
  /** Looked for in the normalised text instead of the raw one. */
  readonly normalized: boolean;
  /** White space before it, or behind it, belongs to it. */
  readonly lstrip: boolean;
  readonly rstrip: boolean;
  /** Counts between word boundaries only. */
  readonly singleWord: boolean;
}

/** A control token as training writes it: nothing but its spelling. */
export function controlToken(id: number, content: string): AddedToken {
  return { id, content, special: true, normalized: false, lstrip: false, rstrip: false, singleWord: false };
}

/** Text between added tokens, or one of them. */
export type Section = { readonly text: string } | { readonly id: number };

const wordBefore = new RegExp(`[${wordCharacters}]$`, "u");
const wordBehind = new RegExp(`^[${wordCharacters}]`, "u");
const whiteSpace = /\p{White_Space}/u;

/** Cuts text at the spellings of `tokens`: the leftmost first, and the longest of those. */
function finder(tokens: readonly AddedToken[]): ((text: string) => Iterable<Section>) | undefined {
  if (tokens.length === 0) return undefined;
  const bySpelling = new Map(tokens.map((token) => [token.content, token]));
  const spellings = [...bySpelling.keys()]
    .sort((a, b) => b.length - a.length)
    .map((spelling) => spelling.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
  const pattern = new RegExp(spellings.join("|"), "gu");
  return function* (text) {
    let done = 0;
    for (const match of text.matchAll(pattern)) {
      const token = bySpelling.get(match[0])!;
      let [start, end] = [match.index, match.index + match[0].length];
      if (start < done) continue; // within the white space that belongs to the token before
      if (
        token.singleWord &&
        (wordBefore.test(text.slice(0, start).slice(-2)) || wordBehind.test(text.slice(end, end + 2)))
      )
        continue;
      while (token.lstrip && start > done && whiteSpace.test(text[start - 1]!)) start--;
      while (token.rstrip && end < text.length && whiteSpace.test(text[end]!)) end++;
      if (start > done) yield { text: text.slice(done, start) };
      yield { id: token.id };
      done = end;
    }
    if (done < text.length) yield { text: text.slice(done) };
  };
}

/**
 * How a tokenizer cuts a text into added tokens and normalised text between them.
 * @param normalize of a section of raw text; `first` where it is the beginning of the text
 */
export function addedTokenSplitter(tokens: readonly AddedToken[], normalize: (text: string, first: boolean) => string) {
  const find = (special: boolean) => {
    const among = special ? tokens : tokens.filter((token) => !token.special);
    return {
      inRaw: finder(among.filter(({ normalized }) => !normalized)),
      inNormalized: finder(
        among
          .filter(({ normalized }) => normalized)
          .map((token) => ({ ...token, content: normalize(token.content, true) })),
      ),
    };
  };
  const [ordinary, withControl] = [find(false), find(true)];
  return function* (text: string, control: boolean): Generator<Section & { readonly first?: boolean }> {
    if (text === "") return; // a normalizer may put something before it
    const { inRaw, inNormalized } = control ? withControl : ordinary;
    let first = true;
    for (const section of inRaw?.(text) ?? [{ text }]) {
      if ("id" in section) yield section;
      else {
        const normalized = normalize(section.text, first);
        for (const part of inNormalized?.(normalized) ?? [{ text: normalized }]) {
          yield "id" in part ? part : { ...part, first };
          first = false;
        }
      }
      first = false;
    }
  };
}
