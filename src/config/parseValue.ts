/** Text of a command line (or of JSON) to a value of the kind a key wants. Nothing is guessed; Python's True, False and quotes are read. */
import { UserError } from "../base/errors.ts";
import type { ValueKind } from "./fields.ts";

// Decimal, with an exponent, with _ between digits: 1e-4, 2e-5, 0.001, .5, 1_000, -1.
const numberPattern = /^[+-]?(\d+(_\d+)*(\.(\d+(_\d+)*)?)?|\.\d+(_\d+)*)(e[+-]?\d+)?$/i;

/**
 * The value of `key=raw`. A string is read as the kind wants; a number or boolean must be of that kind already.
 * @throws UserError naming key, value and what was wanted.
 */
export function parseValue(key: string, raw: unknown, kind: ValueKind, rule?: string): string | number | boolean {
  const fail = (): never => {
    const wanted =
      rule ?? { integer: "an integer", number: "a number", boolean: "true or false", string: "text" }[kind];
    throw new UserError("E_VALUE", `${key}=${showValue(raw)}: must be ${wanted}`);
  };
  const plain = typeof raw === "string" ? unquoted(raw) : raw;
  if (kind === "string") return typeof plain === "string" ? plain : fail();
  if (kind === "boolean") {
    if (plain === true || plain === "true" || plain === "True") return true;
    if (plain === false || plain === "false" || plain === "False") return false;
    return fail();
  }
  const value = typeof plain === "string" && numberPattern.test(plain) ? Number(plain.replaceAll("_", "")) : plain;
  if (typeof value !== "number" || !Number.isFinite(value)) return fail();
  if (kind === "integer" && !Number.isSafeInteger(value)) return fail();
  return value;
}

/** Without the quotes that a shell or a copied Python line left around it. */
export function unquoted(text: string): string {
  return text.match(/^(['"])(.*)\1$/s)?.[2] ?? text;
}

export function showValue(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? String(value));
}
