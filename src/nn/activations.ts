/** Activations, computed in float32 and rounded once. Only the input is kept for the backward pass. */
import { remat } from "../autodiff/index.ts";
import { type DType, dtypeInfo, type Tensor } from "../core/index.ts";

function inFloat32(f: (x: Tensor) => Tensor): (x: Tensor) => Tensor {
  return remat((x: Tensor) => {
    const compute: DType = dtypeInfo(x.dtype).bits < 64 ? "float32" : "float64";
    return f(x.astype(compute)).astype(x.dtype);
  });
}

/** x · sigmoid(x), also called swish. */
export const silu = inFloat32((x) => x.mul(x.sigmoid()));

/** x · Φ(x), Φ the normal distribution (Hendrycks & Gimpel 2016), by the error function. */
export const gelu = inFloat32((x) => x.mul(x.mul(Math.SQRT1_2).erf().add(1)).mul(0.5));

/** GELU as GPT-2 and Gemma have it: Φ(x) by tanh(√(2/π)·(x + 0.044715·x³)). */
export const geluTanh = inFloat32((x) => {
  const inner = x.add(x.mul(x).mul(x).mul(0.044715)).mul(Math.sqrt(2 / Math.PI));
  return x.mul(inner.tanh().add(1)).mul(0.5);
});
