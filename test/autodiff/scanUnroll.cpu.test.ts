/** The bits of a scan and of its gradient, whatever the number of steps that an iteration takes. */
import { expect, it } from "vitest";
import { remat, scan, valueAndGrad } from "../../src/autodiff/index.ts";
import { dot, type HostArray, hostArray, type Tensor, treeLeaves } from "../../src/core/index.ts";
import { jit } from "../../src/jit/index.ts";
import { fetchAndFree } from "../fetchAndFree.ts";

const numbers = (shape: number[], scale: number): HostArray => {
  const length = shape.reduce((a, b) => a * b, 1);
  return hostArray(
    shape,
    "float32",
    Float32Array.from({ length }, (_, i) => scale * Math.sin(1 + i * i * 0.7)),
  );
};
const [w, h, xs] = [numbers([8, 8], 0.4), numbers([8], 1), numbers([7, 8], 1)];

/** Products that feed sums within a step and across steps, where XLA could fuse them into one rounding. */
function lossAndGradient(unroll: number, reverse: boolean) {
  const step = remat((h: Tensor, x: Tensor, w: Tensor) => dot(h, w).mul(0.9).add(x.mul(h)).tanh());
  const loss = ({ w, h }: { w: Tensor; h: Tensor }, xs: Tensor) => {
    const body = (h: Tensor, x: Tensor) => {
      const next = step(h, x, w).add(h.mul(1.1));
      return { carry: next, y: next.mul(x).sum() };
    };
    const { carry, ys } = scan(body, h, xs, { unroll, reverse });
    return carry.sum().add(ys.sum());
  };
  return jit(((p: { w: Tensor; h: Tensor }, xs: Tensor) => valueAndGrad(loss)(p, xs)) as never);
}

it.each([false, true])("reverse: %s", async (reverse) => {
  const results = new Map<number, unknown>();
  for (const unroll of [1, 2, 3, 7, 9]) {
    const compiled = lossAndGradient(unroll, reverse) as (...args: unknown[]) => Promise<unknown>;
    const result = await fetchAndFree(compiled({ w, h }, xs) as never);
    results.set(
      unroll,
      treeLeaves<HostArray>(result).map(({ data }) => data),
    );
  }
  for (const [unroll, result] of results) expect(result, `unroll ${unroll}`).toEqual(results.get(1));
});
