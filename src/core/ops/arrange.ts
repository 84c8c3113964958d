/** Rearranging along one dim, made of the operations of shape.ts. */
import { ShapeError } from "../../base/errors.ts";
import { showSpec } from "../hostArray.ts";
import type { Tensor } from "../tensor.ts";
import { checkDim, concat, narrow } from "./shape.ts";

/** x cut along `dim` into `parts` equal pieces, or into pieces of the given sizes. @throws ShapeError */
export function split(x: Tensor, parts: number | readonly number[], dim: number): Tensor[] {
  const at = checkDim("split", x, dim);
  const size = x.shape[at]!;
  const sizes = typeof parts === "number" ? Array.from({ length: parts }, () => size / parts) : parts;
  if (!sizes.every(Number.isInteger) || sizes.reduce((sum, n) => sum + n, 0) !== size) {
    throw new ShapeError(
      `split: dim ${dim} of ${showSpec(x)} cannot be cut into ${typeof parts === "number" ? `${parts} equal pieces` : `pieces of [${parts}]`}`,
    );
  }
  let start = 0;
  return sizes.map((n) => {
    start += n;
    return narrow(x, at, start - n, n);
  });
}

/** The whole of x, `counts[i]` times along dim i. @throws ShapeError */
export function tile(x: Tensor, counts: readonly number[]): Tensor {
  if (counts.length !== x.rank)
    throw new ShapeError(`tile: ${showSpec(x)} needs ${x.rank} counts, one for each dim; got [${counts}]`);
  const apart = x.reshape(x.shape.flatMap((n) => [1, n]));
  return apart.broadcastTo(x.shape.flatMap((n, i) => [counts[i]!, n])).reshape(x.shape.map((n, i) => n * counts[i]!));
}

/** Each entry of `dim` `count` times, one after the other: how heads of grouped queries share a key. @throws ShapeError */
export function repeat(x: Tensor, count: number, dim: number): Tensor {
  const at = checkDim("repeat", x, dim);
  return x
    .expandDims(at + 1)
    .broadcastTo(x.shape.toSpliced(at + 1, 0, count))
    .reshape(x.shape.with(at, x.shape[at]! * count));
}

/** Entries moved by `shift` places to higher indices along `dim`; what leaves at one end comes in at the other. */
export function roll(x: Tensor, shift: number, dim: number): Tensor {
  const at = checkDim("roll", x, dim);
  const size = x.shape[at]!;
  if (!Number.isInteger(shift)) throw new ShapeError(`roll: the shift must be a whole number; got ${shift}`);
  const by = size === 0 ? 0 : ((shift % size) + size) % size;
  return by === 0 ? x : concat([narrow(x, at, size - by, by), narrow(x, at, 0, size - by)], at);
}
