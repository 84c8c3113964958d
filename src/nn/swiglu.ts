/** SwiGLU (Shazeer 2020): silu(gate) · up, in float32, rounded once. */
import { customVjp, vjp, withKernel } from "../autodiff/index.ts";
import type { Tensor } from "../core/index.ts";

/** gate and up [..., F] → [..., F] in their dtype. Only the two inputs are kept for the backward pass. */
export function swiglu(gate: Tensor, up: Tensor): Tensor {
  const forward = withKernel("halfbyte.swiglu_forward", written);
  const backward = withKernel("halfbyte.swiglu_backward", (gate: Tensor, up: Tensor, ct: Tensor) =>
    vjp(written, gate, up).pullback(ct),
  );
  const product = customVjp({
    fwd: (gate: Tensor, up: Tensor) => ({ out: forward(gate, up), residuals: { gate, up } }),
    bwd: ({ gate, up }, ct) => backward(gate, up, ct),
  });
  return product(gate, up);
}

function written(gate: Tensor, up: Tensor): Tensor {
  const wide = gate.astype("float32");
  return wide.mul(wide.sigmoid()).mul(up.astype("float32")).astype(gate.dtype);
}
