/** Places in an array that are known only when running, as int32. */
import { ShapeError } from "../../base/errors.ts";
import { dtypeInfo, isInteger } from "../dtype.ts";
import { type Spec, showSpec } from "../hostArray.ts";
import type { Tensor } from "../tensor.ts";
import { where } from "./select.ts";

export function checkIndices(name: string, indices: Spec): void {
  if (!isInteger(indices.dtype)) throw new ShapeError(`${name}: indices must be integers; got ${showSpec(indices)}`);
}

/**
 * Indices into a dim of `size`, as int32: XLA compares them with sizes in their own dtype, where those may not fit. What lies
 * outside stays outside, on its side.
 */
export function asIndices(name: string, indices: Tensor, size: number): Tensor {
  checkIndices(name, indices);
  const { kind, bits } = dtypeInfo(indices.dtype);
  if (indices.dtype === "int32" || bits < 32) return indices.astype("int32");
  const below = where(indices.gt(size), size, indices);
  return (kind === "int" ? where(below.lt(-1), -1, below) : below).astype("int32");
}
