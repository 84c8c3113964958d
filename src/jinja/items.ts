/** Items of values, by key, index or path. */
import { described } from "./print.ts";
import {
  type Dict,
  isDict,
  isInteger,
  isList,
  type Key,
  type List,
  Namespace,
  type Spend,
  Tuple,
  Undefined,
  type Value,
} from "./values.ts";

/** What a loop, a filter or `in` goes through. @throws Error where it has no items */
export function itemsOf(value: Value, spend: Spend): List {
  if (typeof value === "string") spend(value.length);
  const items =
    typeof value === "string"
      ? [...value]
      : value instanceof Undefined
        ? []
        : isDict(value)
          ? [...value.keys()]
          : isList(value)
            ? value
            : undefined;
  if (items === undefined) throw new Error(`${described(value)} has no items`);
  spend(items.length);
  return items;
}

const isKey = (value: Value): value is Key => value === null || ["string", "number", "boolean"].includes(typeof value);

/** `item["key"]`, and for lists an index. */
export function itemOf(object: Value, key: Value): Value {
  if (object instanceof Undefined) throw new Error(`${object.what} is undefined`);
  if (isDict(object) && isKey(key)) {
    const found = object.get(typeof key === "boolean" ? Number(key) : key);
    if (found !== undefined) return found;
  }
  if (object instanceof Namespace && typeof key === "string") {
    const found = object.fields.get(key);
    if (found !== undefined) return found;
  }
  if ((isList(object) || typeof object === "string") && isInteger(key)) {
    const items = typeof object === "string" && /[\ud800-\udfff]/.test(object) ? [...object] : object;
    const found = (items as ArrayLike<Value>)[Number(key) < 0 ? items.length + Number(key) : Number(key)];
    if (found !== undefined) return found;
  }
  return new Undefined(`${described(key)} of ${described(object)}`);
}

/** The value at "a.b.0". */
export function attributeOf(item: Value, attribute: Value): Value {
  const path = typeof attribute === "string" ? attribute.split(".") : [attribute];
  return path.reduce((value: Value, part) => {
    return itemOf(value, typeof part === "string" && /^\d+$/.test(part) ? Number(part) : part);
  }, item);
}
/** Of a dict, its pairs. */
export const pairsOf = (dict: Dict): Value[] => [...dict].map(([key, value]) => Tuple.from([key, value]));
