/**
 * Element by element: arithmetic, comparisons, bits. Operands have equal shapes; `Tensor` methods broadcast.
 * Interpreted in float64 and rounded once, which is the correctly rounded result for + − × ÷ √ (Figueroa 1995).
 */
import { ShapeError } from "../../base/errors.ts";
import { type DType, dtypeInfo, isFloat } from "../dtype.ts";
import { type Spec, sameShape, showSpec } from "../hostArray.ts";
import type { Op, VjpRule } from "../op.ts";
import { applyOne, type Tensor } from "../tensor.ts";
import { allocate, isSwapped, rounder, type Values } from "../values.ts";
import { where } from "./select.ts";

type Kinds = "float" | "number" | "integer" | "bits";

/** Arithmetic is for 8 to 32 bits and float64: int64 would be inexact in the interpreter, narrower types have none. */
export function checkKind(name: string, x: Spec, allowed: Kinds): void {
  const { kind, bits } = dtypeInfo(x.dtype);
  const float = kind === "float" && bits >= 16;
  const integer = (kind === "int" || kind === "uint") && bits >= 8 && bits <= 32;
  const fits = { float, number: float || integer, integer, bits: integer || kind === "bool" }[allowed];
  if (fits) return;
  const hint = kind === "float" && bits < 16 ? '; cast it first, for example .astype("bfloat16")' : "";
  const what = {
    float: "floats of 16 bits and more",
    number: "numbers of at most 32 bits or float64",
    integer: "integers of 8 to 32 bits",
    bits: "integers of 8 to 32 bits and bool",
  }[allowed];
  throw new ShapeError(`${name}: takes ${what}; got ${showSpec(x)}${hint}`);
}

export function sameOperands(name: string, a: Spec, b: Spec): void {
  if (a.dtype !== b.dtype || !sameShape(a.shape, b.shape)) {
    throw new ShapeError(`${name}: operands must have one shape and dtype; got ${showSpec(a)} and ${showSpec(b)}`);
  }
}

function mapValues(x: Values, f: (x: number) => number): Values {
  const data = allocate(x.dtype, x.data.length);
  const round = rounder(x.dtype);
  for (let i = 0; i < data.length; i++) data[i] = round(f(x.data[i]!));
  return { shape: x.shape, dtype: x.dtype, data };
}

function zipValues(a: Values, b: Values, dtype: DType, f: (a: number, b: number) => number): Values {
  const data = allocate(dtype, a.data.length);
  const round = rounder(dtype);
  for (let i = 0; i < data.length; i++) data[i] = round(f(a.data[i]!, b.data[i]!));
  return { shape: a.shape, dtype, data };
}

interface Unary {
  /** The operation of StableHLO, or of another dialect with its name: "chlo.erf". */
  readonly hlo: string;
  readonly kinds: Kinds;
  readonly f: (x: number) => number;
  /** Cotangent of x from that of y = f(x). */
  readonly vjp: ((ct: Tensor, x: Tensor, y: Tensor) => Tensor) | "none";
}

function unary(name: string, { hlo, kinds, f, vjp }: Unary): (x: Tensor) => Tensor {
  const op: Op<null> = {
    name,
    shape: ([x]) => {
      checkKind(name, x!, kinds);
      return [x!];
    },
    vjp: vjp === "none" ? "none" : ({ inputs: [x], outputs: [y], cts: [ct] }) => [vjp(ct!, x!, y!)],
    lower: (e, [x], _, [out]) => {
      const operation = hlo.includes(".") ? hlo : `stablehlo.${hlo}`;
      // XLA takes some functions of float16 apart into several operations in float16.
      const wide: Spec = { shape: out!.shape, dtype: "float32" };
      if (x!.dtype !== "float16" || kinds !== "float") return e.op(operation, [x!], [out!]);
      return e.op("stablehlo.convert", e.op(operation, e.op("stablehlo.convert", [x!], [wide]), [wide]), [out!]);
    },
    interpret: ([x]) => [mapValues(x!, f)],
  };
  return (x) => applyOne(op, [x], null);
}

/** Ties to even; exact for every float64 below 2^52 in magnitude, and larger ones are integers already. */
export function roundHalfEven(x: number): number {
  if (!(Math.abs(x) < 4503599627370496)) return x;
  const floor = Math.floor(x);
  const fraction = x - floor;
  const rounded = fraction < 0.5 || (fraction === 0.5 && floor % 2 === 0) ? floor : floor + 1;
  return rounded === 0 && (x < 0 || Object.is(x, -0)) ? -0 : rounded;
}

export const neg = unary("neg", { hlo: "negate", kinds: "number", f: (x) => -x, vjp: (ct) => ct.neg() });
// XLA's abs and sign do not take unsigned integers.
const absSigned = unary("abs", { hlo: "abs", kinds: "number", f: Math.abs, vjp: (ct, x) => ct.mul(x.sign()) });
const signSigned = unary("sign", { hlo: "sign", kinds: "number", f: Math.sign, vjp: "none" });
const isUnsigned = (x: Tensor): boolean => dtypeInfo(x.dtype).kind === "uint";
export const abs = (x: Tensor): Tensor => (isUnsigned(x) ? x : absSigned(x));
export const sign = (x: Tensor): Tensor => (isUnsigned(x) ? x.min(1) : signSigned(x));
export const exp = unary("exp", { hlo: "exponential", kinds: "float", f: Math.exp, vjp: (ct, _, y) => ct.mul(y) });
export const log = unary("log", { hlo: "log", kinds: "float", f: Math.log, vjp: (ct, x) => ct.div(x) });
export const log1p = unary("log1p", {
  hlo: "log_plus_one",
  kinds: "float",
  f: Math.log1p,
  vjp: (ct, x) => ct.div(x.add(1)),
});
export const expm1 = unary("expm1", {
  hlo: "exponential_minus_one",
  kinds: "float",
  f: Math.expm1,
  vjp: (ct, _, y) => ct.mul(y.add(1)),
});
export const sqrt = unary("sqrt", { hlo: "sqrt", kinds: "float", f: Math.sqrt, vjp: (ct, _, y) => ct.mul(0.5).div(y) });
export const rsqrt = unary("rsqrt", {
  hlo: "rsqrt",
  kinds: "float",
  f: (x) => 1 / Math.sqrt(x),
  vjp: (ct, _, y) => ct.mul(-0.5).mul(y).mul(y).mul(y),
});
export const tanh = unary("tanh", {
  hlo: "tanh",
  kinds: "float",
  f: Math.tanh,
  vjp: (ct, _, y) => ct.mul(y.mul(y).neg().add(1)),
});
export const sigmoid = unary("sigmoid", {
  hlo: "logistic",
  kinds: "float",
  f: (x) => 1 / (1 + Math.exp(-x)),
  vjp: (ct, _, y) => ct.mul(y).mul(y.neg().add(1)),
});
export const erf = unary("erf", {
  hlo: "chlo.erf",
  kinds: "float",
  f: errorFunction,
  vjp: (ct, x) => ct.mul(x.mul(x).neg().exp()).mul(2 / Math.sqrt(Math.PI)),
});
/**
 * Near 0 by 2/√π · e^(−x²) · Σ 2ⁿ x^(2n+1) / (2n+1)!!, whose terms have one sign; further out 1 − erfc by the continued
 * fraction e^(−x²)/√π / (x + ½/(x + 1/(x + 3⁄2/(x + …)))).
 */
function errorFunction(x: number): number {
  const size = Math.abs(x);
  if (size > 6) return Math.sign(x);
  const bell = Math.exp(-x * x) / Math.sqrt(Math.PI);
  if (size > 1.5) {
    let tail = size;
    for (let n = 150; n > 0; n--) tail = size + n / 2 / tail;
    return Math.sign(x) * (1 - bell / tail);
  }
  let term = x;
  let sum = x;
  for (let n = 1; Math.abs(term) > Math.abs(sum) * 1e-17; n++) {
    term *= (2 * x * x) / (2 * n + 1);
    sum += term;
  }
  return 2 * bell * sum;
}
export const sin = unary("sin", { hlo: "sine", kinds: "float", f: Math.sin, vjp: (ct, x) => ct.mul(x.cos()) });
export const cos = unary("cos", { hlo: "cosine", kinds: "float", f: Math.cos, vjp: (ct, x) => ct.mul(x.sin()).neg() });
export const floor = unary("floor", { hlo: "floor", kinds: "float", f: Math.floor, vjp: "none" });
export const ceil = unary("ceil", { hlo: "ceil", kinds: "float", f: Math.ceil, vjp: "none" });
export const roundEven = unary("round_even", {
  hlo: "round_nearest_even",
  kinds: "float",
  f: roundHalfEven,
  vjp: "none",
});
const notInteger = unary("not", { hlo: "not", kinds: "bits", f: (x) => ~x, vjp: "none" });
const notBool = unary("not", { hlo: "not", kinds: "bits", f: (x) => (x === 0 ? 1 : 0), vjp: "none" });
export const not = (x: Tensor): Tensor => (x.dtype === "bool" ? notBool(x) : notInteger(x));

const isFiniteOp: Op<null> = {
  name: "is_finite",
  shape: ([x]) => {
    checkKind("isFinite", x!, "float");
    return [{ shape: x!.shape, dtype: "bool" }];
  },
  vjp: "none",
  lower: (e, inputs, _, outputs) => e.op("stablehlo.is_finite", inputs, outputs),
  interpret: ([x]) => [
    { shape: x!.shape, dtype: "bool", data: Uint8Array.from(x!.data, (v) => (Number.isFinite(v) ? 1 : 0)) },
  ],
};
export const finite = (x: Tensor): Tensor => applyOne(isFiniteOp, [x], null);

export function nan(x: Tensor): Tensor {
  if (!isFloat(x.dtype)) throw new ShapeError(`isNaN: takes floats; got ${showSpec(x)}`);
  return compare("NE", x, x);
}

interface Binary {
  readonly hlo: string;
  readonly kinds: Kinds;
  readonly f: (a: number, b: number) => number;
  /** Used for integers where float arithmetic would be inexact. */
  readonly integer?: (a: number, b: number) => number;
  readonly vjp: ((ct: Tensor, a: Tensor, b: Tensor, y: Tensor) => readonly [() => Tensor, () => Tensor]) | "none";
}

function binary(name: string, { hlo, kinds, f, integer, vjp }: Binary): (a: Tensor, b: Tensor) => Tensor {
  const rule: VjpRule<null> | "none" =
    vjp === "none"
      ? "none"
      : ({ inputs: [a, b], outputs: [y], cts: [ct], needs }) =>
          vjp(ct!, a!, b!, y!).map((cotangent, i) => (needs[i] ? cotangent() : undefined));
  const op: Op<null> = {
    name,
    shape: ([a, b]) => {
      checkKind(name, a!, kinds);
      sameOperands(name, a!, b!);
      return [a!];
    },
    vjp: rule,
    lower: (e, inputs, _, outputs) => e.op(`stablehlo.${hlo}`, inputs, outputs),
    interpret: ([a, b]) => [zipValues(a!, b!, a!.dtype, dtypeInfo(a!.dtype).kind === "float" ? f : (integer ?? f))],
  };
  return (a, b) => applyOne(op, [a, b], null);
}

export const add = binary("add", {
  hlo: "add",
  kinds: "number",
  f: (a, b) => a + b,
  vjp: (ct) => [() => ct, () => ct],
});
export const sub = binary("sub", {
  hlo: "subtract",
  kinds: "number",
  f: (a, b) => a - b,
  vjp: (ct) => [() => ct, () => ct.neg()],
});
export const mul = binary("mul", {
  hlo: "multiply",
  kinds: "number",
  f: (a, b) => a * b,
  integer: Math.imul,
  vjp: (ct, a, b) => [() => ct.mul(b), () => ct.mul(a)],
});
export const div = binary("div", {
  hlo: "divide",
  kinds: "number",
  f: (a, b) => a / b,
  integer: (a, b) => (b === 0 ? -1 : Math.trunc(a / b)),
  vjp: (ct, _, b, y) => [() => ct.div(b), () => ct.mul(y).div(b).neg()],
});
export const rem = binary("rem", {
  hlo: "remainder",
  kinds: "number",
  f: (a, b) => a % b,
  integer: (a, b) => (b === 0 ? a : a % b),
  vjp: (ct, a, b) => [() => ct, () => ct.mul(truncate(a.div(b))).neg()],
});
export const pow = binary("pow", {
  hlo: "power",
  kinds: "float",
  f: power,
  // A zero exponent or base has a zero factor, where the formulas would give 0 · ∞.
  vjp: (ct, a, b, y) => [
    () => where(b.eq(0), 0, ct.mul(b).mul(a.pow(b.sub(1)))),
    () => where(a.eq(0), 0, ct.mul(y).mul(a.log())),
  ],
});
/** As C and XLA have it: 1 to any power is 1, even NaN, and so is −1 to an infinite one; JavaScript says NaN. */
function power(base: number, exponent: number): number {
  return base === 1 || (base === -1 && Math.abs(exponent) === Infinity) ? 1 : base ** exponent;
}

export const max = binary("max", { hlo: "maximum", kinds: "number", f: Math.max, vjp: extremum((a, b) => b.gt(a)) });
export const min = binary("min", { hlo: "minimum", kinds: "number", f: Math.min, vjp: extremum((a, b) => b.lt(a)) });
export const and = binary("and", { hlo: "and", kinds: "bits", f: (a, b) => a & b, vjp: "none" });
export const or = binary("or", { hlo: "or", kinds: "bits", f: (a, b) => a | b, vjp: "none" });
export const xor = binary("xor", { hlo: "xor", kinds: "bits", f: (a, b) => a ^ b, vjp: "none" });
// Shifts by the width or more give 0, as XLA defines them.
export const shiftLeft = binary("shift_left", {
  hlo: "shift_left",
  kinds: "integer",
  f: (a, b) => (b >>> 0 > 31 ? 0 : a << b),
  vjp: "none",
});
const shiftRightUnsigned = binary("shift_right", {
  hlo: "shift_right_logical",
  kinds: "integer",
  f: (a, b) => (b >>> 0 > 31 ? 0 : a >>> b),
  vjp: "none",
});

/** Logical right shift. Signed integers are shifted as the unsigned integers of the same bits. */
export function shiftRight(a: Tensor, b: Tensor): Tensor {
  if (dtypeInfo(a.dtype).kind !== "int" || dtypeInfo(a.dtype).bits < 8) return shiftRightUnsigned(a, b);
  const unsigned = `u${a.dtype}` as DType;
  return shiftRightUnsigned(a.bitcast(unsigned), b.bitcast(unsigned)).bitcast(a.dtype);
}

function truncate(x: Tensor): Tensor {
  return where(x.lt(0), x.ceil(), x.floor());
}

/** The operand that won gets the whole cotangent; at a tie (and for NaN) the left one. */
function extremum(rightWins: (a: Tensor, b: Tensor) => Tensor): Exclude<Binary["vjp"], "none"> {
  return (ct, a, b) => [() => where(rightWins(a, b), 0, ct), () => where(rightWins(a, b), ct, 0)];
}

export type Direction = "EQ" | "NE" | "LT" | "LE" | "GT" | "GE";

const comparisons: Record<Direction, (a: number, b: number) => boolean> = {
  EQ: (a, b) => a === b,
  NE: (a, b) => a !== b,
  LT: (a, b) => a < b,
  LE: (a, b) => a <= b,
  GT: (a, b) => a > b,
  GE: (a, b) => a >= b,
};

const compareOp: Op<{ direction: Direction }> = {
  name: "compare",
  shape: ([a, b]) => {
    sameOperands("compare", a!, b!);
    return [{ shape: a!.shape, dtype: "bool" }];
  },
  vjp: "none",
  lower: (e, inputs, { direction }, outputs) => {
    const { kind } = dtypeInfo(inputs[0]!.dtype);
    const type = kind === "float" ? "FLOAT" : kind === "int" ? "SIGNED" : "UNSIGNED";
    return e.op("stablehlo.compare", inputs, outputs, {
      comparison_direction: `#stablehlo<comparison_direction ${direction}>`,
      compare_type: `#stablehlo<comparison_type ${type}>`,
    });
  },
  interpret: ([a, b], { direction }) => {
    const holds = comparisons[direction];
    const data = new Uint8Array(a!.data.length);
    for (let i = 0; i < data.length; i++) {
      const [x, y] = [a!.data[i]!, b!.data[i]!];
      data[i] = (isSwapped(a!.dtype, x, y) ? holds(y, x) : holds(x, y)) ? 1 : 0;
    }
    return [{ shape: a!.shape, dtype: "bool", data }];
  },
  show: ({ direction }) => direction,
};

export const compare = (direction: Direction, a: Tensor, b: Tensor): Tensor =>
  applyOne(compareOp, [a, b], { direction });
