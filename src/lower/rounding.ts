/**
 * Keeps XLA from rewriting float arithmetic into other arithmetic, so that every operation rounds as it says. XLA's
 * simplifier takes numbers as real ones in these places, whatever its options (measured, and read in its sources):
 *
 *     x / c, x / broadcast(y)               → x · (1/c), x · broadcast(1/y)
 *     (x / y) / z, x / (y / z), x / √y      → x / (y·z), (x·z) / y, x · rsqrt(y)
 *     (x · c₁) · c₂, (x · c) · broadcast(y) → x · (c₁·c₂), x · broadcast(c·y)
 *     (x ± c₁) ± c₂, x·c ± y·c              → x + (±c₁±c₂), (x ± y)·c
 *
 * A value is hidden from it by `reduce_precision` to its own precision, which compiles to nothing, or, where the
 * simplifier would see through that (constants are folded, broadcasts moved), by a selection that depends on x:
 * `x = x ? y : NaN`. bfloat16 is left alone: its operations are computed in float32 between conversions.
 *
 * Liberties left to XLA: a product that feeds a sum may be one fused multiply-add; functions that are not correctly rounded
 * anyway may be merged (exp(x)·exp(y)); the product with a converted bool is a selection, in which false · NaN is 0; a sum
 * with the number 0 keeps −0; an integer divided by itself is 1, also 0/0 (otherwise −1).
 */
import type { DType, Emitted, Emitter } from "../core/index.ts";

/** What is known of a value from how it was emitted. Nothing is known of arguments and of results of regions. */
export interface Origin {
  readonly op: string;
  readonly operands: readonly (Origin | undefined)[];
  /** Known when compiling. */
  readonly constant: boolean;
  /** Equal along some dim, so that XLA may compute it before broadcasting it; constants count. */
  readonly replicated: boolean;
  /** The value everywhere, of a constant with one value. */
  readonly splat: number | undefined;
}

const prefix = "stablehlo.";
const moves = ["reshape", "transpose", "broadcast_in_dim", "slice", "reverse"];

export function originOf(name: string, operands: readonly (Origin | undefined)[], splat?: number): Origin {
  const op = name.slice(prefix.length);
  const [first] = operands;
  // Elements that are only moved stay what they were.
  if (moves.includes(op) && first !== undefined) {
    return { ...first, replicated: first.replicated || op === "broadcast_in_dim" };
  }
  return {
    op,
    operands,
    // XLA does not fold iota, but broadcasts it from one dim.
    constant: op !== "iota" && operands.every((operand) => operand?.constant),
    replicated: op === "broadcast_in_dim" || operands.every((operand) => operand?.replicated),
    splat,
  };
}

/** exponent and mantissa bits */
const precisions: Partial<Record<DType, readonly [number, number]>> = {
  float16: [5, 10],
  float32: [8, 23],
  float64: [11, 52],
};

type Find = (value: Emitted) => Origin | undefined;

/** The operands with which to emit an operation so that it rounds by itself. */
export function protectOperands(
  e: Emitter,
  name: string,
  operands: readonly Emitted[],
  find: Find,
): readonly Emitted[] {
  const [a, b] = operands;
  if (a === undefined || b === undefined || precisions[a.dtype] === undefined) return operands;
  const [x, y] = [find(a), find(b)];
  if (x?.constant && y?.constant) return operands; // computed when compiling, as written
  if (name === "stablehlo.divide") {
    const dividend = x?.op === "divide" ? keepPrecision(e, a) : a;
    if (y?.replicated && !isPowerOfTwo(y)) {
      // A selection by broadcast values would itself be a broadcast; such a dividend is rare.
      const own = x?.replicated ? e.op("stablehlo.optimization_barrier", [dividend], [a])[0]! : dividend;
      return [own, dependOn(e, b, own)];
    }
    return [dividend, y !== undefined && quotients.includes(y.op) ? keepPrecision(e, b) : b];
  }
  const chain = chains[name];
  if (chain === undefined) return operands;
  const links = (value: Origin | undefined) =>
    value !== undefined && chain.includes(value.op) && value.operands.some((operand) => operand?.constant);
  if (links(x) && (y?.replicated || links(y))) return [keepPrecision(e, a), b];
  return links(y) && x?.replicated ? [a, keepPrecision(e, b)] : operands;
}

const quotients = ["divide", "sqrt", "rsqrt"];
const sums = ["add", "subtract", "multiply"];
const chains: Readonly<Record<string, readonly string[]>> = {
  "stablehlo.multiply": ["multiply"],
  "stablehlo.add": sums,
  "stablehlo.subtract": sums,
};

const isPowerOfTwo = ({ splat }: Origin): boolean =>
  splat !== undefined && Number.isInteger(Math.log2(Math.abs(splat)));

function keepPrecision(e: Emitter, x: Emitted): Emitted {
  const [exponentBits, mantissaBits] = precisions[x.dtype]!;
  const attributes = { exponent_bits: `${exponentBits} : i32`, mantissa_bits: `${mantissaBits} : i32` };
  return e.op("stablehlo.reduce_precision", [x], [x], attributes)[0]!;
}

/** y, as far as XLA can see a function of every element of x; NaN where x is NaN. */
function dependOn(e: Emitter, y: Emitted, x: Emitted): Emitted {
  const [same] = e.op("stablehlo.compare", [x, x], [{ shape: x.shape, dtype: "bool" }], {
    comparison_direction: "#stablehlo<comparison_direction EQ>",
    compare_type: "#stablehlo<comparison_type FLOAT>",
  });
  return e.op("stablehlo.select", [same!, y, e.splat(NaN, x)], [y])[0]!;
}
