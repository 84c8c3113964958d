/**
 * JSON with its numbers as Python reads them: `1.0` is no integer, and an integer has no end. What JavaScript can't tell apart is
 * given as what outlives a copy between threads.
 */
import { parseJson } from "./json.ts";

/** What Python's own reader takes. */
const mostDigits = 4300;

/** Says no where nothing needs a second look; it does not tell texts within from numbers. */
const suspicious = /\d[.eE]|\d{16}/;
const number = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/**
 * As `parseJson`, but a float of an integer's value is a boxed Number, and an integer beyond 2^53 a bigint.
 * @throws SyntaxError as `parseJson`, and for an integer of more than 4300 digits
 */
export function parseExactJson(text: string): unknown {
  const value = parseJson(text);
  const spelt = suspicious.test(text) ? withSpeltNumbers(text) : undefined;
  return spelt === undefined
    ? value
    : JSON.parse(spelt, (_, inner: unknown) => {
        if (typeof inner !== "string") return inner;
        return inner.startsWith("#") ? exactly(inner.slice(1)) : inner.slice(1);
      });
}

/** Whether a number's value as JavaScript's says less than its spelling. */
function isLost(spelling: string): boolean {
  const isWhole = Number.isSafeInteger(Number(spelling));
  return /[.eE]/.test(spelling) ? isWhole : !isWhole;
}

function exactly(spelling: string): unknown {
  if (/[.eE]/.test(spelling)) return Object(Number(spelling));
  if (spelling.length > mostDigits) throw new SyntaxError(`an integer has more than ${mostDigits} digits`);
  return BigInt(spelling);
}

/** The JSON with such numbers as texts, `"#1.0"`, and a mark before each text that was one; undefined where there are none. */
function withSpeltNumbers(text: string): string | undefined {
  const parts: string[] = [];
  let found = false;
  const spell = (spelling: string) => {
    if (!isLost(spelling)) return spelling;
    found = true;
    return `"#${spelling}"`;
  };
  for (let at = 0; at < text.length; ) {
    const open = text.indexOf('"', at);
    const outside = open < 0 ? text.slice(at) : text.slice(at, open);
    parts.push(outside.replace(number, spell));
    if (open < 0) break;
    let close = text.indexOf('"', open + 1);
    while (isEscaped(text, close)) close = text.indexOf('"', close + 1);
    at = close + 1;
    const isName = /\s*:/y;
    isName.lastIndex = at;
    parts.push(isName.test(text) ? text.slice(open, at) : `"=${text.slice(open + 1, at)}`);
  }
  return found ? parts.join("") : undefined;
}

function isEscaped(text: string, at: number): boolean {
  let start = at;
  while (text[start - 1] === "\\") start--;
  return (at - start) % 2 === 1;
}

/** What was read, for messages: its beginning where it is long. */
export function shown(value: unknown): string {
  if (value === undefined) return "missing";
  if (typeof value === "bigint") return shortened(String(value));
  return shortened(
    JSON.stringify(value, (_, inner) => (typeof inner === "bigint" ? String(inner) : inner)) ?? typeof value,
  );
}

const shortened = (text: string): string => (text.length > 60 ? `${text.slice(0, 60)}…` : text);
