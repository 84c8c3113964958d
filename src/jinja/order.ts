/** When values are equal, and which comes first. */
import { described } from "./print.ts";
import {
  type Float,
  isDict,
  isList,
  isNone,
  isNumber,
  numberOf,
  type Spend,
  Tuple,
  textUnits,
  Undefined,
  type Value,
} from "./values.ts";

/** `==`: no kind of value equals another, but for numbers, which True and False are. */
export function isEqual(left: Value, right: Value, spend: Spend): boolean {
  spend(1);
  if (isNumber(left) && isNumber(right)) return numberOf(left) === numberOf(right);
  if (isSized(left) && isSized(right)) return bySize(left, right) === 0;
  if (isNone(left) || isNone(right)) return isNone(left) && isNone(right);
  if (left instanceof Undefined) return right instanceof Undefined;
  if (typeof left === "string" && typeof right === "string") spend(textUnits(left));
  if (isList(left) && isList(right)) {
    if (left instanceof Tuple !== right instanceof Tuple || left.length !== right.length) return false;
    return left.every((item, i) => isEqual(item, right[i]!, spend));
  }
  if (isDict(left) && isDict(right)) {
    if (left.size !== right.size) return false;
    return [...left].every(([key, item]) => right.has(key) && isEqual(item, right.get(key)!, spend));
  }
  return left === right;
}

type Sized = bigint | number | boolean | Float;
const isSized = (value: Value): value is Sized => typeof value === "bigint" || isNumber(value);

/** JavaScript compares a bigint with a number exactly. */
function bySize(left: Sized, right: Sized): number {
  const [a, b] = [left, right].map((value) => (typeof value === "bigint" ? value : numberOf(value))) as [
    bigint,
    number,
  ];
  return a < b ? -1 : a > b ? 1 : Number.isNaN(a) || Number.isNaN(b) ? Number.NaN : 0;
}

/** Negative, zero or positive. @throws Error where Python has no order */
export function compare(left: Value, right: Value, spend: Spend): number {
  spend(1);
  if (isNumber(left) && isNumber(right)) return numberOf(left) - numberOf(right);
  if (isSized(left) && isSized(right)) return bySize(left, right);
  if (typeof left === "string" && typeof right === "string") {
    spend(textUnits(left));
    return Buffer.compare(Buffer.from(left), Buffer.from(right)); // UTF-8 keeps the order of code points
  }
  if (isList(left) && isList(right) && left instanceof Tuple === right instanceof Tuple) {
    const at = left.findIndex((item, i) => i >= right.length || !isEqual(item, right[i]!, spend));
    if (at < 0) return left.length - right.length;
    return at < right.length ? compare(left[at]!, right[at]!, spend) : 1;
  }
  throw new Error(`${described(left)} and ${described(right)} have no order`);
}
