/** Reductions over dims. Sums and products of 16-bit floats are taken in float32 and rounded once, compiled or interpreted. */
import { ShapeError } from "../../base/errors.ts";
import { type DType, dtypeInfo, isFloat } from "../dtype.ts";
import { type Shape, type Spec, showSpec, sizeOf } from "../hostArray.ts";
import type { Emitted, Emitter, Op } from "../op.ts";
import { applyOne, type Tensor } from "../tensor.ts";
import { allocate, offsets, rounder, stridesOf, type Values } from "../values.ts";
import { convert } from "./convert.ts";
import { checkDim, checkDims, i64s } from "./shape.ts";

/** Whether reduced dims stay, with size 1. */
export interface ReduceOptions {
  /** Keep the reduced dims with size 1. */
  readonly keepDims?: boolean;
}

interface ReduceParams {
  readonly dims: readonly number[];
}

const without = (shape: Shape, dims: readonly number[]): Shape => shape.filter((_, i) => !dims.includes(i));

function reducedSpec(name: string, x: Spec, { dims }: ReduceParams): Spec[] {
  const { kind, bits } = dtypeInfo(x.dtype);
  const counts = kind === "bool" && ["reduce_sum", "reduce_prod"].includes(name);
  if (counts || bits < 8 || (kind !== "float" && bits === 64) || (kind === "float" && bits < 16)) {
    throw new ShapeError(`${name}: cannot reduce ${showSpec(x)}; cast it first`);
  }
  return [{ shape: without(x.shape, dims), dtype: x.dtype }];
}

/** Flat offsets of the kept positions and, from each, of the elements that are reduced into it. */
function reductionOffsets(x: Values, dims: readonly number[]): { kept: Int32Array; inner: Int32Array } {
  const strides = stridesOf(x.shape);
  const keptDims = x.shape.map((_, i) => i).filter((i) => !dims.includes(i));
  const pick = (list: readonly number[], from: readonly number[]) => list.map((i) => from[i]!);
  return {
    kept: offsets(pick(keptDims, x.shape), pick(keptDims, strides)),
    inner: offsets(pick(dims, x.shape), pick(dims, strides)),
  };
}

interface Reduction {
  readonly hlo: string;
  /** Value of an empty reduction. */
  readonly initial: (spec: Spec) => number;
  readonly combine: (a: number, b: number) => number;
  /** Used for integers where float arithmetic would be inexact. */
  readonly integer?: (a: number, b: number) => number;
  readonly vjp: Op<ReduceParams>["vjp"];
}

export function reduction(
  name: string,
  { hlo, initial, combine, integer = combine, vjp }: Reduction,
): Op<ReduceParams> {
  return {
    name,
    shape: ([x], params) => reducedSpec(name, x!, params),
    vjp,
    lower: (e, [x], { dims }, [out]) => {
      const rounds = hlo === "add" || hlo === "multiply";
      const narrow = rounds && dtypeInfo(x!.dtype).kind === "float" && dtypeInfo(x!.dtype).bits < 32;
      const wide = narrow ? e.op("stablehlo.convert", [x!], [{ shape: x!.shape, dtype: "float32" }])[0]! : x!;
      const result = emitReduce(e, {
        hlo,
        dims,
        x: wide,
        initial: initial(out!),
        out: { shape: out!.shape, dtype: wide.dtype },
      });
      return narrow ? e.op("stablehlo.convert", [result], [out!]) : [result];
    },
    interpret: ([x], { dims }, [out]) => {
      const { kept, inner } = reductionOffsets(x!, dims);
      const data = allocate(out!.dtype, kept.length);
      const round = rounder(out!.dtype);
      const next = isFloat(x!.dtype) ? combine : integer;
      for (let i = 0; i < kept.length; i++) {
        let value = initial(out!);
        for (let j = 0; j < inner.length; j++) value = next(value, x!.data[kept[i]! + inner[j]!]!);
        data[i] = round(value);
      }
      return [{ shape: out!.shape, dtype: out!.dtype, data }];
    },
    show: ({ dims }) => `dims=${dims}`,
  };
}

interface EmittedReduction {
  readonly hlo: string;
  readonly dims: readonly number[];
  readonly x: Emitted;
  readonly initial: number;
  readonly out: Spec;
}

/** One `stablehlo.reduce` with a binary operation as its body. */
export function emitReduce(e: Emitter, reduction: EmittedReduction): Emitted {
  const { hlo, dims, x } = reduction;
  const result = emitPlainReduce(e, reduction);
  const compares = hlo === "maximum" || hlo === "minimum";
  if (!(e.partitioned && compares && dtypeInfo(x.dtype).kind === "float")) return result;
  // Where a reduced dim is split over devices, the exchange of their results may lose a NaN.
  const flags: Spec = { shape: x.shape, dtype: "bool" };
  const [unordered] = e.op("stablehlo.compare", [x, x], [flags], {
    comparison_direction: "#stablehlo<comparison_direction NE>",
    compare_type: "#stablehlo<comparison_type FLOAT>",
  });
  const anyNaN = emitPlainReduce(e, {
    hlo: "or",
    dims,
    x: unordered!,
    initial: 0,
    out: { shape: result.shape, dtype: "bool" },
  });
  return e.op("stablehlo.select", [anyNaN, e.splat(NaN, result), result], [result])[0]!;
}

function emitPlainReduce(e: Emitter, { hlo, dims, x, initial, out }: EmittedReduction): Emitted {
  const scalar: Spec = { shape: [], dtype: x.dtype };
  const start = e.splat(dtypeInfo(x.dtype).kind === "bool" ? initial !== 0 : initial, scalar);
  return e.op("stablehlo.reduce", [x, start], [out], { dimensions: i64s(dims) }, [
    { inputs: [scalar, scalar], body: (a, b) => e.op(`stablehlo.${hlo}`, [a, b], [scalar]) },
  ])[0]!;
}

const restore = (ct: Tensor, shape: Shape, dims: readonly number[]): Tensor =>
  ct.reshape(shape.map((n, i) => (dims.includes(i) ? 1 : n))).broadcastTo(shape);

/** The cotangent goes to the elements that equal the extremum, in equal parts where several do. */
const extremumVjp: Op<ReduceParams>["vjp"] = ({ inputs: [x], outputs: [y], params: { dims }, cts: [ct] }) => {
  const hit = x!.eq(restore(y!, x!.shape, dims)).astype(x!.dtype);
  const share = ct!.div(hit.sum(dims));
  return [restore(share, x!.shape, dims).mul(hit)];
};

/** The lowest value of a dtype; −∞ for floats. */
export function lowest({ dtype }: { readonly dtype: DType }): number {
  const { kind, bits } = dtypeInfo(dtype);
  return kind === "float" ? -Infinity : kind === "int" ? -(2 ** (bits - 1)) : 0;
}

function highest({ dtype }: Spec): number {
  const { kind, bits } = dtypeInfo(dtype);
  return kind === "float" ? Infinity : kind === "int" ? 2 ** (bits - 1) - 1 : kind === "bool" ? 1 : 2 ** bits - 1;
}

const sumOp = reduction("reduce_sum", {
  hlo: "add",
  initial: () => 0,
  combine: (a, b) => a + b,
  vjp: ({ inputs: [x], params: { dims }, cts: [ct] }) => [restore(ct!, x!.shape, dims)],
});
const maxOp = reduction("reduce_max", { hlo: "maximum", initial: lowest, combine: Math.max, vjp: extremumVjp });
const minOp = reduction("reduce_min", { hlo: "minimum", initial: highest, combine: Math.min, vjp: extremumVjp });

interface Extremum {
  readonly hlo: "maximum" | "minimum";
  readonly initial: (spec: Spec) => number;
  readonly isBetter: (a: number, b: number) => boolean;
}

const placeOfExtremum = (name: string, { hlo, initial, isBetter }: Extremum): Op<{ dim: number }> => ({
  name: name.toLowerCase(),
  shape: ([x], { dim }) => {
    reducedSpec(name, x!, { dims: [dim] });
    if (x!.shape[dim] === 0) throw new ShapeError(`${name}: dim ${dim} of ${showSpec(x!)} is empty`);
    return [{ shape: without(x!.shape, [dim]), dtype: "int32" }];
  },
  vjp: "none",
  lower: (e, [x], { dim }, [out]) => {
    // The extreme value, then the lowest index that has it: two reductions that XLA vectorises.
    const index: Spec = { shape: x!.shape, dtype: "int32" };
    const mask: Spec = { shape: x!.shape, dtype: "bool" };
    const best = emitReduce(e, {
      hlo,
      dims: [dim],
      x: x!,
      initial: initial(x!),
      out: { shape: out!.shape, dtype: x!.dtype },
    });
    const kept = x!.shape.map((_, i) => i).filter((i) => i !== dim);
    const spread = e.op("stablehlo.broadcast_in_dim", [best], [x!], { broadcast_dimensions: i64s(kept) })[0]!;
    const compare = (direction: string, other: Emitted): Emitted =>
      e.op("stablehlo.compare", [x!, other], [mask], {
        comparison_direction: `#stablehlo<comparison_direction ${direction}>`,
      })[0]!;
    const equal = compare("EQ", spread);
    const hit =
      dtypeInfo(x!.dtype).kind === "float" ? e.op("stablehlo.or", [equal, compare("NE", x!)], [mask])[0]! : equal;
    const [positions] = e.op("stablehlo.iota", [], [index], { iota_dimension: `${dim} : i64` });
    const [candidates] = e.op("stablehlo.select", [hit, positions!, e.splat(x!.shape[dim]! - 1, index)], [index]);
    return [emitReduce(e, { hlo: "minimum", dims: [dim], x: candidates!, initial: 2 ** 31 - 1, out: out! })];
  },
  interpret: ([x], { dim }, [out]) => {
    const { kept, inner } = reductionOffsets(x!, [dim]);
    const data = new Int32Array(kept.length);
    for (let i = 0; i < kept.length; i++) {
      const valueAt = (j: number) => x!.data[kept[i]! + inner[j]!]!;
      for (let j = 1; j < inner.length; j++) {
        const best = valueAt(data[i]!);
        if (isBetter(valueAt(j), best) || (Number.isNaN(valueAt(j)) && !Number.isNaN(best))) data[i] = j;
      }
    }
    return [{ shape: out!.shape, dtype: "int32", data }];
  },
  show: ({ dim }) => `dim=${dim}`,
});

const argMaxOp = placeOfExtremum("argMax", { hlo: "maximum", initial: lowest, isBetter: (a, b) => a > b });
const argMinOp = placeOfExtremum("argMin", { hlo: "minimum", initial: highest, isBetter: (a, b) => a < b });

export function reduce(
  op: Op<ReduceParams>,
  x: Tensor,
  dims: number | readonly number[] | undefined,
  { keepDims }: ReduceOptions = {},
): Tensor {
  const list = dims === undefined ? x.shape.map((_, i) => i) : typeof dims === "number" ? [dims] : dims;
  const resolved = checkDims(op.name, x, list).sort((a, b) => a - b);
  const result = resolved.length === 0 ? x : applyOne(op, [x], { dims: resolved });
  return keepDims ? result.reshape(x.shape.map((n, i) => (resolved.includes(i) ? 1 : n))) : result;
}

export const reduceSum = (x: Tensor, dims?: number | readonly number[], options?: ReduceOptions): Tensor =>
  reduce(sumOp, x, dims, options);
export const reduceMax = (x: Tensor, dims?: number | readonly number[], options?: ReduceOptions): Tensor =>
  reduce(maxOp, x, dims, options);
export const reduceMin = (x: Tensor, dims?: number | readonly number[], options?: ReduceOptions): Tensor =>
  reduce(minOp, x, dims, options);

export function reduceMean(x: Tensor, dims?: number | readonly number[], options?: ReduceOptions): Tensor {
  const { kind, bits } = dtypeInfo(x.dtype);
  if (kind !== "float") throw new ShapeError(`mean: takes floats; got ${showSpec(x)}`);
  const total = reduceSum(bits < 32 ? convert(x, "float32") : x, dims, options);
  return convert(total.div(sizeOf(x.shape) / sizeOf(total.shape)), x.dtype);
}

/** Index of the largest value along `dim`, as int32: the first of several equal ones, the first NaN where there is one. */
export function argMax(x: Tensor, dim: number): Tensor {
  return applyOne(argMaxOp, [x], { dim: checkDim("argMax", x, dim) });
}

/** Index of the smallest value along `dim`, as int32: the first of several equal ones, the first NaN where there is one. */
export function argMin(x: Tensor, dim: number): Tensor {
  return applyOne(argMinOp, [x], { dim: checkDim("argMin", x, dim) });
}

const checkBool = (what: string, x: Tensor): void => {
  if (x.dtype !== "bool")
    throw new ShapeError(`${what}: takes bool; got ${showSpec(x)}. Compare first, as .ne(0) does`);
};

/** Of booleans the largest. */
export function reduceAny(x: Tensor, dims?: number | readonly number[], options?: ReduceOptions): Tensor {
  checkBool("any", x);
  return reduce(maxOp, x, dims, options);
}

/** Of booleans the smallest. */
export function reduceAll(x: Tensor, dims?: number | readonly number[], options?: ReduceOptions): Tensor {
  checkBool("all", x);
  return reduce(minOp, x, dims, options);
}
