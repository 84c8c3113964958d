/**
 * Python's values as chat templates meet them: an int is a JavaScript number, a dict a Map, a list an array. What Python has and
 * JavaScript lacks (floats apart from ints, tuples, the undefined value of Jinja) has a class. How they compare, print and become JSON.
 */

export interface List extends ReadonlyArray<Value> {}
export interface Dict extends ReadonlyMap<Key, Value> {}
/** Arguments in order, and by name. */
export interface Arguments {
  readonly args: List;
  readonly named: ReadonlyMap<string, Value>;
}
export type Callable = (given: Arguments) => Value;
export type Key = string | number | boolean | null;
/** A bigint is an int beyond 2^53, as a record may have it: it is compared and printed, and not reckoned with. */
export type Value =
  | null
  | boolean
  | number
  | bigint
  | string
  | Float
  | Undefined
  | UnwrittenNone
  | List
  | Dict
  | Namespace
  | Callable;

export class Float {
  readonly value: number;
  constructor(value: number) {
    this.value = value;
  }
}

/** Made by `Tuple.from`. */
export class Tuple extends Array<Value> {}

/** None that must not be written, as Python writes a message's missing content: every test takes it for None. */
export class UnwrittenNone {
  /** For messages: what is None. */
  readonly what: string;
  constructor(what: string) {
    this.what = what;
  }
}

/** What a name or key without a value gives. */
export class Undefined {
  /** For messages: what is missing. */
  readonly what: string;
  constructor(what: string) {
    this.what = what;
  }
}

export class Namespace {
  readonly fields: Map<string, Value>;
  constructor(fields: ReadonlyMap<string, Value>) {
    this.fields = new Map(fields);
  }
}

/** The value, where there is one (None is). */
export const present = (value: Value | undefined, what: string): Value =>
  value === undefined ? new Undefined(what) : value;

/** Counts work, so that no template goes on without end. Units: an element of a list, or 16 characters. @throws Error when it is too much */
export type Spend = (units: number) => void;

export const textUnits = ({ length }: { readonly length: number }): number => 1 + (length >> 4);

/** A value of JavaScript: what JSON holds (a boxed Number is a float, whatever its value), and functions of such. */
export function toValue(given: unknown): Value {
  if (given instanceof UnwrittenNone) return given;
  if (given === undefined) return new Undefined("a value that is missing");
  if (given === null || typeof given === "string" || typeof given === "boolean") return given;
  if (typeof given === "number") return Number.isSafeInteger(given) ? given : new Float(given);
  if (given instanceof Number) return new Float(given.valueOf());
  if (typeof given === "bigint") return Number.isSafeInteger(Number(given)) ? Number(given) : given;
  if (Array.isArray(given)) return given.map(toValue);
  if (typeof given === "function") return ({ args }) => toValue(given(...args));
  return new Map(Object.entries(given).map(([key, value]) => [key, toValue(value)]));
}

export const isNone = (value: Value): value is null | UnwrittenNone => value === null || value instanceof UnwrittenNone;
export const isNumber = (value: Value): value is number | boolean | Float =>
  typeof value === "number" || typeof value === "boolean" || value instanceof Float;
export const isInteger = (value: Value | undefined): value is number | boolean =>
  typeof value === "number" || typeof value === "boolean";
export const numberOf = (value: number | boolean | Float): number =>
  value instanceof Float ? value.value : Number(value);
export const isList = (value: Value): value is List => Array.isArray(value);
export const isDict = (value: Value): value is Dict => value instanceof Map;

/** @throws Error where it can't be told exactly: Python's ints have no end */
export function integer(value: number): number {
  if (!Number.isSafeInteger(value)) throw new Error(`the number ${value} is beyond 2^53`);
  return value === 0 ? 0 : value;
}

/** Python's name of the type. */
export function typeName(value: Value): string {
  if (value === null || value instanceof UnwrittenNone) return "None";
  if (typeof value === "string") return "str";
  if (typeof value === "boolean") return "bool";
  if (typeof value === "number" || typeof value === "bigint") return "int";
  if (value instanceof Float) return "float";
  if (value instanceof Undefined) return "undefined";
  if (value instanceof Namespace) return "namespace";
  if (typeof value === "function") return "function";
  return value instanceof Tuple ? "tuple" : isList(value) ? "list" : "dict";
}

export function isTrue(value: Value): boolean {
  if (value instanceof Float) return value.value !== 0;
  if (value instanceof Undefined || value instanceof UnwrittenNone) return false;
  if (isList(value)) return value.length > 0;
  return isDict(value) ? value.size > 0 : Boolean(value);
}
