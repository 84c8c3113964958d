/** Values as text: as Python prints them, and as JSON. */
import {
  Float,
  isDict,
  isInteger,
  isList,
  isNone,
  type Spend,
  Tuple,
  textUnits,
  typeName,
  Undefined,
  UnwrittenNone,
  type Value,
} from "./values.ts";

/** `{{ value }}`. */
export function printed(value: Value, spend: Spend): string {
  if (typeof value === "string") return value;
  return value instanceof Undefined ? "" : literal(value, spend);
}

/** Units of work for a value in a text, which takes ten times as long as a step of a loop. */
const printUnits = 10;

/** Python's repr. */
export function literal(value: Value, spend: Spend): string {
  spend(printUnits);
  if (value instanceof UnwrittenNone) throw new Error(`${value.what} is None, and would be written as the word None`);
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "number" || typeof value === "bigint") return String(value);
  if (value instanceof Float) return floatText(value.value);
  if (value instanceof Undefined) return "Undefined";
  if (typeof value === "string") {
    spend(textUnits(value));
    return quoted(value);
  }
  if (isDict(value)) {
    return `{${[...value].map(([key, item]) => `${literal(key, spend)}: ${literal(item, spend)}`).join(", ")}}`;
  }
  if (!isList(value)) throw new Error(`a ${typeName(value)} can't be printed`);
  const items = Array.from(value, (item) => literal(item, spend));
  if (!(value instanceof Tuple)) return `[${items.join(", ")}]`;
  return items.length === 1 ? `(${items[0]},)` : `(${items.join(", ")})`;
}

function floatText(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
  const [mantissa, exponent] = value.toExponential().split("e") as [string, string];
  if (Number(exponent) < -4 || Number(exponent) >= 16)
    return `${mantissa}e${exponent.replace(/^([+-])(\d)$/, "$10$2")}`;
  return Number.isInteger(value) ? `${Object.is(value, -0) ? "-0" : value}.0` : String(value);
}

const escapes: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\" };

function quoted(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const inside = text.replace(/[\\\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu, (character) => {
    const code = character.codePointAt(0)!;
    const [letter, digits] = code < 0x100 ? ["x", 2] : code < 0x10000 ? ["u", 4] : ["U", 8];
    return escapes[character] ?? `\\${letter}${code.toString(16).padStart(digits as number, "0")}`;
  });
  return quote + (quote === "'" ? inside.replaceAll("'", "\\'") : inside) + quote;
}

export interface JsonOptions {
  readonly ascii: boolean;
  /** What a level is indented by. */
  readonly indent?: string;
  /** Between items, and behind a key. */
  readonly separators: readonly [string, string];
  readonly sortKeys: boolean;
}

/** `json.dumps`. @throws Error for what JSON has no form of */
export function jsonText(value: Value, options: JsonOptions, spend: Spend, newLine = "\n"): string {
  spend(printUnits);
  const { ascii, indent, separators, sortKeys } = options;
  const text = (string: string) => {
    spend(textUnits(string));
    const json = JSON.stringify(string);
    if (!ascii) return json;
    return json.replace(/[\x7f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
  };
  const inner = indent === undefined ? "" : newLine + indent;
  const around = (open: string, parts: readonly string[], close: string) =>
    parts.length === 0
      ? open + close
      : open + inner + parts.join(separators[0] + inner) + (indent === undefined ? "" : newLine) + close;
  const of = (item: Value) => jsonText(item, options, spend, inner);
  if (typeof value === "string") return text(value);
  if (isNone(value)) return "null";
  if (isInteger(value) || typeof value === "bigint") return String(value);
  if (value instanceof Float) {
    return floatText(value.value).replace("nan", "NaN").replace("inf", "Infinity");
  }
  if (isList(value)) return around("[", Array.from(value, of), "]");
  if (!isDict(value)) throw new Error(`${described(value)} has no JSON`);
  const keys = [...value.keys()];
  if (sortKeys) keys.sort((a, b) => Buffer.compare(Buffer.from(String(a)), Buffer.from(String(b))));
  const parts = keys.map((key) => `${text(String(key))}${separators[1]}${of(value.get(key)!)}`);
  return around("{", parts, "}");
}

/** For messages: the start of a value. */
export function described(value: Value): string {
  if (value instanceof Undefined) return value.what;
  let left = 200;
  try {
    const text = literal(value, (units) => {
      left -= units;
      if (left < 0) throw new Error("long");
    });
    return text.length > 60 ? `${text.slice(0, 60)}…` : text;
  } catch {
    return typeof value === "string" ? `${quoted(value.slice(0, 60))}…` : `a ${typeName(value)}`;
  }
}
