/** The methods of Python's str. White space, cases and indices (of code points) are Python's. */
import { itemsOf } from "./items.ts";
import { described } from "./print.ts";
import {
  type Arguments,
  type Callable,
  integer,
  isInteger,
  type Spend,
  Tuple,
  textUnits,
  type Value,
} from "./values.ts";

/** What Python's strip() takes for white space. */
const white =
  "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000";
const word = new RegExp(`[^${white}]+`, "gu");
const lineEnds = "\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029";
const lineEnd = new RegExp(`\r\n|[${lineEnds}]`);

/** Arguments by position or name; what is left over is refused. */
export function bind(what: string, names: readonly string[], { args, named }: Arguments): (Value | undefined)[] {
  if (args.length > names.length) throw new Error(`${what} takes ${names.length} arguments, not ${args.length}`);
  for (const name of named.keys()) {
    if (names.indexOf(name) < args.length) throw new Error(`${what} takes no argument ${JSON.stringify(name)} there`);
  }
  return names.map((name, i) => (i < args.length ? args[i] : named.get(name)));
}

export function stripStart(text: string, taken = white): string {
  const characters = new Set(taken);
  let length = 0;
  for (const character of text) {
    if (!characters.has(character)) break;
    length += character.length;
  }
  return text.slice(length);
}

export function stripEnd(text: string, taken = white): string {
  const characters = new Set(taken);
  let end = text.length;
  while (end > 0) {
    const low = text.charCodeAt(end - 1);
    const pair = end > 1 && low >= 0xdc00 && low < 0xe000 && /[\ud800-\udbff]/.test(text[end - 2]!);
    const character = text.slice(end - (pair ? 2 : 1), end);
    if (!characters.has(character)) break;
    end -= character.length;
  }
  return text.slice(0, end);
}

export const strip = (text: string, taken?: string): string => stripEnd(stripStart(text, taken), taken);

/** The first letter as in a title: of a ligature only the first part is large. */
export function capitalize(text: string): string {
  const [first = "", ...rest] = text;
  const [large = "", ...small] = first.toUpperCase();
  return large + small.join("").toLowerCase() + rest.join("").toLowerCase();
}

/** In code points, for any text. */
export const lengthOf = (text: string): number =>
  text.length - (text.match(/[\ud800-\udbff][\udc00-\udfff]/g)?.length ?? 0);

/** @param count of replacements; all where it is negative */
export function replaceText(text: string, old: string, by: string, count: number, spend: Spend): string {
  spendSearch(text, [old], spend);
  const parts = old === "" ? ["", ...text, ""] : text.split(old);
  const last = count < 0 ? parts.length : count + 1;
  return [joined(parts.slice(0, last), by, spend), ...parts.slice(last)].join(old);
}

export function splitLines(text: string): string[] {
  const lines = text.split(lineEnd);
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

function split(text: string, separator: string | undefined, most: number): string[] {
  const limit = most < 0 ? Number.POSITIVE_INFINITY : most;
  if (separator !== undefined) {
    const parts = text.split(separator);
    return parts.length <= limit + 1 ? parts : [...parts.slice(0, limit), parts.slice(limit).join(separator)];
  }
  const parts: string[] = [];
  for (const { 0: one, index } of text.matchAll(word)) {
    if (parts.length === limit) return [...parts, text.slice(index)];
    parts.push(one);
  }
  return parts;
}

function splitBack(text: string, separator: string | undefined, most: number): string[] {
  const reversed = (one: string) => [...one].reverse().join("");
  const parts = split(reversed(text), separator && reversed(separator), most);
  return parts.map(reversed).reverse();
}

type Method = readonly [
  names: readonly string[],
  run: (text: string, values: readonly (Value | undefined)[], spend: Spend) => Value,
];

const textOf = (value: Value | undefined, otherwise?: string): string => {
  if (typeof value === "string") return value;
  if ((value === undefined || value === null) && otherwise !== undefined) return otherwise;
  throw new Error(`${value === undefined ? "an argument that is missing" : described(value)} where a text must be`);
};
const integerOf = (value: Value | undefined, otherwise: number): number => {
  if (isInteger(value)) return Number(value);
  if (value === undefined || value === null) return otherwise;
  throw new Error(`${described(value)} where a whole number must be`);
};
const optional = (value: Value | undefined) => (value === undefined || value === null ? undefined : textOf(value));

/** In code points, -1 for nowhere. */
function place(text: string, part: Value | undefined, last: boolean): number {
  const at = last ? text.lastIndexOf(textOf(part)) : text.indexOf(textOf(part));
  return at < 0 ? at : lengthOf(text.slice(0, at));
}
const found = (at: number): number => {
  if (at < 0) throw new Error("the text to be found is not there");
  return at;
};
const separatorOf = (value: Value | undefined) => {
  const separator = optional(value);
  if (separator === "") throw new Error("split by a text that is empty");
  return separator;
};
const begins =
  (ends: boolean) =>
  (text: string, [parts]: readonly (Value | undefined)[]) =>
    (parts instanceof Tuple ? [...parts] : [parts]).some((part) =>
      ends ? text.endsWith(textOf(part)) : text.startsWith(textOf(part)),
    );
const all = (pattern: RegExp) => (text: string) => pattern.test(text);
const hasCase = /[\p{Uppercase}\p{Lowercase}\p{Lt}]/u;
const padded = (text: string, width: number, fill: Value | undefined, before: (missing: number) => number) => {
  const missing = Math.max(0, width - lengthOf(text));
  if (missing > 1e6) throw new Error(`a text of ${width} characters`);
  const left = before(missing);
  const filler = textOf(fill, " ");
  return filler.repeat(left) + text + filler.repeat(missing - left);
};
const partition =
  (last: boolean) =>
  (text: string, [separator]: readonly (Value | undefined)[]) => {
    const by = textOf(separator);
    const at = last ? text.lastIndexOf(by) : text.indexOf(by);
    if (at < 0) return Tuple.from(last ? ["", "", text] : [text, "", ""]);
    return Tuple.from([text.slice(0, at), by, text.slice(at + by.length)]);
  };

export const isLower = (text: string): boolean => hasCase.test(text) && !/[\p{Uppercase}\p{Lt}]/u.test(text);
export const isUpper = (text: string): boolean => hasCase.test(text) && !/[\p{Lowercase}\p{Lt}]/u.test(text);

const methods: Readonly<Record<string, Method>> = {
  upper: [[], (text) => text.toUpperCase()],
  lower: [[], (text) => text.toLowerCase()],
  title: [[], (text) => text.replace(/\p{Cased}+/gu, capitalize)],
  capitalize: [[], capitalize],
  swapcase: [[], (text) => text.replace(/./gsu, (one) => (isLower(one) ? one.toUpperCase() : one.toLowerCase()))],
  strip: [["chars"], (text, [taken]) => strip(text, optional(taken))],
  lstrip: [["chars"], (text, [taken]) => stripStart(text, optional(taken))],
  rstrip: [["chars"], (text, [taken]) => stripEnd(text, optional(taken))],
  startswith: [["prefix"], begins(false)],
  endswith: [["suffix"], begins(true)],
  removeprefix: [
    ["prefix"],
    (text, [part]) => (text.startsWith(textOf(part)) ? text.slice(textOf(part).length) : text),
  ],
  removesuffix: [
    ["suffix"],
    (text, [part]) => (text.endsWith(textOf(part)) ? text.slice(0, text.length - textOf(part).length) : text),
  ],
  split: [["sep", "maxsplit"], (text, [by, most]) => split(text, separatorOf(by), integerOf(most, -1))],
  rsplit: [["sep", "maxsplit"], (text, [by, most]) => splitBack(text, separatorOf(by), integerOf(most, -1))],
  splitlines: [[], splitLines],
  partition: [["sep"], partition(false)],
  rpartition: [["sep"], partition(true)],
  replace: [
    ["old", "new", "count"],
    (text, [old, by, count], spend) => replaceText(text, textOf(old), textOf(by), integerOf(count, -1), spend),
  ],
  find: [["sub"], (text, [part]) => place(text, part, false)],
  rfind: [["sub"], (text, [part]) => place(text, part, true)],
  index: [["sub"], (text, [part]) => found(place(text, part, false))],
  rindex: [["sub"], (text, [part]) => found(place(text, part, true))],
  count: [
    ["sub"],
    (text, [part]) => integer(textOf(part) === "" ? lengthOf(text) + 1 : text.split(textOf(part)).length - 1),
  ],
  isdigit: [[], all(/^[\p{Nd}\u00b2\u00b3\u00b9\u2070-\u2079\u2080-\u2089]+$/u)],
  isalpha: [[], all(/^\p{L}+$/u)],
  isalnum: [[], all(/^[\p{L}\p{N}]+$/u)],
  isspace: [[], (text) => text !== "" && strip(text) === ""],
  islower: [[], isLower],
  isupper: [[], isUpper],
  zfill: [
    ["width"],
    (text, [width]) => {
      const sign = /^[+-]?/.exec(text)![0];
      return sign + padded(text.slice(sign.length), integerOf(width, 0) - sign.length, "0", (missing) => missing);
    },
  ],
  ljust: [["width", "fillchar"], (text, [width, fill]) => padded(text, integerOf(width, 0), fill, () => 0)],
  rjust: [
    ["width", "fillchar"],
    (text, [width, fill]) => padded(text, integerOf(width, 0), fill, (missing) => missing),
  ],
  center: [
    ["width", "fillchar"],
    (text, [width, fill]) => {
      const wide = integerOf(width, 0);
      return padded(text, wide, fill, (missing) => (missing >> 1) + (missing & wide & 1));
    },
  ],
};

/** A method of a text; undefined where it has none of that name. */
export function textMethod(text: string, name: string, spend: Spend): Callable | undefined {
  if (name === "join") {
    return (given) => {
      const [list] = bind("join()", ["iterable"], given);
      const parts = Array.from(itemsOf(list ?? null, spend), (part) => textOf(part));
      return joined(parts, text, spend);
    };
  }
  if (!Object.hasOwn(methods, name)) return undefined;
  const [names, run] = methods[name]!;
  return (given) => {
    const values = bind(`${name}()`, names, given);
    spendSearch(text, values, spend);
    const result = run(text, values, spend);
    spend(typeof result === "string" ? textUnits(result) : Array.isArray(result) ? result.length : 1);
    return result;
  };
}

/** Looking for a text takes at worst as long as both are long. */
export function spendSearch(text: string, others: readonly (Value | undefined)[], spend: Spend): void {
  const longest = Math.max(0, ...others.map((other) => (typeof other === "string" ? other.length : 0)));
  spend(textUnits(text) * (1 + (longest >> 6)));
}

export function joined(parts: readonly string[], between: string, spend: Spend): string {
  spend(parts.reduce((sum, part) => sum + textUnits(part) + (between.length >> 4), 0));
  return parts.join(between);
}
