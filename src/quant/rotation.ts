/**
 * The random Hadamard transform of the two operands of the weight gradient: groups of 16 along the tokens, multiplied by
 * diag(σ)·H₁₆/4. The matrix is orthogonal, so it cancels in the product; outliers of a group are spread over the group.
 */
import { constant, dot, hostArray, type Tensor } from "../core/index.ts";

export const rotationSize = 16;

/** The fixed signs σ. */
const signs = [1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1];

/** The entry of Sylvester's Hadamard matrix: −1 to the number of ones in the binary digits of i and j together. */
function hadamard(i: number, j: number): number {
  let sign = 1;
  for (let common = i & j; common !== 0; common &= common - 1) sign = -sign;
  return sign;
}

/** [16, 16]: row i holds the factors of the 16 tokens in rotated token i. All are ±1/4, exact in every float. */
export function rotationMatrix(): Float32Array {
  return Float32Array.from({ length: rotationSize ** 2 }, (_, k) => {
    const [i, j] = [Math.floor(k / rotationSize), k % rotationSize];
    return (signs[j]! * hadamard(j, i)) / 4;
  });
}

/** x [T, K], T a multiple of 16 → the same shape, rotated along T. Summed in float32, rounded to x's dtype. */
export function rotateTokens(x: Tensor): Tensor {
  const [T, K] = x.shape as [number, number];
  const groups = T / rotationSize;
  const matrix = constant(hostArray([rotationSize, rotationSize], "float32", rotationMatrix())).astype(x.dtype);
  const rotated = dot(matrix.broadcastTo([groups, rotationSize, rotationSize]), x.reshape([groups, rotationSize, K]), {
    contract: [[2], [1]],
    batch: [[0], [0]],
  });
  return rotated.reshape([T, K]);
}
