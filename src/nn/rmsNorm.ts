/** RMSNorm (Zhang & Sennrich 2019): x / √(mean(x²) + ε) · weight, in float32, rounded once. */
import { customVjp, withKernel } from "../autodiff/index.ts";
import { ShapeError } from "../base/errors.ts";
import { optimizationBarrier, sameShape, showSpec, type Tensor } from "../core/index.ts";

/** x [..., D] of any float dtype, weight [D] float32 → [..., D] in x's dtype. @throws ShapeError */
export function rmsNorm(x: Tensor, weight: Tensor, eps: number): Tensor {
  if (x.shape.length === 0 || !sameShape(weight.shape, x.shape.slice(-1))) {
    throw new ShapeError(
      `rmsNorm: the weight has one value for each entry of x's last dim; got x ${showSpec(x)}, weight ${showSpec(weight)}`,
    );
  }
  const forward = withKernel(
    "halfbyte.rms_norm_forward",
    (x: Tensor, weight: Tensor) => normalized(x, eps).mul(weight).astype(x.dtype),
    { eps },
  );
  // Each gradient computes what it needs from x and the cotangent again, behind a barrier of its own: shared float32
  // intermediates would be kept from the forward pass, or written between the loops, at twice the size of x and the time.
  const backward = withKernel(
    "halfbyte.rms_norm_backward",
    (x: Tensor, weight: Tensor, ct: Tensor) => {
      const forX = apart([x, ct]);
      return [gradientOfX(forX, weight, eps), gradientOfWeight(apart(forX), eps)] as const;
    },
    { eps },
  );
  const norm = customVjp({
    fwd: (x: Tensor, weight: Tensor) => ({ out: forward(x, weight), residuals: { x, weight } }),
    bwd: ({ x, weight }, ct) => backward(x, weight, ct),
  });
  return norm(x, weight);
}

type Pair = readonly [x: Tensor, ct: Tensor];

const apart = (pair: Pair): Pair => optimizationBarrier(pair) as unknown as Pair;

const inverseRms = (wide: Tensor, eps: number): Tensor => wide.mul(wide).mean(-1, { keepDims: true }).add(eps).rsqrt();

function normalized(x: Tensor, eps: number): Tensor {
  const wide = x.astype("float32");
  return wide.mul(inverseRms(wide, eps));
}

/** scale · (w·ct − x̂ · mean(w·ct · x̂)), where x̂ = scale · x. */
function gradientOfX([x, ct]: Pair, weight: Tensor, eps: number): Tensor {
  const wide = x.astype("float32");
  const scale = inverseRms(wide, eps);
  const unit = wide.mul(scale);
  const weighted = ct.astype("float32").mul(weight);
  const along = weighted.mul(unit).mean(-1, { keepDims: true });
  return weighted.sub(unit.mul(along)).mul(scale).astype(x.dtype);
}

/** [D] float32: Σ ct · x̂ over all rows. */
function gradientOfWeight([x, ct]: Pair, eps: number): Tensor {
  const leading = x.shape.slice(0, -1).map((_, dim) => dim);
  return ct.astype("float32").mul(normalized(x, eps)).sum(leading);
}
