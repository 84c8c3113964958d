/** Text of a command line (or of JSON) to a value of the kind a key wants. Nothing is guessed. */
import { UserError } from "../base/errors.ts";
import type { ValueKind } from "./fields.ts";

// Decimal, with an exponent, with _ between digits: 1e-4, 2e-5, 0.001, .5, 1_000, -1.
const numberPattern = /^[+-]?(\d+(_\d+)*(\.(\d+(_\d+)*)?)?|\.\d+(_\d+)*)(e[+-]?\d+)?$/i;

/**
 * The value of `key=raw`. A string is read as the kind wants; a number or boolean must be of that kind already.
 * @throws UserError naming key, value and what was wanted.
 */
export function parseValue(key: string, raw: unknown, kind: ValueKind, rule?: string): string | number | boolean {
  const fail = (hint = ""): never => {
    const wanted =
      rule ?? { integer: "an integer", number: "a number", boolean: "true or false", string: "text" }[kind];
    throw new UserError("E_VALUE", `${key}=${showValue(raw)}: must be ${wanted}${hint}`);
  };
  if (kind === "string") return typeof raw === "string" ? raw : fail();
  if (kind === "boolean") {
    if (raw === true || raw === "true") return true;
    if (raw === false || raw === "false") return false;
    return fail(typeof raw === "string" && /^(true|false)$/i.test(raw) ? " (in lower case)" : "");
  }
  const value = typeof raw === "string" && numberPattern.test(raw) ? Number(raw.replaceAll("_", "")) : raw;
  if (typeof value !== "number" || !Number.isFinite(value)) return fail();
  if (kind === "integer" && !Number.isSafeInteger(value)) return fail();
  return value;
}

export function showValue(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? String(value));
}
