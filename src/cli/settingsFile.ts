/** A file of settings: one JSON object, read strictly, so that nothing in it is passed over. */
import { readFileSync } from "node:fs";
import { extname } from "node:path";
import { UserError } from "../base/errors.ts";

/** Settings of a file, and its name for messages. */
export interface SettingsFile {
  readonly name: string;
  readonly settings: Readonly<Record<string, unknown>>;
}

/**
 * Settings of a JSON object. Sections are no part of keys: one is told as "section.key"; a recipe written out is no section.
 * @throws UserError
 */
export function readSettingsFile(path: string): SettingsFile {
  const json = parseStrictly(textOf(path), path);
  if (!isObject(json)) throw new UserError("E_CONFIG", `${path}: must be a JSON object of settings, {"steps": 100, …}`);
  const settings = Object.entries(json).flatMap(([key, value]) =>
    isObject(value) && key !== "quantization"
      ? Object.entries(value).map(([inner, v]): [string, unknown] => [`${key}.${inner}`, v])
      : [[key, value]],
  );
  return { name: path, settings: Object.fromEntries(settings) };
}

/** Without the byte order mark that some editors write. */
function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8").replace(/^\uFEFF/, "");
  } catch (error) {
    const missing = (error as NodeJS.ErrnoException).code === "ENOENT";
    throw new UserError("E_CONFIG", `${path}: ${missing ? "there is no such file" : (error as Error).message}`);
  }
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** JSON.parse, with the place of a mistake, and with a name that stands twice in an object as one. */
export function parseStrictly(text: string, path: string): unknown {
  const mistake = firstMistake(text);
  if (mistake !== undefined) {
    const before = text.slice(0, mistake.offset).split("\n");
    const place = `line ${before.length}, column ${before.at(-1)!.length + 1}`;
    throw new UserError("E_CONFIG", `${path}: ${place}: ${mistake.what}`);
  }
  return JSON.parse(text);
}

interface Mistake {
  readonly offset: number;
  readonly what: string;
}

/** One token after white space: a string, a number, a word, a bracket or sign; the last group is what is none. */
const tokenPattern =
  /[\t\n\r ]*(?:("(?:[^"\\\p{Cc}]|[\x7f-\x9f]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*")|(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])|(?:true|false|null)\b)|([{}[\],:])|([\w.+-]+|.|$))/gsuy;

type Token = { readonly offset: number; readonly text: string; readonly kind: "string" | "scalar" | "sign" | "none" };

/** Far more than settings need, far less than the stack holds. */
const deepestNesting = 100;

/** Where `text` stops being JSON (RFC 8259), or where an object has a name again. */
function firstMistake(text: string): Mistake | undefined {
  const tokens = tokensOf(text);
  let at = 0;
  const fail = (wanted: string): Mistake => {
    const { offset, text: got } = tokens[at]!;
    return { offset, what: `expected ${wanted}, got ${got === "" ? "the end of the file" : got} (JSON)` };
  };
  const isSign = (sign: string) => tokens[at]!.kind === "sign" && tokens[at]!.text === sign;
  const skip = (sign: string): boolean => {
    if (!isSign(sign)) return false;
    at++;
    return true;
  };

  let depth = 0;
  /** The inside of a bracket that was just opened. */
  const inner = (read: () => Mistake | undefined): Mistake | undefined => {
    if (depth === deepestNesting) {
      return { offset: tokens[at]!.offset, what: `settings nest no deeper than ${deepestNesting} brackets` };
    }
    depth++;
    const mistake = read();
    depth--;
    return mistake;
  };
  const value = (): Mistake | undefined => {
    if (skip("{")) return inner(() => list("}", member(new Set())));
    if (skip("[")) return inner(() => list("]", value));
    const { kind } = tokens[at]!;
    if (kind !== "string" && kind !== "scalar") return fail('a value: a number, true, false or "text"');
    at++;
    return undefined;
  };
  const member = (names: Set<string>) => (): Mistake | undefined => {
    const { kind, text: name, offset } = tokens[at]!;
    if (kind !== "string") return fail('a key in double quotes, "steps"');
    if (names.has(JSON.parse(name))) return { offset, what: `${name} is set twice: keep one` };
    names.add(JSON.parse(name));
    at++;
    return skip(":") ? value() : fail(`: after ${name}`);
  };
  const list = (end: string, item: () => Mistake | undefined): Mistake | undefined => {
    if (skip(end)) return undefined;
    for (;;) {
      const mistake = item();
      if (mistake !== undefined) return mistake;
      if (skip(end)) return undefined;
      if (!skip(",")) return fail(`, or ${end}`);
    }
  };
  return value() ?? (tokens[at]!.text === "" ? undefined : fail("the end of the file"));
}

/** All tokens up to the first that is none; the end of the text is one of those. */
function tokensOf(text: string): Token[] {
  const tokens: Token[] = [];
  for (const match of text.matchAll(tokenPattern)) {
    const [whole, string, scalar, sign, none = ""] = match;
    const found = string ?? scalar ?? sign ?? none;
    const kind =
      string !== undefined ? "string" : scalar !== undefined ? "scalar" : sign !== undefined ? "sign" : "none";
    tokens.push({ offset: match.index + whole.length - found.length, text: found, kind });
    if (kind === "none") break;
  }
  return tokens;
}

/** `quantization=FILE.json` with what is in the file, a recipe written out. @throws UserError */
export function withRecipeFile(settings: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const { quantization } = settings;
  if (typeof quantization !== "string" || extname(quantization) !== ".json") return settings;
  return { ...settings, quantization: JSON.stringify(parseStrictly(textOf(quantization), quantization)) };
}
