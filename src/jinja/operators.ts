/** Python's operators, indices and attributes, on the values of a chat template. */
import { itemOf, pairsOf } from "./items.ts";
import { arithmetic } from "./numbers.ts";
import { isEqual } from "./order.ts";
import { described, printed } from "./print.ts";
import { isIn, operatorTests } from "./tests.ts";
import { bind, textMethod } from "./text.ts";
import {
  type Callable,
  type Dict,
  isDict,
  isInteger,
  isList,
  isNumber,
  type List,
  Namespace,
  type Spend,
  Tuple,
  Undefined,
  type Value,
} from "./values.ts";

/** Characters; what memory is kept for. */
const longestText = 1 << 25;

/** What was put together, which takes no time until it is looked at. @throws Error where it is longer than any conversation */
export function bounded(text: string): string {
  if (text.length > longestText) throw new Error(`a text of more than ${longestText} characters`);
  return text;
}

/** Every operator of two values but `and` and `or`. */
export function binary(operator: string, left: Value, right: Value, spend: Spend): Value {
  if (operator === "not in") return !isIn(left, right, spend);
  if (Object.hasOwn(operatorTests, operator)) return operatorTests[operator]!(left, right, spend);
  if (operator === "~") return bounded(printed(left, spend) + printed(right, spend));
  if (isNumber(left) && isNumber(right)) return arithmetic(operator, left, right);
  if (operator === "+") {
    if (typeof left === "string" && typeof right === "string") return bounded(left + right);
    if (isList(left) && isList(right) && left instanceof Tuple === right instanceof Tuple) {
      spend(left.length + right.length);
      return left.concat(right);
    }
  }
  if (operator === "*" && isInteger(right)) return repeated(left, Number(right), spend);
  if (operator === "*" && isInteger(left)) return repeated(right, Number(left), spend);
  throw new Error(`${described(left)} ${operator} ${described(right)}`);
}

function repeated(value: Value, times: number, spend: Spend): Value {
  const count = Math.max(0, times);
  if (typeof value === "string") {
    if (value.length * count > longestText) return bounded(" ".repeat(longestText + 1));
    spend((value.length * count) >> 4);
    return value.repeat(count);
  }
  if (!isList(value)) throw new Error(`${described(value)} * ${times}`);
  spend(value.length * count);
  const items = Array.from({ length: value.length === 0 ? 0 : count }, () => value).flat();
  return value instanceof Tuple ? Tuple.from(items) : items;
}

/** `value[start:stop:step]`. */
export function sliced(value: Value, bounds: readonly (Value | undefined)[], spend: Spend): Value {
  if (value instanceof Undefined) throw new Error(`${value.what} is undefined`);
  if (typeof value !== "string" && !isList(value)) throw new Error(`a slice of ${described(value)}`);
  const [start, stop, step = 1] = bounds.map((bound) => {
    if (bound === undefined || bound === null) return undefined;
    return isInteger(bound) ? Number(bound) : refuseBound(bound);
  });
  if (step === 0) throw new Error("a slice with a step of 0");
  const items: ArrayLike<Value> & { readonly length: number } =
    typeof value === "string" ? (/[\ud800-\udfff]/.test(value) ? [...value] : value) : value;
  const { length } = items;
  const back = step < 0;
  const limited = (bound: number) => {
    const from = bound < 0 ? bound + length : bound;
    return back ? Math.min(Math.max(from, -1), length - 1) : Math.min(Math.max(from, 0), length);
  };
  const first = start === undefined ? (back ? length - 1 : 0) : limited(start);
  const end = stop === undefined ? (back ? -1 : length) : limited(stop);
  const count = Math.max(0, Math.ceil((end - first) / step));
  spend(1 + (typeof value === "string" ? (length + count) >> 4 : count));
  if (typeof items === "string" && step === 1) return (items as string).slice(first, first + count);
  const taken = Array.from({ length: count }, (_, i) => items[first + i * step]!);
  return typeof value === "string" ? taken.join("") : value instanceof Tuple ? Tuple.from(taken) : taken;
}

function refuseBound(bound: Value): never {
  throw new Error(`a slice to ${described(bound)}`);
}

/** `value.name`: a method before a key. */
export function attribute(value: Value, name: string, spend: Spend): Value {
  const method =
    typeof value === "string"
      ? textMethod(value, name, spend)
      : isDict(value)
        ? dictMethod(value, name, spend)
        : isList(value)
          ? listMethod(value, name, spend)
          : undefined;
  return method ?? itemOf(value, name);
}

/** `value["name"]`: a key before a method. */
export function item(value: Value, key: Value, spend: Spend): Value {
  const found = itemOf(value, key);
  return found instanceof Undefined && typeof key === "string" ? attribute(value, key, spend) : found;
}

const changing = new Set(["clear", "pop", "popitem", "setdefault", "update", "append", "extend", "insert", "remove"]);
const unchangeable = (name: string): Callable => {
  return () => {
    throw new Error(`${name}() would change a value; chat templates may not`);
  };
};

function dictMethod(dict: Dict, name: string, spend: Spend): Callable | undefined {
  const whole = (list: () => Value): Callable => {
    return () => {
      spend(4 * dict.size);
      return list();
    };
  };
  switch (name) {
    case "items":
      return whole(() => pairsOf(dict));
    case "keys":
      return whole(() => [...dict.keys()]);
    case "values":
      return whole(() => [...dict.values()]);
    case "copy":
      return whole(() => new Map(dict));
    case "get":
      return (given) => {
        const [key, otherwise = null] = bind("get()", ["key", "default"], given);
        const found = itemOf(dict, key ?? null);
        return found instanceof Undefined ? otherwise : found;
      };
    default:
      return changing.has(name) ? unchangeable(name) : undefined;
  }
}

function listMethod(list: List, name: string, spend: Spend): Callable | undefined {
  switch (name) {
    case "index":
      return (given) => {
        const [wanted = null] = bind("index()", ["value"], given);
        const at = list.findIndex((one) => isEqual(one, wanted, spend));
        if (at < 0) throw new Error(`${described(wanted)} is not in the list`);
        return at;
      };
    case "count":
      return (given) => {
        const [wanted = null] = bind("count()", ["value"], given);
        return list.filter((one) => isEqual(one, wanted, spend)).length;
      };
    default:
      return changing.has(name) && !(list instanceof Tuple) ? unchangeable(name) : undefined;
  }
}

/** `namespace(…)`. */
export const namespace: Callable = ({ args, named }) => {
  const [from = null] = args;
  if (from !== null && !isDict(from)) throw new Error(`namespace of ${described(from)}`);
  const fields = new Map<string, Value>();
  for (const [key, value] of from ?? []) fields.set(String(key), value);
  for (const [key, value] of named) fields.set(key, value);
  return new Namespace(fields);
};
