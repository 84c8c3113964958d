/**
 * The regular expression that cuts text into pre-tokens (no merge crosses a cut), read from the dialect of
 * tokenizer.json files (Oniguruma) and written in JavaScript's. They differ where it hurts: in JavaScript \s lacks
 * U+0085 and holds U+FEFF, and Node 20 has no (?i:…).
 */
import { UserError } from "../base/errors.ts";

/** What the trainer uses: Llama 3's cuts (contractions, letter runs, up to three digits, punctuation, line ends). */
export const defaultSplitPattern =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

/** GPT-2's cuts, which ByteLevel with `use_regex` means. */
export const byteLevelPattern = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/** Unicode's White_Space, as the inside of a character class. */
const whiteSpace = "\\t-\\r \\u0085\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";

/** Letters whose other-case form lies outside ASCII: ſ folds to s, the Kelvin sign to k. */
const foldsBeyondAscii: Record<string, string> = { s: "\\u017f", k: "\\u212a" };

const bothCases = (letter: string) => {
  const lower = letter.toLowerCase();
  return `[${lower}${lower.toUpperCase()}${foldsBeyondAscii[lower] ?? ""}]`;
};

function refuse(source: string, what: string): never {
  throw new UserError(
    "E_TOKENIZER",
    `the tokenizer's split pattern ${JSON.stringify(source)} uses ${what}, which is not supported; supported are the patterns of the GPT-2, Llama 3 and Qwen 2 families`,
  );
}

/** A global JavaScript regex that cuts as the tokenizer.json pattern `source` does. @throws UserError if it can't. */
export function translateSplitPattern(source: string): RegExp {
  let out = "";
  let inClass = false;
  let foldDepth = 0; // parentheses open since "(?i:", 0 outside
  let afterQuantifier = false;
  for (let i = 0; i < source.length; i++) {
    const char = source[i]!;
    const quantifier = inClass ? undefined : source.slice(i).match(/^(?:[?*+]|\{\d+(?:,\d*)?\})/)?.[0];
    if (quantifier !== undefined && source[i - 1] !== "(") {
      if (afterQuantifier && quantifier !== "?") refuse(source, "a possessive quantifier");
      afterQuantifier = !afterQuantifier;
      out += quantifier;
      i += quantifier.length - 1;
      continue;
    }
    afterQuantifier = false;
    if (char === "\\") {
      const escaped = source[++i] ?? refuse(source, "a trailing backslash");
      if (escaped === "s") out += inClass ? whiteSpace : `[${whiteSpace}]`;
      else if (escaped === "S") out += inClass ? refuse(source, "\\S inside a class") : `[^${whiteSpace}]`;
      else if (escaped === "d") out += "\\p{Nd}";
      else if (/[pPrntfv]/.test(escaped)) out += `\\${escaped}`;
      else if (/[a-zA-Z0-9]/.test(escaped)) refuse(source, `\\${escaped}`);
      else out += /[\^$\\.*+?()[\]{}|/-]/.test(escaped) ? `\\${escaped}` : escaped;
      if (/[pP]/.test(escaped)) {
        const property = source.slice(i + 1).match(/^\{[^}]*\}/)?.[0] ?? refuse(source, `\\${escaped} without a name`);
        out += property;
        i += property.length;
      }
    } else if (inClass) {
      if (char === "[" || (char === "&" && source[i + 1] === "&")) refuse(source, "a class inside a class");
      if (char === "]") inClass = false;
      out += char;
    } else if (source.startsWith("(?i:", i)) {
      out += "(?:";
      i += 3;
      foldDepth++;
    } else {
      if (/[.^$]/.test(char)) refuse(source, `${char}, whose meaning differs`);
      if (char === "[") inClass = true;
      if (foldDepth > 0 && char === "[") refuse(source, "a class inside (?i:…)");
      if (foldDepth > 0 && char === "(") foldDepth++;
      if (foldDepth > 0 && char === ")") foldDepth--;
      if (foldDepth > 0 && char.charCodeAt(0) > 0x7f) refuse(source, "a letter beyond ASCII inside (?i:…)");
      out += foldDepth > 0 && /[a-zA-Z]/.test(char) ? bothCases(char) : char;
    }
  }
  try {
    return new RegExp(out, "gu");
  } catch (error) {
    refuse(source, `syntax JavaScript does not know (${(error as Error).message})`);
  }
}
