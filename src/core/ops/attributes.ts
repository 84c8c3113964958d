/** Spelling attributes of emitted operations. */
import { ShapeError } from "../../base/errors.ts";

export type AttributeValue = string | number | boolean;
/** Attributes of an operation by name. */
export type Attributes = Readonly<Record<string, AttributeValue>>;

/** A string as MLIR reads it. */
export function mlirString(text: string): string {
  const escaped = text.replace(
    /["\\\p{Cc}]/gu,
    (c) => `\\${c.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`,
  );
  return `"${escaped}"`;
}

/** @throws ShapeError where a value is none of what attributes can be */
export function checkAttributes(name: string, attributes: Attributes): void {
  for (const [key, value] of Object.entries(attributes)) {
    if (["string", "number", "boolean"].includes(typeof value)) continue;
    const got = Array.isArray(value) ? "a list" : typeof value;
    throw new ShapeError(`${name}: attribute "${key}" must be a string, a number or a boolean; got ${got}`);
  }
}

/** A dictionary. Whole numbers are i64, others f64. */
export function mlirDictionary(attributes: Attributes): string {
  const entries = Object.entries(attributes).map(([key, value]) => `${mlirString(key)} = ${mlirValue(value)}`);
  return `{${entries.join(", ")}}`;
}

function mlirValue(value: AttributeValue): string {
  if (typeof value === "string") return mlirString(value);
  if (typeof value === "boolean") return String(value);
  // The bits, as numbers have no other spelling for these.
  if (!Number.isFinite(value))
    return `0x${Number.isNaN(value) ? "7FF8" : value > 0 ? "7FF0" : "FFF0"}000000000000 : f64`;
  return Number.isSafeInteger(value) ? `${value} : i64` : `${value.toExponential().replace(/^(-?\d)e/, "$1.0e")} : f64`;
}
