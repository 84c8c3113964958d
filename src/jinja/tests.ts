/** The tests of Jinja (`is defined`), and the operators that are tests. */
import { itemOf, itemsOf } from "./items.ts";
import { compare, isEqual } from "./order.ts";
import { described, printed } from "./print.ts";
import { isLower, isUpper, spendSearch } from "./text.ts";
import {
  type Arguments,
  Float,
  isDict,
  isList,
  isNone,
  isNumber,
  numberOf,
  type Spend,
  Undefined,
  type Value,
} from "./values.ts";

/** `left in right`. */
export function isIn(left: Value, right: Value, spend: Spend): boolean {
  if (typeof right === "string") {
    if (typeof left !== "string") throw new Error(`${described(left)} in a text`);
    spendSearch(right, [left], spend);
    return right.includes(left);
  }
  if (isDict(right)) {
    if (isList(left) || isDict(left)) throw new Error(`${described(left)} is no key`);
    return itemOf(right, left) instanceof Undefined === false;
  }
  return itemsOf(right, spend).some((item) => isEqual(item, left, spend));
}

type Test = (value: Value, other: Value, spend: Spend) => boolean;
const equal: Test = isEqual;
const unequal: Test = (value, other, spend) => !isEqual(value, other, spend);
const ordered =
  (holds: (order: number) => boolean): Test =>
  (value, other, spend) =>
    holds(compare(value, other, spend));
const [less, most, more, least] = [
  ordered((order) => order < 0),
  ordered((order) => order <= 0),
  ordered((order) => order > 0),
  ordered((order) => order >= 0),
];
const remainder = (value: Value, by: number): number => {
  if (!isNumber(value)) throw new Error(`${described(value)} is no number`);
  return Math.abs(numberOf(value) % by);
};

/** Tests of a value with another one, which are operators too. */
const pairTests: Readonly<Record<string, Test>> = {
  ...{ eq: equal, equalto: equal, "==": equal, ne: unequal, "!=": unequal },
  ...{ lt: less, lessthan: less, "<": less, le: most, "<=": most },
  ...{ gt: more, greaterthan: more, ">": more, ge: least, ">=": least },
  in: isIn,
  sameas: (value, other) => value === other || (isNone(value) && isNone(other)),
  divisibleby: (value, other) => remainder(value, numberOf(other as number)) === 0,
};
const tests: Readonly<Record<string, (value: Value, spend: Spend) => boolean>> = {
  defined: (value) => !(value instanceof Undefined),
  undefined: (value) => value instanceof Undefined,
  none: isNone,
  boolean: (value) => typeof value === "boolean",
  true: (value) => value === true,
  false: (value) => value === false,
  string: (value) => typeof value === "string",
  number: (value) => isNumber(value) || typeof value === "bigint",
  integer: (value) => typeof value === "number" || typeof value === "bigint",
  float: (value) => value instanceof Float,
  mapping: isDict,
  sequence: (value) => isList(value) || isDict(value) || typeof value === "string" || value instanceof Undefined,
  iterable: (value) => isList(value) || isDict(value) || typeof value === "string" || value instanceof Undefined,
  callable: (value) => typeof value === "function",
  odd: (value) => remainder(value, 2) === 1,
  even: (value) => remainder(value, 2) === 0,
  lower: (value, spend) => isLower(printed(value, spend)),
  upper: (value, spend) => isUpper(printed(value, spend)),
};

/** `value is test`. @throws Error where there is no such test, or not for such a value */
export function runTest(name: string, value: Value, { args }: Arguments, spend: Spend): boolean {
  if (Object.hasOwn(pairTests, name)) {
    if (args.length !== 1) throw new Error(`the test ${name} takes a value`);
    return pairTests[name]!(value, args[0]!, spend);
  }
  if (!Object.hasOwn(tests, name)) throw new Error(`no test is named ${JSON.stringify(name)}`);
  return tests[name]!(value, spend);
}

/** What `==`, `<`, `in` and the like say. */
export const operatorTests = pairTests;
