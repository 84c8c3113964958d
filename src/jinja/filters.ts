/** The filters and tests of Jinja that chat templates use, and those that `transformers` gives them (`tojson`). */
import { attributeOf, itemsOf, pairsOf } from "./items.ts";
import { floatOf, intOf, rounded } from "./numbers.ts";
import { compare, isEqual } from "./order.ts";
import { described, jsonText, printed } from "./print.ts";
import { runTest } from "./tests.ts";
import { bind, capitalize, joined, lengthOf, replaceText, splitLines, strip, textMethod } from "./text.ts";
import {
  type Arguments,
  Float,
  integer,
  isDict,
  isInteger,
  isList,
  isNumber,
  isTrue,
  type List,
  numberOf,
  present,
  type Spend,
  textUnits,
  Undefined,
  type Value,
} from "./values.ts";

type Given = readonly (Value | undefined)[];
/** Names of a filter's arguments and what it makes of a value. */
type Filter = readonly [names: readonly string[], run: (value: Value, given: Given, spend: Spend) => Value];

const text = (value: Value, spend: Spend): string => {
  const whole = printed(value, spend);
  spend(textUnits(whole));
  return whole;
};
const flag = (value: Value | undefined): boolean => value !== undefined && isTrue(value);

const attributed = (attribute: Value | undefined) => (item: Value) =>
  attribute === undefined || attribute === null ? item : attributeOf(item, attribute);

const folded = (value: Value, exact: Value | undefined): Value =>
  typeof value === "string" && !flag(exact) ? value.toLowerCase() : value;

function sorted(items: List, key: (item: Value) => Value, reverse: boolean, spend: Spend): Value[] {
  const keyed = Array.from(items, (item) => ({ item, key: key(item) }));
  const sign = reverse ? -1 : 1;
  return keyed.sort((a, b) => sign * compare(a.key, b.key, spend)).map(({ item }) => item);
}

function unique(items: List, key: (item: Value) => Value, spend: Spend): Value[] {
  const kept: { readonly item: Value; readonly key: Value }[] = [];
  for (const item of items) {
    const own = key(item);
    if (!kept.some((other) => isEqual(other.key, own, spend))) kept.push({ item, key: own });
  }
  return kept.map(({ item }) => item);
}

function extreme(value: Value, [exact, attribute]: Given, sign: number, spend: Spend): Value {
  const items = Array.from(itemsOf(value, spend));
  const key = (item: Value) => folded(attributed(attribute)(item), exact);
  if (items.length === 0) return new Undefined("an item of an empty list");
  return items.reduce((best, item) => (sign * compare(key(item), key(best), spend) > 0 ? item : best));
}

function lengthOfAny(value: Value): number {
  if (value instanceof Undefined) return 0;
  if (typeof value === "string") return lengthOf(value);
  if (isList(value)) return value.length;
  if (isDict(value)) return value.size;
  throw new Error(`${described(value)} has no length`);
}

function indented(value: string, [width = 4, first, blank]: Given, spend: Spend): string {
  if (typeof width !== "string" && !(isInteger(width) && Number(width) <= 1000))
    refuse(`indent by ${described(width)}`);
  const margin = typeof width === "string" ? width : " ".repeat(Math.max(0, Number(width)));
  const lines = splitLines(`${value}\n`);
  spend(lines.length * textUnits(margin));
  const rest = lines.map((line, i) => (i > 0 && (flag(blank) || line !== "") ? margin + line : line)).join("\n");
  return flag(first) ? margin + rest : rest;
}

function json(value: Value, [ascii, indent, separators, sortKeys]: Given, spend: Spend): string {
  const step = indent === undefined || indent === null ? undefined : indent;
  if (step !== undefined && typeof step !== "string" && !(isInteger(step) && Number(step) <= 100)) {
    refuse(`tojson: an indent of ${described(step)}`);
  }
  const own = separators === undefined || separators === null ? undefined : itemsOf(separators, spend);
  if (own && !(own.length === 2 && own.every((one) => typeof one === "string"))) throw new Error("tojson: separators");
  const options = {
    ascii: flag(ascii),
    sortKeys: flag(sortKeys),
    separators: (own ?? [step === undefined ? ", " : ",", ": "]) as [string, string],
    ...(step !== undefined && { indent: typeof step === "string" ? step : " ".repeat(Math.max(0, Number(step))) }),
  };
  const result = jsonText(value, options, spend);
  spend(textUnits(result));
  return result;
}

/** `select`, `reject` and the like: whether an item passes the test that is named behind the attribute. */
function chosen(value: Value, { args }: Arguments, spend: Spend, { keep, byAttribute }: Choice): Value[] {
  const [attribute, test, ...rest] = byAttribute ? args : [null, ...args];
  if (attribute === undefined) throw new Error("selectattr without an attribute");
  const passes = (item: Value): boolean => {
    const tested = attributed(attribute)(item);
    if (test === undefined) return isTrue(tested);
    return runTest(String(test), tested, { args: rest, named: new Map() }, spend);
  };
  return itemsOf(value, spend).filter((item) => passes(item) === keep);
}
interface Choice {
  readonly keep: boolean;
  readonly byAttribute: boolean;
}
const choices: Readonly<Record<string, Choice>> = {
  select: { keep: true, byAttribute: false },
  reject: { keep: false, byAttribute: false },
  selectattr: { keep: true, byAttribute: true },
  rejectattr: { keep: false, byAttribute: true },
};

function mapped(value: Value, { args, named }: Arguments, spend: Spend): Value[] {
  const items = Array.from(itemsOf(value, spend));
  const attribute = named.get("attribute");
  if (attribute === undefined) {
    const [name, ...rest] = args;
    return items.map((item) => runFilter(String(name), item, { args: rest, named }, spend));
  }
  return items.map((item) => {
    const found = attributeOf(item, attribute);
    return found instanceof Undefined && named.has("default") ? named.get("default")! : found;
  });
}

const escaped: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&#34;",
  "'": "&#39;",
};
const method =
  (name: string): Filter[1] =>
  (value, _, spend) =>
    textMethod(text(value, spend), name, spend)!({ args: [], named: new Map() });
const length: Filter = [[], (value) => lengthOfAny(value)];
const fallback: Filter = [
  ["default_value", "boolean"],
  (value, [other = "", falsy]) => (value instanceof Undefined || (flag(falsy) && !isTrue(value)) ? other : value),
];
const html: Filter = [[], (value, _, spend) => text(value, spend).replace(/[&<>"']/g, (one) => escaped[one]!)];

const filters: Readonly<Record<string, Filter>> = {
  ...{ length, count: length, default: fallback, d: fallback, e: html, escape: html },
  safe: [[], (value) => value],
  tojson: [["ensure_ascii", "indent", "separators", "sort_keys"], json],
  string: [[], (value, _, spend) => text(value, spend)],
  upper: [[], method("upper")],
  lower: [[], method("lower")],
  capitalize: [[], method("capitalize")],
  title: [[], (value, _, spend) => text(value, spend).replace(/[^-\s({[<]+/gu, capitalize)],
  trim: [
    ["chars"],
    (value, [chars], spend) => strip(text(value, spend), chars === undefined ? chars : text(chars, spend)),
  ],
  indent: [["width", "first", "blank"], (value, given, spend) => indented(text(value, spend), given, spend)],
  replace: [
    ["old", "new", "count"],
    (value, [old, by, count], spend) => {
      const [whole, from, to] = [value, old ?? "", by ?? ""].map((part) => text(part as Value, spend)) as [
        string,
        string,
        string,
      ];
      return replaceText(whole, from, to, isInteger(count) ? Number(count) : -1, spend);
    },
  ],
  list: [[], (value, _, spend) => Array.from(itemsOf(value, spend))],
  first: [[], (value, _, spend) => present(itemsOf(value, spend)[0], "the first item of an empty list")],
  last: [[], (value, _, spend) => present(itemsOf(value, spend).at(-1), "the last item of an empty list")],
  reverse: [
    [],
    (value, _, spend) => {
      const items = Array.from(itemsOf(value, spend)).reverse();
      return typeof value === "string" ? items.join("") : items;
    },
  ],
  join: [
    ["d", "attribute"],
    (value, [between = "", attribute], spend) => {
      const parts = Array.from(itemsOf(value, spend), (item) => printed(attributed(attribute)(item), spend));
      return joined(parts, text(between, spend), spend);
    },
  ],
  sort: [
    ["reverse", "case_sensitive", "attribute"],
    (value, [reverse, exact, attribute], spend) => {
      return sorted(itemsOf(value, spend), (item) => folded(attributed(attribute)(item), exact), flag(reverse), spend);
    },
  ],
  dictsort: [
    ["case_sensitive", "by", "reverse"],
    (value, [exact, by = "key", reverse], spend) => {
      if (!isDict(value)) throw new Error(`dictsort of ${described(value)}`);
      const key = (pair: Value) => folded((pair as List)[by === "value" ? 1 : 0]!, exact);
      return sorted(pairsOf(value), key, flag(reverse), spend);
    },
  ],
  items: [
    [],
    (value) => {
      if (value instanceof Undefined) return [];
      return isDict(value) ? pairsOf(value) : refuse(`items of ${described(value)}`);
    },
  ],
  unique: [
    ["case_sensitive", "attribute"],
    (value, [exact, attribute], spend) =>
      unique(itemsOf(value, spend), (item) => folded(attributed(attribute)(item), exact), spend),
  ],
  max: [["case_sensitive", "attribute"], (value, given, spend) => extreme(value, given, 1, spend)],
  min: [["case_sensitive", "attribute"], (value, given, spend) => extreme(value, given, -1, spend)],
  sum: [
    ["attribute", "start"],
    (value, [attribute, start = 0], spend) => {
      const terms = [start, ...Array.from(itemsOf(value, spend), attributed(attribute))];
      const wrong = terms.find((term) => !isNumber(term));
      if (wrong !== undefined) throw new Error(`sum of ${described(wrong)}`);
      const sum = (terms as (number | Float)[]).reduce<number>((total, term) => total + numberOf(term), 0);
      return terms.some((term) => term instanceof Float) ? new Float(sum) : integer(sum);
    },
  ],
  int: [
    ["default", "base"],
    (value, [otherwise = 0, base]) => (base ? refuse("int of a base") : intOf(value, otherwise)),
  ],
  float: [
    ["default"],
    (value, [otherwise = new Float(0)]) => {
      const number = floatOf(value);
      return number === undefined ? otherwise : new Float(number);
    },
  ],
  abs: [
    [],
    (value) => {
      if (!isNumber(value)) throw new Error(`abs of ${described(value)}`);
      const size = Math.abs(numberOf(value));
      return value instanceof Float ? new Float(size) : size;
    },
  ],
  round: [["precision", "method"], rounded],
};

function refuse(what: string): never {
  throw new Error(what);
}

/** @throws Error where there is no such filter, or it can't take the value */
export function runFilter(name: string, value: Value, given: Arguments, spend: Spend): Value {
  if (Object.hasOwn(choices, name)) return chosen(value, given, spend, choices[name]!);
  if (name === "map") return mapped(value, given, spend);
  if (!Object.hasOwn(filters, name)) throw new Error(`no filter is named ${JSON.stringify(name)}`);
  const [names, run] = filters[name]!;
  return run(value, bind(`the filter ${name}`, names, given), spend);
}
