import { describe, expect, it } from "vitest";
import { customVjp, grad, remat } from "../../src/autodiff/index.ts";
import { dot, type HostArray, hostArray, interpret, type Tensor, trace } from "../../src/core/index.ts";

const matrix = (seed: number): HostArray =>
  hostArray(
    [4, 4],
    "float32",
    Float32Array.from({ length: 16 }, (_, i) => Math.sin(seed + i)),
  );

const count = (f: (w: Tensor, x: Tensor) => Tensor, op: string): number =>
  trace(f, matrix(1), matrix(2)).eqns.filter((eqn) => eqn.op.name === op).length;

/** tanh(x·w) whose own rule keeps the product. */
const custom = customVjp({
  fwd: (w: Tensor, x: Tensor) => {
    const y = dot(x, w).tanh();
    return { out: y, residuals: { w, x, y } };
  },
  bwd: ({ w, x, y }, ct) => {
    const d = ct.mul(y.mul(y).neg().add(1));
    return [dot(x, d, { contract: [[0], [0]] }), dot(d, w, { contract: [[1], [1]] })];
  },
});

const chain = (layer: (w: Tensor, x: Tensor) => Tensor) => (w: Tensor, x: Tensor) => layer(w, layer(w, x));
const gradOf = (f: (w: Tensor, x: Tensor) => Tensor) => (w: Tensor, x: Tensor) =>
  grad((w: Tensor) => f(w, x).sin().sum())(w);

function expectSameGradient(f: (w: Tensor, x: Tensor) => Tensor, g: (w: Tensor, x: Tensor) => Tensor): void {
  const [a, b] = [f, g].map((h) => interpret(gradOf(h), matrix(1), matrix(2)).data as Float32Array);
  for (let i = 0; i < a!.length; i++) expect(a![i]).toBeCloseTo(b![i]!, 6);
}

describe("remat around functions with rules of their own", () => {
  it("computes a custom rule's residuals again", () => {
    const f = chain(custom);
    expectSameGradient(f, remat(f));
    expect(count(gradOf(f), "tanh")).toBe(2);
    expect(count(gradOf(remat(f)), "tanh")).toBe(4);
  });

  it("nests: the inner function's inputs are computed again too", () => {
    const inner = remat((w: Tensor, x: Tensor) => dot(x, w).tanh());
    const f = chain(inner);
    expectSameGradient(
      chain((w, x) => dot(x, w).tanh()),
      remat(f),
    );
    // Forward 2; the outer one computes the first layer again for the second's input; each inner one its own.
    expect(count(gradOf(remat(f)), "tanh")).toBe(5);
  });

  it("computes what a nested function's policy keeps again, unless its own keeps it too", () => {
    const inner = remat((w: Tensor, x: Tensor) => dot(x, w).tanh(), { dots: true });
    const f = chain(inner);
    expectSameGradient(
      chain((w, x) => dot(x, w).tanh()),
      remat(f),
    );
    const dots = (g: (w: Tensor, x: Tensor) => Tensor) => count(gradOf(g), "dot") - count(gradOf(f), "dot");
    expect([dots(remat(f)), dots(remat(f, { dots: true }))]).toEqual([2, 0]);
  });

  it("keeps what the policy saves inside a nested function", () => {
    const f = chain(custom);
    expectSameGradient(f, remat(f, { dots: true }));
    expect(count(gradOf(remat(f, { dots: true })), "dot")).toBe(count(gradOf(f), "dot"));
    expect(count(gradOf(remat(f)), "dot")).toBe(count(gradOf(f), "dot") + 2);
  });
});
