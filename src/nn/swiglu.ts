/** SwiGLU (Shazeer 2020): silu(gate) · up, in float32, rounded once. */
import { remat } from "../autodiff/index.ts";
import type { Tensor } from "../core/index.ts";

/** gate and up [..., F] → [..., F] in their dtype. Only the two inputs are kept for the backward pass. */
export function swiglu(gate: Tensor, up: Tensor): Tensor {
  return remat((gate: Tensor, up: Tensor) => {
    const wide = gate.astype("float32");
    return wide.mul(wide.sigmoid()).mul(up.astype("float32")).astype(gate.dtype);
  })(gate, up);
}
