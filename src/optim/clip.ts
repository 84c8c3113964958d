/**
 * The global norm of a gradient, and clipping by it.
 *
 * Squares are taken and summed in float64, whose range holds the square of every float32: nothing overflows, nothing is
 * flushed to zero, and one pass over the gradient is enough. Measured on 32 M parameters in 75 tensors, 2 cores, best of
 * 40 interleaved runs: 16 ms (by rows or at once), against 22 to 33 ms for a pass that finds the largest value and one
 * that sums scaled float32 squares, and 5 ms for plain float32, which overflows at 2e19: under 1 % of such a model's step.
 */
import { withKernel } from "../autodiff/index.ts";
import { ShapeError, UserError } from "../base/errors.ts";
import { full, isFloat, showSpec, stack, type Tensor, treeLeaves, treeMap, treePaths, where } from "../core/index.ts";

/** Gradients of a limited global norm, and the norms before. */
export interface ClippedGradient<T> {
  /**
   * The gradient times `scale`. Used only in element-wise expressions it is never stored: XLA multiplies on the way.
   * Where `finite` is false it means nothing.
   */
  readonly grads: T;
  /** Global norm before clipping, float32 scalar; NaN or infinite where a gradient is, or beyond float32. */
  readonly norm: Tensor;
  /** Float32 scalar in (0, 1]. */
  readonly scale: Tensor;
  /** Bool scalar: every gradient is finite, and the clipped one and its squares fit in float32. Else skip the step. */
  readonly finite: Tensor;
  /** Norm of each tensor, float32 [number of tensors] in the order of `treePaths`: says where a NaN came from. */
  readonly tensorNorms: Tensor;
}

/** Σ x², a float64 scalar. */
const sumOfSquares = withKernel("halfbyte.sum_of_squares", (x: Tensor): Tensor => {
  const wide = x.astype("float64");
  return wide.mul(wide).sum();
});

/**
 * Scales a tree of gradients to a global norm of at most `threshold`; 0 measures the norm and changes nothing.
 * @throws UserError where the threshold is negative or not finite, ShapeError where a leaf is no float tensor
 */
export function clipByGlobalNorm<T>(grads: T, threshold: number): ClippedGradient<T> {
  if (!(threshold >= 0 && threshold < 2 ** 63)) {
    throw new UserError("E_CLIP", `the clipping threshold must be 0 (off) or a positive number; got ${threshold}`);
  }
  for (const { path, leaf } of treePaths(grads) as { path: string; leaf: Tensor }[]) {
    if (!isFloat(leaf.dtype)) throw new ShapeError(`clip: "${path}" is ${showSpec(leaf)}, no gradient`);
  }
  const squares = stack(
    treeLeaves<Tensor>(grads).map((g) => sumOfSquares(g)),
    0,
  );
  const norm = squares.sum().sqrt();
  const one = full([], 1, "float64");
  const scale = threshold === 0 ? one : where(norm.gt(threshold), full([], threshold, "float64").div(norm), one);
  // Comparisons with NaN are false. 2^63: what an optimiser squares stays below float32's limit.
  const finite = norm
    .mul(scale)
    .lt(2 ** 63)
    .and(scale.ge(2 ** -126));
  const scale32 = scale.astype("float32");
  return {
    grads: treeMap<T>((g: Tensor) => (threshold === 0 ? g : g.mul(scale32.astype(g.dtype))), grads),
    norm: norm.astype("float32"),
    scale: scale32,
    finite,
    tensorNorms: squares.sqrt().astype("float32"),
  };
}
