/** Spelling attributes of emitted operations. */

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

/** A dictionary. Whole numbers are i64, others f64. */
export function mlirDictionary(attributes: Attributes): string {
  const entries = Object.entries(attributes).map(([key, value]) => `${mlirString(key)} = ${mlirValue(value)}`);
  return `{${entries.join(", ")}}`;
}

function mlirValue(value: AttributeValue): string {
  if (typeof value === "string") return mlirString(value);
  if (typeof value === "boolean") return String(value);
  return Number.isSafeInteger(value) ? `${value} : i64` : `${value.toExponential().replace(/^(-?\d)e/, "$1.0e")} : f64`;
}
