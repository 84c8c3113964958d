/** RMSNorm (Zhang & Sennrich 2019): x / √(mean(x²) + ε) · weight, in float32, rounded once. */
import { remat } from "../autodiff/index.ts";
import type { Tensor } from "../core/index.ts";

/**
 * x [..., D] of any float dtype, weight [D] float32 → [..., D] in x's dtype. Only x is kept for the backward pass: without
 * `remat`, XLA would keep float32 intermediates twice its size.
 */
export function rmsNorm(x: Tensor, weight: Tensor, eps: number): Tensor {
  return remat((x: Tensor, weight: Tensor) => {
    const wide = x.astype("float32");
    const scale = wide.mul(wide).mean(-1, { keepDims: true }).add(eps).rsqrt();
    return wide.mul(scale).mul(weight).astype(x.dtype);
  })(x, weight);
}
