/**
 * Regular expressions of a tokenizer.json that take longer than any text lasts: JavaScript's engine tries every way to match, and of
 * some expressions there are 2^length. Those in wide use are known to be quick; a tokenizer with another one is tried with texts made
 * to harm when it is loaded, and every text it encodes has a limit of time.
 */

import { byteLevelPattern, defaultSplitPattern } from "./splitPattern.ts";
import { withinSeconds } from "./timeLimit.ts";
import type { Tokenizer } from "./tokenizer.ts";
import { isObject, type Json, type Refuse, show } from "./tokenizerParts.ts";

const upper = "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]";
const lower = "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]";
const contraction = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?";
const known: ReadonlySet<string> = new Set([
  byteLevelPattern,
  defaultSplitPattern,
  defaultSplitPattern.replace("{1,3}", ""),
  // GPT-2's, otherwise spelt
  byteLevelPattern.replace("'s|'t|'re|'ve|'m|'ll|'d", "'(?:[sdmt]|ll|ve|re)"),
  // Mistral's Tekken
  `[^\\r\\n\\p{L}\\p{N}]?${upper}*${lower}+|[^\\r\\n\\p{L}\\p{N}]?${upper}+${lower}*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`,
  // DeepSeek-V3's, beside runs of digits and of Chinese and Japanese
  "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
  // GPT-4o's
  `[^\\r\\n\\p{L}\\p{N}]?${upper}*${lower}+${contraction}|[^\\r\\n\\p{L}\\p{N}]?${upper}+${lower}*${contraction}|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`,
  ...[" {2,}", " +", "\\s+", "\\p{N}+", "\\d+", "[\\r\\n]+"],
]);

/** One that repeats nothing and groups nothing, or is a run of one kind of character, takes a time by its own length. */
function isQuick(pattern: string): boolean {
  if (known.has(pattern)) return true;
  // A letter for each character, class and escape.
  const shape = pattern.replace(/\\[pP]\{[^}]*\}|\\.|\[(?:\\.|[^\]\\])*\]/gsu, "x");
  return (
    pattern.length <= longestQuick && (!/[*+{?()]/.test(shape) || /^.(?:[*+]|\{\d{1,2}(?:,\d{0,2})?\})$/su.test(shape))
  );
}

const longestQuick = 1000;

/** The expressions of a part of the file that are not known to be quick. */
function doubtful(part: unknown): string[] {
  if (Array.isArray(part)) return part.flatMap(doubtful);
  if (!isObject(part)) return [];
  const own = typeof part.Regex === "string" && !isQuick(part.Regex) ? [part.Regex] : [];
  return [...own, ...Object.values(part).flatMap(doubtful)];
}

export interface Patience {
  /** For any text. Default: 10. */
  readonly seconds?: number;
  /** For a text made to harm, when the tokenizer is loaded. Default: 2. */
  readonly trialSeconds?: number;
}

/** A fortieth of what the quick expressions do. */
const charactersASecond = 50_000;

/**
 * The tokenizer that `build` gives, with limits of time where its file has expressions that may need one.
 * @param file the parsed tokenizer.json. @throws UserError through `refuse`, now or in encoding, that names the expression
 */
export function withPatternLimits(
  file: Json,
  refuse: Refuse,
  build: () => Tokenizer,
  { seconds = 10, trialSeconds = 2 }: Patience = {},
): Tokenizer {
  const encoding = [file.normalizer, file.pre_tokenizer].flatMap(doubtful);
  const decoding = doubtful(file.decoder);
  const all = [...encoding, ...decoding];
  if (all.length === 0) return build();
  const limited = <T>(patterns: readonly string[], patience: number, size: number, work: () => T): T => {
    const result = withinSeconds(patience + size / charactersASecond, work);
    if ("value" in result) return result.value;
    const names = [...new Set(patterns)].map(show);
    return refuse(
      `the regular expression ${names.join(" or ")} takes more than ${Number(result.seconds.toPrecision(2))} s for a text of ${size} characters: one that repeats what is repeated itself, such as (a+)+, may try every way to match; use a tokenizer with another one`,
    );
  };
  const tokenizer = limited(all, seconds, 1, build);
  for (const text of encoding.length === 0 ? [] : trials(encoding)) {
    limited(encoding, trialSeconds, text.length, () => tokenizer.encode(text));
  }
  return {
    ...tokenizer,
    ...(encoding.length > 0 && {
      encode: (text, options) => limited(encoding, seconds, text.length, () => tokenizer.encode(text, options)),
    }),
    ...(decoding.length > 0 && {
      decode: (ids, options) => limited(decoding, seconds, ids.length, () => tokenizer.decode(ids, options)),
      bytesOf: (id, atStart) => limited(decoding, seconds, 1, () => tokenizer.bytesOf(id, atStart)),
    }),
  };
}

/** Long runs of what the expressions name, and of each kind of character, with something else behind them. */
function trials(patterns: readonly string[]): string[] {
  const named =
    patterns
      .join("")
      .replace(/\\[pP]\{[^}]*\}|\\./g, "")
      .match(/[\p{L}\p{N}_'#-]/gu) ?? [];
  const characters = [...new Set([..."aA1 \n!日", ...named])].slice(0, 24);
  return characters.flatMap((one) => [`${one.repeat(1000)}\u0001`, `${`${one}${one} `.repeat(350)}\u0001`]);
}
