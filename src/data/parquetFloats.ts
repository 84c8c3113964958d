/** Which numbers of a Parquet row are floats: of an integer's value, they would be told from integers no more. */
import type { SchemaTree } from "hyparquet";

/** Of a column's value, floats of an integer's value as boxed Numbers (exactJson.ts). */
export type MarkFloats = (value: unknown) => unknown;

/** undefined where a column has no floats. */
export function floatsOf(column: SchemaTree): MarkFloats | undefined {
  const { element, children } = column;
  const kind = element.logical_type?.type ?? element.converted_type;
  if (children.length === 0) {
    if (element.type !== "DOUBLE" && element.type !== "FLOAT") return undefined;
    return (value) => (Array.isArray(value) ? value.map(marked) : marked(value));
  }
  const [inner] = children;
  if (kind === "LIST") {
    const ofItem = floatsOf(inner!.children.length === 1 ? inner!.children[0]! : inner!);
    return ofItem && ((value) => (Array.isArray(value) ? value.map(ofItem) : value));
  }
  if (kind === "MAP" || kind === "MAP_KEY_VALUE") {
    const ofValue = inner!.children[1] && floatsOf(inner!.children[1]);
    return ofValue && ((value) => changed(value, () => ofValue));
  }
  const ofField = new Map(
    children.flatMap((child) => {
      const mark = floatsOf(child);
      return mark ? [[child.element.name, mark] as const] : [];
    }),
  );
  if (ofField.size === 0) return undefined;
  const struct: MarkFloats = (value) => changed(value, (name) => ofField.get(name));
  return (value) => (Array.isArray(value) ? value.map(struct) : struct(value));
}

const marked: MarkFloats = (value) => (Number.isSafeInteger(value) ? Object(value) : value);

function changed(value: unknown, markOf: (name: string) => MarkFloats | undefined): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, own]) => [name, markOf(name)?.(own) ?? own]));
}
