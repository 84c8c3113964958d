/** Sums of exponentials along a dim, in float32 and rounded once, safe for large and for infinite values. */
import { type DType, dtypeInfo, stopGradient, type Tensor, where } from "../core/index.ts";

/** x in float32 or float64, and its highest values as far as they are finite, which exponents are taken relative to. */
function shifted(x: Tensor, dim: number): { wide: Tensor; highest: Tensor } {
  const compute: DType = dtypeInfo(x.dtype).bits < 64 ? "float32" : "float64";
  const wide = x.astype(compute);
  const highest = stopGradient(wide.maxOver(dim, { keepDims: true }));
  return { wide, highest: where(highest.isFinite(), highest, 0) };
}

/** exp(x) / Σ exp(x) along `dim`. @throws ShapeError */
export function softmax(x: Tensor, dim: number): Tensor {
  const { wide, highest } = shifted(x, dim);
  const weights = wide.sub(highest).exp();
  return weights.div(weights.sum(dim, { keepDims: true })).astype(x.dtype);
}

/** log Σ exp(x) along `dim`, which stays with size 1. @throws ShapeError */
export function logSumExp(x: Tensor, dim: number): Tensor {
  const { wide, highest } = shifted(x, dim);
  return wide.sub(highest).exp().sum(dim, { keepDims: true }).log().add(highest).astype(x.dtype);
}

/** log softmax along `dim`. @throws ShapeError */
export function logSoftmax(x: Tensor, dim: number): Tensor {
  const { wide, highest } = shifted(x, dim);
  const relative = wide.sub(highest);
  return relative.sub(relative.exp().sum(dim, { keepDims: true }).log()).astype(x.dtype);
}
