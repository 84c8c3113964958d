/**
 * Pre-tokenizers of tokenizer.json, written with the few forms that the JavaScript library computes exactly. Its own forms of
 * the others differ from the reference (the Rust library) where it hurts: `Whitespace` and `Digits` know ASCII only,
 * `Punctuation` keeps runs together, `Metaspace` never splits, and `Split` takes every behaviour for "Isolated". All of them
 * can be said as `Split` by a regular expression.
 */

import { byteLevelPattern } from "./splitPattern.ts";
import { isObject, type Json, type Refuse, show } from "./tokenizerParts.ts";

const punctuation = "[\\p{P}!-/:-@\\[-`{-~]";
const anything = "[\\s\\S]";
/** What the reference takes for characters of words, inside a class: not what `\w` means in a Split, which is Oniguruma's. */
export const wordCharacters = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}";

/** The matches are pieces, and so is what lies between them. */
export const isolate = (Regex: string): Json => ({
  type: "Split",
  pattern: { Regex },
  behavior: "Isolated",
  invert: false,
});
const remove = (Regex: string): Json => ({ type: "Split", pattern: { Regex }, behavior: "Removed", invert: false });
/** The matches are the pieces; what lies between them is dropped. */
const keepMatches = (Regex: string): Json => ({ type: "Split", pattern: { Regex }, behavior: "Removed", invert: true });
const sequence = (...pretokenizers: readonly unknown[]): Json => ({ type: "Sequence", pretokenizers });
const escaped = (text: string) => text.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&");

/**
 * The same cuts in exact forms: Split, Metaspace without splitting, ByteLevel without its regex. null for none.
 * @param refuse called with what has no exact form
 */
export function exactPreTokenizer(step: unknown, refuse: Refuse): unknown {
  if (!isObject(step)) return null;
  switch (step.type) {
    case "Sequence": {
      const steps = Array.isArray(step.pretokenizers) ? step.pretokenizers : [];
      return sequence(...steps.map((inner) => exactPreTokenizer(inner, refuse)));
    }
    case "Split":
      return exactSplit(step, refuse);
    case "Digits":
      return isolate(step.individual_digits === true ? "\\p{N}" : "\\p{N}+");
    case "Punctuation":
      return exactSplit({ behavior: "Isolated", ...step, pattern: { Regex: punctuation } }, refuse);
    case "Whitespace":
      return keepMatches(`[${wordCharacters}]+|[^${wordCharacters}\\s]+`);
    case "WhitespaceSplit":
      return remove("\\s+");
    case "CharDelimiterSplit":
      return remove(escaped(textOf(step, "delimiter", refuse)));
    case "BertPreTokenizer":
      return sequence(remove("\\s+"), isolate(punctuation));
    case "Metaspace": {
      const replacement = textOf({ ...step, replacement: step.replacement ?? "▁" }, "replacement", refuse);
      if ([...replacement].length !== 1)
        refuse(`pre_tokenizer "Metaspace" has the replacement ${show(replacement)}, and must have one character`);
      const mark = escaped(replacement);
      // Older files say add_prefix_space where newer ones have prepend_scheme.
      const scheme = step.prepend_scheme ?? (step.add_prefix_space === false ? "never" : "always");
      const spaces = { ...step, prepend_scheme: scheme };
      return step.split === false ? spaces : sequence(spaces, keepMatches(`${mark}[^${mark}]*|[^${mark}]+`));
    }
    case "ByteLevel": {
      const bytes = { ...step, use_regex: false };
      if (step.use_regex === false) return bytes;
      if (step.add_prefix_space !== true) return sequence(isolate(byteLevelPattern), bytes);
      return step; // the space comes before the cuts, which no Split can say; bpeTokenizer.ts does it
    }
    default:
      return refuse(`pre_tokenizer ${show(step.type)} is not supported`);
  }
}

function textOf(step: Json, key: string, refuse: Refuse): string {
  const value = step[key];
  return typeof value === "string" ? value : refuse(`pre_tokenizer ${show(step.type)} has the ${key} ${show(value)}`);
}

function exactSplit(step: Json, refuse: Refuse): Json {
  const { pattern, behavior } = step;
  const source = !isObject(pattern)
    ? undefined
    : typeof pattern.String === "string"
      ? escaped(pattern.String)
      : typeof pattern.Regex === "string"
        ? pattern.Regex
        : undefined;
  if (source === undefined) return refuse("a Split without a String or Regex pattern");
  const match = `(?:${source})`;
  const between = `(?:(?!${match})${anything})`;
  if (step.invert === true) {
    if (behavior === "Removed") return keepMatches(source);
    if (behavior !== "Isolated") return refuse(`a Split ${show(behavior)} with invert=true is not supported`);
  }
  switch (behavior) {
    case "Removed":
      return remove(source);
    case "Isolated":
      return isolate(source);
    case "MergedWithPrevious":
      return keepMatches(`${anything}*?${match}|${anything}+`);
    case "MergedWithNext":
      return keepMatches(`${match}${between}*|${between}+`);
    case "Contiguous":
      return keepMatches(`${match}+|${between}+`);
    default:
      return refuse(`a Split with the behavior ${show(behavior)}`);
  }
}
