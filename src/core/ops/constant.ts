/** Values that depend on nothing: one number everywhere, counting along a dim, and literal arrays. */
import { ShapeError } from "../../base/errors.ts";
import { type DType, dtypeInfo, isInteger } from "../dtype.ts";
import { checkHostArray, type HostArray, isHostArray, type Shape, type Spec, sizeOf } from "../hostArray.ts";
import type { Op } from "../op.ts";
import { applyOne, type Tensor } from "../tensor.ts";
import { allocate, generate, representable, rounder, stridesOf, toValues, type Values } from "../values.ts";
import { checkDim, checkShape } from "./shape.ts";

const fullOp: Op<Spec & { value: number }> = {
  name: "full",
  shape: (_, { shape, dtype, value }) => {
    checkShape("full", shape);
    if (!representable(value, dtype)) throw new ShapeError(`full: ${value} is no ${dtype}`);
    return [{ shape, dtype }];
  },
  vjp: "none",
  lower: (e, _, { value }, [out]) => [e.splat(dtypeInfo(out!.dtype).kind === "bool" ? value !== 0 : value, out!)],
  interpret: (_, { shape, dtype, value }) => [
    { shape, dtype, data: allocate(dtype, sizeOf(shape)).fill(rounder(dtype)(value)) },
  ],
  show: ({ value }) => String(value),
};

const iotaOp: Op<Spec & { dim: number }> = {
  name: "iota",
  shape: (_, { shape, dtype }) => {
    checkShape("iota", shape);
    if (dtype === "bool" || dtype === "float8_e8m0fnu" || (isInteger(dtype) && dtypeInfo(dtype).bits < 8))
      throw new ShapeError(`iota: cannot count in ${dtype}`);
    return [{ shape, dtype }];
  },
  vjp: "none",
  lower: (e, _, { dim }, outputs) => e.op("stablehlo.iota", [], outputs, { iota_dimension: `${dim} : i64` }),
  interpret: (_, { shape, dtype, dim }) => {
    const stride = stridesOf(shape)[dim]!;
    return [generate({ shape, dtype }, (i) => Math.floor(i / stride) % shape[dim]!)];
  },
  show: ({ dim }) => `dim=${dim}`,
};

const literalOp: Op<{ values: Values }> = {
  name: "constant",
  shape: (_, { values }) => [values],
  vjp: "none",
  lower: (e, _, { values }) => [e.dense(values)],
  interpret: (_, { values }) => [values],
};

/** A tensor of one value everywhere. */
export function full(shape: Shape, value: number, dtype: DType): Tensor {
  return applyOne(fullOp, [], { shape, dtype, value });
}

/** A tensor of zeros. */
export function zeros(shape: Shape, dtype: DType): Tensor {
  return full(shape, 0, dtype);
}

/** 0, 1, 2, … along `dim`, the same along the others. */
export function iota(shape: Shape, dim: number, dtype: DType): Tensor {
  return applyOne(iotaOp, [], { shape, dtype, dim: checkDim("iota", { shape, dtype }, dim) });
}

/** A literal array, written into the program: for small tables. */
export function constant(host: HostArray): Tensor {
  if (!isHostArray(host)) {
    throw new ShapeError(
      `constant: takes a host array, as hostArray makes it; got ${typeof host}. full(shape, value, dtype) repeats one number`,
    );
  }
  checkHostArray(host);
  return applyOne(literalOp, [], { values: toValues(host) });
}
