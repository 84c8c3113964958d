/** Numbers as Python computes them, and reads them from texts. */
import { described } from "./print.ts";
import { strip } from "./text.ts";
import { Float, integer, isInteger, isNumber, numberOf, type Value } from "./values.ts";

const whole = /^[+-]?\d+(?:_\d+)*$/;
const decimal = /^[+-]?(?:\d+(?:_\d+)*\.?(?:\d+(?:_\d+)*)?|\.\d+(?:_\d+)*)(?:e[+-]?\d+)?$/i;

export function floatOf(value: Value): number | undefined {
  if (isNumber(value)) return numberOf(value);
  if (typeof value === "bigint") return Number(value);
  if (typeof value !== "string") return undefined;
  const bare = strip(value);
  const named = /^([+-]?)(?:(inf|infinity)|nan)$/i.exec(bare);
  if (named) return named[2] ? (named[1] === "-" ? -1 : 1) * Number.POSITIVE_INFINITY : Number.NaN;
  return decimal.test(bare) ? Number(bare.replaceAll("_", "")) : undefined;
}

export function intOf(value: Value, otherwise: Value): Value {
  if (typeof value === "bigint") return value;
  const number = floatOf(value);
  if (typeof value === "string" && whole.test(strip(value))) return integer(number!);
  return number === undefined || !Number.isFinite(number) ? otherwise : integer(Math.trunc(number));
}

/** Python rounds the decimal value, and what lies in the middle to the even neighbour. */
export function rounded(value: Value, [precision = 0, method = "common"]: readonly (Value | undefined)[]): Value {
  if (!isNumber(value) || !isInteger(precision)) throw new Error(`round of ${described(value)}`);
  const [number, digits] = [numberOf(value), Math.min(15, Math.max(0, Number(precision)))];
  if (method !== "common") {
    const round = method === "ceil" ? Math.ceil : method === "floor" ? Math.floor : undefined;
    if (!round) throw new Error(`round by ${described(method as Value)}`);
    return new Float(round(number * 10 ** digits) / 10 ** digits);
  }
  if (!(value instanceof Float)) return Number(value);
  const exact = Math.abs(number).toFixed(Math.min(100, digits + 60));
  const point = exact.indexOf(".") + digits + (digits > 0 ? 1 : 0);
  const [kept, rest] = [exact.slice(0, point), exact.slice(point).replace(".", "")];
  const isTie = /^50*$/.test(rest);
  return new Float(
    Math.sign(number) * Number(isTie && /[02468]$/.test(kept) ? kept : Math.abs(number).toFixed(digits)),
  );
}

export function arithmetic(operator: string, left: number | boolean | Float, right: number | boolean | Float): Value {
  const [a, b] = [numberOf(left), numberOf(right)];
  const isFloat = left instanceof Float || right instanceof Float;
  const result = (value: number) => (isFloat ? new Float(value) : integer(value));
  if (["/", "//", "%"].includes(operator) && b === 0) throw new Error(`${a} ${operator} 0`);
  switch (operator) {
    case "+":
      return result(a + b);
    case "-":
      return result(a - b);
    case "*":
      return result(a * b);
    case "/":
      return new Float(a / b);
    case "//":
      return result(Math.floor(a / b));
    case "%":
      if (a % b === 0) return result(b < 0 ? -0 : 0);
      return result(a % b < 0 !== b < 0 ? (a % b) + b : a % b);
    case "**":
      if (a === 0 && b < 0) throw new Error(`0 ** ${b}`);
      if (!Number.isFinite(a ** b)) throw new Error(`${a} ** ${b}`);
      return b < 0 ? new Float(a ** b) : result(a ** b);
    default:
      throw new Error(`the operator ${operator}`);
  }
}

/** `-value`, `+value`. */
export function signed(operator: string, value: Value): Value {
  if (!isNumber(value)) throw new Error(`${operator}${described(value)}`);
  const number = operator === "-" ? -numberOf(value) : numberOf(value);
  return value instanceof Float ? new Float(number) : integer(number);
}
