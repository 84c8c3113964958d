/** Matrices cut into blocks that share a scale. A matrix here is [M, N]; a block has `rows` × `columns` elements. */
import { optimizationBarrier, pad, type Tensor } from "../core/index.ts";

/** Rows and columns of a block. */
export interface BlockSize {
  readonly rows: number;
  readonly columns: number;
}

const roundUp = (size: number, multiple: number): number => Math.ceil(size / multiple) * multiple;

/** x [M, N] with zero rows and columns added until blocks fit. */
export function padToBlocks(x: Tensor, { rows, columns }: BlockSize): Tensor {
  const [M, N] = x.shape as [number, number];
  return pad(x, { low: [0, 0], high: [roundUp(M, rows) - M, roundUp(N, columns) - N] });
}

/** A dim of N elements as N / size blocks; blocks of one element get no dim of their own. */
const splitDim = (length: number, size: number): number[] => (size === 1 ? [length] : [length / size, size]);

/** [M, N] → [M / rows, rows, N / columns, columns], without the dims of blocks of size 1. */
export function blockView(x: Tensor, { rows, columns }: BlockSize): Tensor {
  const [M, N] = x.shape as [number, number];
  return x.reshape([...splitDim(M, rows), ...splitDim(N, columns)]);
}

/** One value a block, [M / rows, N / columns], in the shape that broadcasts against `blockView`; a scalar stays one. */
export function perBlock(scales: Tensor, { rows, columns }: BlockSize): Tensor {
  if (scales.rank === 0) return scales;
  const [a, b] = scales.shape as [number, number];
  return scales.reshape([a, ...(rows === 1 ? [] : [1]), b, ...(columns === 1 ? [] : [1])]);
}

/** Row-major strides of the dims of `blockView` in a matrix of `width` columns. */
export function blockStrides(width: number, { rows, columns }: BlockSize): number[] {
  return [...(rows === 1 ? [width] : [rows * width, width]), ...(columns === 1 ? [1] : [columns, 1])];
}

/** Elements that one step of a reduction along a row takes: CPU code vectorises loads of stride 4, not of stride 16. */
const rowStep = 4;

export interface Magnitudes {
  /** The largest magnitude of each block, float32 [M / rows, N / columns]. */
  readonly ofBlocks: Tensor;
  /** The largest of all, float32 scalar. */
  readonly ofMatrix: Tensor;
}

/** The largest magnitude of each row (dim 1) or column (dim 0) of x [M, N], float32. */
export function largestMagnitudesAlong(x: Tensor, dim: 0 | 1): Tensor {
  return largestAlong(x.astype("float32").abs(), dim);
}

/** The largest magnitude in x [M, N], float32 scalar; column by column first, which CPU code vectorises. */
export function largestMagnitude(x: Tensor): Tensor {
  const narrow = x.dtype === "bfloat16";
  const bits = narrow ? x.bitcast("uint16").and(0x7fff) : x.bitcast("uint32").and(0x7fffffff);
  const columns = bits.maxOver(0);
  const [largest] = optimizationBarrier([(narrow ? columns.astype("float32") : columns).maxOver()]) as [Tensor];
  return (narrow ? largest.astype("uint16") : largest).bitcast(x.dtype).astype("float32");
}

/**
 * Largest magnitudes in x [M, N]. They are compared as integers: magnitudes of floats order as their bits do, with NaN
 * above infinity, so a NaN is the largest of its block and of the matrix. (XLA's CPU code may drop it from a maximum of
 * floats.) Barriers keep each pass a loop of its own; merged, they would read all of x once more.
 */
export function largestMagnitudes(x: Tensor, { rows, columns }: BlockSize): Magnitudes {
  const [M, N] = x.shape as [number, number];
  const narrow = x.dtype === "bfloat16";
  const materialised = (t: Tensor): Tensor => optimizationBarrier([t])[0]!;
  // Float32 holds 15-bit integers exactly, and XLA has a fast maximum of floats but none of integers.
  const asBlocks = (t: Tensor): Tensor => materialised(narrow ? t.astype("float32") : t);
  const asFloat = (t: Tensor): Tensor => (narrow ? t.astype("uint16") : t).bitcast(x.dtype).astype("float32");
  let bits = narrow ? x.bitcast("uint16").and(0x7fff) : x.bitcast("uint32").and(0x7fffffff);
  if (rows > 1) bits = bits.reshape([M / rows, rows, N]).maxOver(1);
  if (columns > 1) {
    const steps = (rows > 1 ? materialised(bits) : bits).reshape([M / rows, N / columns, columns / rowStep, rowStep]);
    bits = materialised(steps.maxOver(3)).maxOver(2);
  }
  const blocks = asBlocks(bits);
  return { ofBlocks: asFloat(blocks), ofMatrix: asFloat(blocks.maxOver()) };
}

/** The largest of non-negative floats over a dim, NaN above all: as integers, like `largestMagnitudes`. */
export const largestAlong = (x: Tensor, dim: number): Tensor => x.bitcast("uint32").maxOver(dim).bitcast("float32");

/**
 * Each block of a block view combined to one value, [M / rows, N / columns], in a stated order: left to right along a row (or
 * down a column), rows of a tile as a tree (rows / 2, …, 2, 1 apart).
 */
export function reduceBlocks(
  view: Tensor,
  { rows, columns }: BlockSize,
  combine: (a: Tensor, b: Tensor) => Tensor,
): Tensor {
  const along = (x: Tensor, dim: number, length: number): Tensor =>
    Array.from({ length }, (_, i) => x.at(dim, i)).reduce(combine);
  // The view's dims: [M / rows, rows?, N / columns, columns?], without those of size 1.
  if (columns === 1) return along(view, 1, rows);
  const ofRows = along(view, view.rank - 1, columns);
  if (rows === 1) return ofRows;
  let ofBlocks = ofRows;
  for (let half = rows / 2; half >= 1; half /= 2) {
    ofBlocks = combine(ofBlocks.narrow(1, 0, half), ofBlocks.narrow(1, half, half));
  }
  return ofBlocks.squeeze(1);
}

/** float32 sums over each block of a block view. */
export const blockSums = (view: Tensor, size: BlockSize): Tensor => reduceBlocks(view, size, (a, b) => a.add(b));
