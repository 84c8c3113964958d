/**
 * Running sums, products and maxima along one dim. Integers and maxima are exact in any order. Floats of 16 bits are combined
 * in float32 and rounded once; the interpreter combines from left to right in float64, so results agree as those of sums do. Where all
 * that is summed is −0 the interpreter gives 0; compiled it is 0 or −0, as XLA may leave out the sum with 0.
 */
import { type DType, dtypeInfo, isFloat } from "../dtype.ts";
import type { Spec } from "../hostArray.ts";
import type { Emitted, Emitter, Op, VjpRule } from "../op.ts";
import { applyOne, type Tensor } from "../tensor.ts";
import { allocate, offsets, rounder, stridesOf } from "../values.ts";
import { full, iota } from "./constant.ts";
import { checkKind } from "./elementwise.ts";
import { scatterAdd } from "./gather.ts";
import { lowest } from "./reduce.ts";
import { where } from "./select.ts";
import { checkDim, i64s, narrow, pad } from "./shape.ts";

interface CumulativeParams {
  readonly dim: number;
}

interface Cumulative {
  readonly hlo: string;
  /** What combines with any x to x. */
  readonly identity: (x: { readonly dtype: DType }) => number;
  readonly combine: (a: number, b: number) => number;
  /** Used for integers. */
  readonly integer: (a: number, b: number) => number;
  readonly vjp: VjpRule<CumulativeParams>;
}

/** The op gives, at each entry, the combination of all entries up to it. */
function cumulative(name: string, rules: Cumulative): Op<CumulativeParams> {
  return {
    name,
    shape: ([x]) => {
      checkKind(name, x!, "number");
      return [x!];
    },
    vjp: rules.vjp,
    lower: (e, [x], { dim }, [out]) => {
      const widened = rules.hlo !== "maximum" && isFloat(x!.dtype) && dtypeInfo(x!.dtype).bits < 32;
      if (!widened) return [emitRunning(e, x!, dim, rules)];
      const wide = e.op("stablehlo.convert", [x!], [{ shape: x!.shape, dtype: "float32" }])[0]!;
      return e.op("stablehlo.convert", [emitRunning(e, wide, dim, rules)], [out!]);
    },
    interpret: ([x], { dim }) => {
      const { shape, dtype } = x!;
      const strides = stridesOf(shape);
      const data = allocate(dtype, x!.data.length);
      const round = rounder(dtype);
      const combine = isFloat(dtype) ? rules.combine : rules.integer;
      for (const start of offsets(shape.with(dim, Math.min(1, shape[dim]!)), strides)) {
        let running = rules.identity(x!);
        for (let i = 0; i < shape[dim]!; i++) {
          const at = start + i * strides[dim]!;
          running = combine(running, x!.data[at]!);
          data[at] = round(running);
        }
      }
      return [{ shape, dtype, data }];
    },
    show: ({ dim }) => `dim=${dim}`,
  };
}

/** A window that ends at each entry and is as long as the dim: XLA takes such windows in blocks, in less than n² steps. */
function emitRunning(e: Emitter, x: Emitted, dim: number, { hlo, identity }: Cumulative): Emitted {
  const size = x.shape[dim]!;
  if (x.shape.includes(0)) return x;
  const scalar: Spec = { shape: [], dtype: x.dtype };
  const padding = x.shape.map((_, d) => (d === dim ? `[${size - 1}, 0]` : "[0, 0]"));
  return e.op(
    "stablehlo.reduce_window",
    [x, e.splat(identity(x), scalar)],
    [x],
    {
      window_dimensions: i64s(x.shape.map((_, d) => (d === dim ? size : 1))),
      padding: `dense<[${padding.join(", ")}]> : tensor<${x.shape.length}x2xi64>`,
    },
    [{ inputs: [scalar, scalar], body: (a, b) => e.op(`stablehlo.${hlo}`, [a, b], [scalar]) }],
  )[0]!;
}

/** Entries moved by `by` places to higher indices along `dim`, `fill` where none comes from. */
function shift(x: Tensor, dim: number, by: number, fill: number): Tensor {
  const size = x.shape[dim]!;
  const kept = Math.max(0, size - Math.abs(by));
  const none = x.shape.map(() => 0);
  return pad(narrow(x, dim, by < 0 ? size - kept : 0, kept), {
    low: none.with(dim, by > 0 ? size - kept : 0),
    high: none.with(dim, by < 0 ? size - kept : 0),
    value: fill,
  });
}

/** r[i] = b[i] + a[i] · r[i + 1], from the last entry down. */
function recurrenceFromEnd(a: Tensor, b: Tensor, dim: number): Tensor {
  let [factor, sum] = [a, b];
  for (let step = 1; step < b.shape[dim]!; step *= 2) {
    sum = sum.add(factor.mul(shift(sum, dim, -step, 0)));
    factor = factor.mul(shift(factor, dim, -step, 0));
  }
  return sum;
}

const sumOp = cumulative("cumsum", {
  hlo: "add",
  identity: () => 0,
  combine: (a, b) => a + b,
  integer: (a, b) => (a + b) | 0,
  vjp: ({ params: { dim }, cts: [ct] }) => [cumsum(ct!, dim, { reverse: true })],
});

const productOp = cumulative("cumprod", {
  hlo: "multiply",
  identity: () => 1,
  combine: (a, b) => a * b,
  integer: Math.imul,
  // x[i] is a factor of every product from i on: what stands before it, times Σ ct[j] · x[i+1] ⋯ x[j]. No division, so
  // zeros are no exception.
  vjp: ({ inputs: [x], params: { dim }, cts: [ct] }) => {
    const compute: DType = dtypeInfo(x!.dtype).bits < 32 ? "float32" : x!.dtype;
    const [factors, grads] = [x!.astype(compute), ct!.astype(compute)];
    const after = recurrenceFromEnd(shift(factors, dim, -1, 0), grads, dim);
    return [cumprod(factors, dim, { exclusive: true }).mul(after).astype(x!.dtype)];
  },
});

const maxOp = cumulative("cummax", {
  hlo: "maximum",
  identity: lowest,
  combine: Math.max,
  integer: Math.max,
  // Each cotangent goes to the first entry that reached the maximum, as at a tie of `max`.
  vjp: ({ inputs: [x], params: { dim }, cts: [ct] }) => {
    const { shape } = x!;
    const index = iota(shape, dim, "int32");
    const before = cummax(x!, dim, { exclusive: true });
    const isRecord = index
      .eq(0)
      .or(x!.gt(before))
      .or(x!.ne(x!).and(before.eq(before)));
    const record = cummax(where(isRecord, index, 0), dim);
    const places = shape.map((_, d) => (d === dim ? record : iota(shape, d, "int32")));
    return [scatterAdd(full(shape, 0, x!.dtype), places, ct!)];
  },
});

/** Which part of a dim each running value covers. */
export interface CumulativeOptions {
  /** From the last entry to the first. */
  readonly reverse?: boolean;
  /** Without the entry itself: the first result is 0, 1 or the lowest value. */
  readonly exclusive?: boolean;
}

function run(
  op: Op<CumulativeParams>,
  identity: number,
  x: Tensor,
  dim: number,
  { reverse = false, exclusive = false }: CumulativeOptions,
): Tensor {
  const at = checkDim(op.name, x, dim);
  const along = reverse ? x.reverse([at]) : x;
  const inclusive = applyOne(op, [along], { dim: at });
  const result = exclusive ? shift(inclusive, at, 1, identity) : inclusive;
  return reverse ? result.reverse([at]) : result;
}

/** Running sums along `dim`. Integers wrap. @throws ShapeError */
export function cumsum(x: Tensor, dim: number, options: CumulativeOptions = {}): Tensor {
  return run(sumOp, 0, x, dim, options);
}

/** Running products along `dim`. Integers wrap. @throws ShapeError */
export function cumprod(x: Tensor, dim: number, options: CumulativeOptions = {}): Tensor {
  return run(productOp, 1, x, dim, options);
}

/** Running maxima along `dim`; from the first NaN on all are NaN. @throws ShapeError */
export function cummax(x: Tensor, dim: number, options: CumulativeOptions = {}): Tensor {
  return run(maxOp, lowest(x), x, dim, options);
}
