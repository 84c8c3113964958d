/**
 * Random Hadamard transforms of the two operands of a GEMM: groups along the contracting dim, multiplied by
 * diag(signs)·H/√n. The matrix is orthogonal, so it cancels in the product; outliers of a group are spread over the group.
 */
import { ShapeError } from "../base/errors.ts";
import { constant, dot, full, hostArray, iota, type Tensor, where } from "../core/index.ts";
import { type DrawStream, randomBits16 } from "../core/random.ts";
import { padToBlocks } from "./blocks.ts";
import type { Rotation } from "./precision.ts";

/** The signs σ that NVIDIA's recipe fixes; larger transforms repeat them. */
const fixedSigns = [1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1];

/** The entry of Sylvester's Hadamard matrix: −1 to the number of ones in the binary digits of i and j together. */
function hadamard(i: number, j: number): number {
  let sign = 1;
  for (let common = i & j; common !== 0; common &= common - 1) sign = -sign;
  return sign;
}

/** A transform of groups as a matrix. */
export interface RotationMatrix {
  readonly size: number;
  /** float32 [size, size]: row i holds the factors of the group's elements in its rotated element i. */
  readonly matrix: Tensor;
  /** Multiplies the float32 sums where 1/√size is no power of two, which no bfloat16 entry could hold. */
  readonly scale: number | undefined;
}

/** Entries of the transform without its signs, row-major; ±1/√size where that is a power of two, else ±1. */
function hadamardEntries(size: number, sign: (j: number) => number): Float32Array {
  const entry = scaleOf(size) === undefined ? 1 / Math.sqrt(size) : 1;
  return Float32Array.from({ length: size ** 2 }, (_, k) => {
    const [i, j] = [Math.floor(k / size), k % size];
    return sign(j) * hadamard(j, i) * entry;
  });
}

const scaleOf = (size: number): number | undefined =>
  Number.isInteger(Math.log2(size) / 2) ? undefined : Math.fround(1 / Math.sqrt(size));

/**
 * The transform that a description means.
 * @param stream draws fresh signs, the same for the two operands of a GEMM; needed for them alone. @throws ShapeError without
 */
export function rotationMatrix({ size, signs }: Rotation, stream?: DrawStream): RotationMatrix {
  const sign = signs === "fixed" ? (j: number) => fixedSigns[j % fixedSigns.length]! : () => 1;
  const entries = constant(hostArray([size, size], "float32", hadamardEntries(size, sign)));
  const scale = scaleOf(size);
  if (signs !== "fresh") return { size, matrix: entries, scale };
  if (stream === undefined) throw new ShapeError("rotationMatrix: fresh signs need a `stream` to be drawn from");
  const positive = randomBits16(stream, iota([size], 0, "uint32")).ge(2 ** 15);
  const drawn = where(positive, full([size], 1, "float32"), full([size], -1, "float32"));
  return { size, matrix: entries.mul(drawn), scale };
}

/** The transform that undoes it. */
export const inverse = ({ matrix, ...rest }: RotationMatrix): RotationMatrix => ({
  ...rest,
  matrix: matrix.transpose(),
});

/**
 * x [M, N] with groups along dim 0 (axis "col") or dim 1 ("row") rotated, that dim padded with zeros to whole groups. Summed
 * in float32, rounded to x's dtype.
 */
export function rotate(x: Tensor, { size, matrix, scale }: RotationMatrix, axis: "row" | "col"): Tensor {
  const padded = padToBlocks(x, axis === "col" ? { rows: size, columns: 1 } : { rows: 1, columns: size });
  const [M, N] = padded.shape as [number, number];
  const factors = matrix.astype(x.dtype);
  const out = scale === undefined ? x.dtype : "float32";
  let rotated: Tensor;
  if (axis === "col") {
    const groups = M / size;
    rotated = dot(factors.broadcastTo([groups, size, size]), padded.reshape([groups, size, N]), {
      contract: [[2], [1]],
      batch: [[0], [0]],
      out,
    });
  } else {
    rotated = dot(padded.reshape([(M * N) / size, size]), factors, { contract: [[1], [1]], out });
  }
  const scaled = scale === undefined ? rotated : rotated.mul(scale).astype(x.dtype);
  return scaled.reshape([M, N]);
}
