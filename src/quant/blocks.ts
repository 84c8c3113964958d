/** Matrices cut into blocks that share a scale. A matrix here is [M, N]; a block has `rows` × `columns` elements. */
import { optimizationBarrier, pad, type Tensor } from "../core/index.ts";

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

/** One value a block, [M / rows, N / columns], in the shape that broadcasts against `blockView`. */
export function perBlock(scales: Tensor, { rows, columns }: BlockSize): Tensor {
  const [a, b] = scales.shape as [number, number];
  return scales.reshape([a, ...(rows === 1 ? [] : [1]), b, ...(columns === 1 ? [] : [1])]);
}

/** Row-major strides of the dims of `blockView` in a matrix of `width` columns. */
export function blockStrides(width: number, { rows, columns }: BlockSize): number[] {
  return [...(rows === 1 ? [width] : [rows * width, width]), ...(columns === 1 ? [1] : [columns, 1])];
}

/** Elements that one step of a reduction along a row takes: CPU code vectorises loads of stride 4, not of stride 16. */
const rowStep = 4;

/**
 * The largest magnitude of each block of x [M, N], as float32 [M / rows, N / columns]. Compared as integers: magnitudes of
 * floats order as their bits do, NaN above infinity, so a NaN is the largest of its block.
 */
export function blockAmax(x: Tensor, { rows, columns }: BlockSize): Tensor {
  const [M, N] = x.shape as [number, number];
  let bits = x.dtype === "bfloat16" ? x.bitcast("uint16").and(0x7fff) : x.bitcast("uint32").and(0x7fffffff);
  if (rows > 1) bits = bits.reshape([M / rows, rows, N]).maxOver(1);
  if (columns > 1) {
    if (rows > 1) bits = optimizationBarrier([bits])[0]!;
    const steps = bits.reshape([M / rows, N / columns, columns / rowStep, rowStep]).maxOver(3);
    bits = optimizationBarrier([steps])[0]!.maxOver(2);
  }
  return bits.bitcast(x.dtype).astype("float32");
}
