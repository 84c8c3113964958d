/** A linear layer with its derivative, for tests of its three GEMMs. */
import { vjp } from "../../src/autodiff/index.ts";
import { type HostArray, hostArray, type Tensor } from "../../src/core/index.ts";
import { type LinearPrecision, linear, type RandomKey } from "../../src/quant/index.ts";
import { numbers } from "./bothWays.ts";

/** [y, dx, dW] of a linear layer. */
export const threeGemms = (precision: LinearPrecision, random?: RandomKey) => (x: Tensor, w: Tensor, dy: Tensor) => {
  const site = { module: "mlp.up", layer: 3, precision, ...(random && { random }) };
  const { out, pullback } = vjp((x: Tensor, w: Tensor) => linear(x, w, site), x, w);
  return [out, ...pullback(dy)];
};

/** The same values in float32: with float32 inputs no result is rounded. */
export const asFloat32 = (array: HostArray): HostArray =>
  hostArray(array.shape, "float32", numbers(array) as Float32Array);
