/** Rows by index: reading them, and adding into them. Reads outside clamp to the edge, writes outside are dropped. */
import { ShapeError } from "../../base/errors.ts";
import { type DType, dtypeInfo, isInteger } from "../dtype.ts";
import { type Spec, sameShape, showSpec, sizeOf } from "../hostArray.ts";
import type { Op } from "../op.ts";
import { applyOne, type Tensor } from "../tensor.ts";
import { allocate, rounder } from "../values.ts";
import { full, iota } from "./constant.ts";
import { where } from "./select.ts";
import { checkDim, i64s } from "./shape.ts";

function checkIndices(name: string, indices: Spec): void {
  if (!isInteger(indices.dtype)) throw new ShapeError(`${name}: indices must be integers; got ${showSpec(indices)}`);
}

/** Row size of a table: the product of all dims but the first. */
const rowSize = (table: Spec): number => sizeOf(table.shape.slice(1));

const takeOp: Op<null> = {
  name: "take",
  shape: ([table, indices]) => {
    checkIndices("take", indices!);
    if (!table!.shape[0]) throw new ShapeError(`take: the table ${showSpec(table!)} has no rows`);
    return [{ shape: [...indices!.shape, ...table!.shape.slice(1)], dtype: table!.dtype }];
  },
  vjp: ({ inputs: [table, indices], cts: [ct] }) => {
    const last = table!.shape[0]! - 1;
    const read = where(indices!.lt(0), 0, where(indices!.gt(last), last, indices!));
    return [scatterAdd(full(table!.shape, 0, table!.dtype), read, ct!), undefined];
  },
  lower: (e, [table, indices], _, outputs) => {
    const rank = indices!.shape.length;
    const offset = table!.shape.slice(1).map((_, i) => rank + i);
    return e.op("stablehlo.gather", [table!, indices!], outputs, {
      dimension_numbers: `#stablehlo.gather<offset_dims = [${offset.join(", ")}], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = ${rank}>`,
      slice_sizes: i64s([1, ...table!.shape.slice(1)]),
      indices_are_sorted: "false",
    });
  },
  interpret: ([table, indices], _, [out]) => {
    const size = rowSize(table!);
    const data = allocate(out!.dtype, sizeOf(out!.shape));
    indices!.data.forEach((index, i) => {
      const row = Math.min(Math.max(index, 0), table!.shape[0]! - 1);
      for (let j = 0; j < size; j++) data[i * size + j] = table!.data[row * size + j]!;
    });
    return [{ shape: out!.shape, dtype: out!.dtype, data }];
  },
};

const scatterAddOp: Op<null> = {
  name: "scatter_add",
  shape: ([target, indices, updates]) => {
    checkIndices("scatterAdd", indices!);
    const { kind, bits } = dtypeInfo(target!.dtype);
    if (kind === "bool" || bits < 8 || (kind !== "float" && bits === 64)) {
      throw new ShapeError(`scatterAdd: cannot add in ${target!.dtype}; cast it first`);
    }
    const wanted = [...indices!.shape, ...target!.shape.slice(1)];
    if (updates!.dtype !== target!.dtype || !sameShape(updates!.shape, wanted)) {
      throw new ShapeError(`scatterAdd: updates must be ${target!.dtype}[${wanted}]; got ${showSpec(updates!)}`);
    }
    return [target!];
  },
  vjp: ({ inputs: [target, indices, updates], cts: [ct], needs }) => {
    const inside = indices!.ge(0).and(indices!.lt(target!.shape[0]!));
    const perRow = inside.reshape([...inside.shape, ...target!.shape.slice(1).map(() => 1)]);
    return [ct!, undefined, needs[2] ? where(perRow.broadcastTo(updates!.shape), take(ct!, indices!), 0) : undefined];
  },
  lower: (e, [target, indices, updates], _, [out]) => {
    // 16-bit floats are summed in float32 and rounded once, like every sum.
    const wide: DType =
      dtypeInfo(target!.dtype).kind === "float" && dtypeInfo(target!.dtype).bits < 32 ? "float32" : target!.dtype;
    const widen = (x: typeof target) =>
      x!.dtype === wide ? x! : e.op("stablehlo.convert", [x!], [{ shape: x!.shape, dtype: wide }])[0]!;
    const rank = indices!.shape.length;
    const window = target!.shape.slice(1).map((_, i) => rank + i);
    const scalar: Spec = { shape: [], dtype: wide };
    const [sum] = e.op(
      "stablehlo.scatter",
      [widen(target), indices!, widen(updates)],
      [{ shape: out!.shape, dtype: wide }],
      {
        scatter_dimension_numbers: `#stablehlo.scatter<update_window_dims = [${window.join(", ")}], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = ${rank}>`,
        indices_are_sorted: "false",
        unique_indices: "false",
      },
      [{ inputs: [scalar, scalar], body: (a, b) => e.op("stablehlo.add", [a, b], [scalar]) }],
    );
    return wide === out!.dtype ? [sum!] : e.op("stablehlo.convert", [sum!], [out!]);
  },
  interpret: ([target, indices, updates], _, [out]) => {
    const size = rowSize(target!);
    const narrow = dtypeInfo(out!.dtype).kind === "float" && dtypeInfo(out!.dtype).bits < 32;
    const sums = narrow ? new Float32Array(target!.data) : target!.data.slice();
    indices!.data.forEach((row, i) => {
      if (row < 0 || row >= target!.shape[0]!) return;
      for (let j = 0; j < size; j++) sums[row * size + j]! += updates!.data[i * size + j]!;
    });
    const round = rounder(out!.dtype);
    const data = allocate(out!.dtype, sums.length);
    for (let i = 0; i < data.length; i++) data[i] = round(sums[i]!);
    return [{ shape: out!.shape, dtype: out!.dtype, data }];
  },
};

/** Rows of `table` (dim 0) at integer `indices`: an embedding. Result: indices.shape, then the row's shape. */
export function take(table: Tensor, indices: Tensor): Tensor {
  return applyOne(takeOp, [table, wideIndices(indices)], null);
}

/** `target` with each row of `updates` added to the row that `indices` names; repeated indices add up. */
export function scatterAdd(target: Tensor, indices: Tensor, updates: Tensor): Tensor {
  return applyOne(scatterAddOp, [target, wideIndices(indices), updates], null);
}

/** XLA compares indices with the number of rows in the indices' dtype, where it may not fit. */
const wideIndices = (indices: Tensor): Tensor =>
  isInteger(indices.dtype) && dtypeInfo(indices.dtype).bits < 32 ? indices.astype("int32") : indices;

/** 1 where the position along a new last dim equals the index, else 0. */
export function oneHot(indices: Tensor, depth: number, dtype: DType): Tensor {
  const shape = [...indices.shape, depth];
  return iota(shape, shape.length - 1, indices.dtype)
    .eq(indices.expandDims(-1))
    .astype(dtype);
}

/**
 * One element of x along `dim` for each position of `indices` (x's shape with size 1 at `dim`); zero where the index is
 * outside. Written as a masked sum, which fuses with what makes x, where a gather of single elements would not.
 */
export function takeAlong(x: Tensor, indices: Tensor, dim: number): Tensor {
  const at = checkDim("takeAlong", x, dim);
  checkIndices("takeAlong", indices);
  if (!sameShape(indices.shape, x.shape.with(at, 1))) {
    throw new ShapeError(`takeAlong: indices must have the shape [${x.shape.with(at, 1)}]; got ${showSpec(indices)}`);
  }
  const hit = iota(x.shape, at, indices.dtype).eq(indices);
  return where(hit, x, 0).sum(at, { keepDims: true });
}
