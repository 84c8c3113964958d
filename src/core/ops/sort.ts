/**
 * Sorting along one dim, always stable. One order, compiled and interpreted: −0 equals 0, denormal numbers count, and NaN is
 * larger than everything and equal to NaN, so it comes last, or first in descending order.
 */
import { ShapeError } from "../../base/errors.ts";
import { type DType, dtypeInfo } from "../dtype.ts";
import { type Spec, sameShape, showSpec } from "../hostArray.ts";
import type { Emitted, Emitter, Op } from "../op.ts";
import { apply, type Tensor } from "../tensor.ts";
import { gatherOffsets, isSwapped, offsets, stridesOf, type Values } from "../values.ts";
import { full, iota } from "./constant.ts";
import { scatterUpdate } from "./gather.ts";
import { checkDim, narrow } from "./shape.ts";

/** The order of a sort, and what becomes of equal elements. */
export interface SortOptions {
  /** From the largest to the smallest; default from the smallest. */
  readonly descending?: boolean;
}

interface SortParams {
  readonly dim: number;
  readonly descending: boolean;
}

/** Inputs: keys and what is moved along with them. Outputs: the same in the keys' order, then that order as int32. */
const sortOp: Op<SortParams> = {
  name: "sort",
  shape: (inputs) => {
    const [keys] = inputs;
    for (const x of inputs) {
      if (!sameShape(x.shape, keys!.shape))
        throw new ShapeError(`sort: keys ${showSpec(keys!)} and values ${showSpec(x)} must have one shape`);
    }
    return [...inputs, { shape: keys!.shape, dtype: "int32" }];
  },
  vjp: ({ inputs, outputs, params: { dim }, cts, needs }) => {
    const places = outputs.at(-1)!.shape.map((_, d, shape) => (d === dim ? outputs.at(-1)! : iota(shape, d, "int32")));
    return inputs.map((x, i) =>
      needs[i] && cts[i] !== undefined ? scatterUpdate(full(x.shape, 0, x.dtype), places, cts[i]) : undefined,
    );
  },
  lower: (e, inputs, { dim, descending }, outputs) => {
    const [order] = e.op("stablehlo.iota", [], [outputs.at(-1)!], { iota_dimension: `${dim} : i64` });
    const scalars = outputs.flatMap(({ dtype }): Spec[] => [
      { shape: [], dtype },
      { shape: [], dtype },
    ]);
    const attributes = { dimension: `${dim} : i64`, is_stable: "true" };
    return e.op("stablehlo.sort", [...inputs, order!], outputs, attributes, [
      {
        inputs: scalars,
        body: (a, b) => {
          const [left, right] = [orderKey(e, a!), orderKey(e, b!)];
          return e.op("stablehlo.compare", [left, right], [{ shape: [], dtype: "bool" }], {
            comparison_direction: `#stablehlo<comparison_direction ${descending ? "GT" : "LT"}>`,
            compare_type: `#stablehlo<comparison_type ${dtypeInfo(left.dtype).kind === "int" ? "SIGNED" : "UNSIGNED"}>`,
          });
        },
      },
    ]);
  },
  interpret: (inputs, params, [out]) => {
    const order = orderOf(inputs[0]!, params);
    const strides = stridesOf(out!.shape);
    const stride = strides[params.dim]!;
    // Where each element comes from: the start of its row, and its place in it.
    const starts = offsets(out!.shape, strides.with(params.dim, 0));
    const from = starts.map((start, i) => start + order[i]! * stride);
    return [...inputs.map((x) => gatherOffsets(x, from, x.shape)), { shape: out!.shape, dtype: "int32", data: order }];
  },
  show: ({ dim, descending }) => `dim=${dim}${descending ? " descending" : ""}`,
};

/** An integer that orders a scalar as the file's head says: floats by sign and magnitude, NaN one above infinity. */
function orderKey(e: Emitter, x: Emitted): Emitted {
  const one = (name: string, operands: readonly Emitted[], dtype: DType, attributes = {}) =>
    e.op(`stablehlo.${name}`, operands, [{ shape: [], dtype }], attributes)[0]!;
  const { kind, bits } = dtypeInfo(x.dtype);
  if (kind !== "float") return x;
  if (x.dtype === "float8_e8m0fnu") return one("bitcast_convert", [x], "uint8");
  const value = bits < 32 ? one("convert", [x], "float32") : x;
  const integer: DType = bits < 64 ? "int32" : "int64";
  const scalar: Spec = { shape: [], dtype: integer };
  const magnitude = one("bitcast_convert", [one("abs", [value], value.dtype)], integer);
  const isNegative = one("compare", [one("bitcast_convert", [value], integer), e.splat(0, scalar)], "bool", {
    comparison_direction: "#stablehlo<comparison_direction LT>",
    compare_type: "#stablehlo<comparison_type SIGNED>",
  });
  const infinity = one("bitcast_convert", [e.splat(Infinity, { shape: [], dtype: value.dtype })], integer);
  const signed = one("select", [isNegative, one("negate", [magnitude], integer), magnitude], integer);
  const isNan = one("compare", [magnitude, infinity], "bool", {
    comparison_direction: "#stablehlo<comparison_direction GT>",
    compare_type: "#stablehlo<comparison_type SIGNED>",
  });
  return one("select", [isNan, one("add", [infinity, e.splat(1, scalar)], integer), signed], integer);
}

function isLess(a: number, b: number): boolean {
  return a < b || (Number.isNaN(b) && !Number.isNaN(a));
}

/** For each element of the result, its place along the dim before. */
function orderOf({ shape, dtype, data }: Values, { dim, descending }: SortParams): Int32Array {
  const strides = stridesOf(shape);
  const [size, stride] = [shape[dim]!, strides[dim]!];
  const order = new Int32Array(data.length);
  for (const start of offsets(shape.with(dim, Math.min(1, size)), strides)) {
    const row = Int32Array.from({ length: size }, (_, i) => i).sort((i, j) => {
      const [a, b] = [data[start + i * stride]!, data[start + j * stride]!];
      const sign = isLess(a, b) ? -1 : isLess(b, a) ? 1 : 0;
      return descending !== isSwapped(dtype, a, b) ? -sign : sign;
    });
    for (let i = 0; i < size; i++) order[start + i * stride] = row[i]!;
  }
  return order;
}

function applySort(
  name: string,
  inputs: readonly Tensor[],
  dim: number,
  { descending = false }: SortOptions,
): readonly Tensor[] {
  return apply(sortOp, inputs, { dim: checkDim(name, inputs[0]!, dim), descending });
}

/** x in order along `dim`; equal elements keep theirs, NaN counts as the largest. @throws ShapeError */
export function sort(x: Tensor, dim: number, options: SortOptions = {}): Tensor {
  return applySort("sort", [x], dim, options)[0]!;
}

/** Where the elements of `sort(x, dim)` come from: places along `dim`, as int32. @throws ShapeError */
export function argsort(x: Tensor, dim: number, options: SortOptions = {}): Tensor {
  return applySort("argsort", [x], dim, options)[1]!;
}

/** `values`, of the keys' shape, moved along with the keys as these are sorted. @throws ShapeError */
export function sortPairs(
  keys: Tensor,
  values: readonly Tensor[],
  dim: number,
  options: SortOptions = {},
): { keys: Tensor; values: readonly Tensor[] } {
  const outputs = applySort("sortPairs", [keys, ...values], dim, options);
  return { keys: outputs[0]!, values: outputs.slice(1, -1) };
}

/**
 * The k largest elements along `dim`, from the largest down, and their places there as int32: the first of several equal
 * ones first. NaN counts as the largest. @throws ShapeError
 */
export function topK(x: Tensor, k: number, dim = -1): { values: Tensor; indices: Tensor } {
  const at = checkDim("topK", x, dim);
  if (!(Number.isInteger(k) && k >= 0 && k <= x.shape[at]!)) {
    throw new ShapeError(
      `topK: k must be a whole number of 0 to ${x.shape[at]}, dim ${dim} of ${showSpec(x)}; got ${k}`,
    );
  }
  const [values, indices] = applySort("topK", [x], at, { descending: true });
  return { values: narrow(values!, at, 0, k), indices: narrow(indices!, at, 0, k) };
}
