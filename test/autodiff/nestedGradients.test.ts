/** Derivatives where functions of functions nest and read what is outside them, against differences in float64. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { composite, cond, grad, remat, scan } from "../../src/autodiff/index.ts";
import {
  checkpointName,
  dot,
  hostArray,
  interpretProgram,
  iota,
  type Tensor,
  take,
  toValues,
  trace,
} from "../../src/core/index.ts";
import { mesh, partition, shardMap } from "../../src/sharding/index.ts";
import { nestedProgram } from "./nestedPrograms.ts";

type Vector = readonly number[];

function traced(f: (x: Tensor) => Tensor, size: number): (x: Vector) => number[] {
  const host = (x: Vector) => hostArray([size], "float64", Float64Array.from(x));
  const program = trace(f, host(Array.from({ length: size }, () => 0)));
  return (x) => Array.from(interpretProgram(program, [toValues(host(x))])[0]!.data as Float64Array);
}

/** The derivative of f at x along v, by a central difference. */
function difference(f: (x: Vector) => number[], x: Vector, v: Vector, step: number): number[] {
  const at = (s: number) => f(x.map((a, i) => a + s * v[i]!));
  const [ahead, behind] = [at(step), at(-step)];
  return ahead.map((a, i) => (a - behind[i]!) / (2 * step));
}

/** The smaller step is for functions that bend so much that the larger one misses by more than the tolerance. */
function expectClose(what: string, got: Vector, differencesAt: (step: number) => Vector): void {
  const found = [1e-5, 1e-6].map(differencesAt);
  const misses = found.map((wanted) => {
    const scale = 1 + Math.max(...wanted.map(Math.abs));
    return Math.max(...got.map((g, i) => Math.abs(g - wanted[i]!))) / scale;
  });
  expect(
    misses.some((miss) => miss < 1e-5),
    `${what}: got ${got}, differences give ${found[0]}`,
  ).toBe(true);
}

/** The gradient of a scalar function and the gradient of its weighted sum. */
function expectDerivatives(f: (x: Tensor) => Tensor, x: Vector): void {
  const size = x.length;
  const weights = x.map((_, i) => 0.3 * i - 0.5);
  const gradient = (x: Tensor) => grad(f)(x);
  const weighted = (x: Tensor) =>
    gradient(x)
      .mul(iota([size], 0, "float64").mul(0.3).sub(0.5))
      .sum();
  const [value, first, second] = [f, gradient, grad(weighted)].map((g) => traced(g, size)) as [
    (x: Vector) => number[],
    (x: Vector) => number[],
    (x: Vector) => number[],
  ];
  const axes = x.map((_, i) => x.map((_, j) => (i === j ? 1 : 0)));
  expectClose("gradient", first(x), (step) => axes.map((axis) => difference(value, x, axis, step)[0]!));
  expectClose("gradient of the gradient", second(x), (step) => difference(first, x, weights, step));
}

const yes = (t: Tensor): Tensor => t.sum().gt(-99);
const chosen = (t: Tensor, f: () => Tensor): Tensor => cond(yes(t), f, () => t);
const once = (f: (c: Tensor) => Tensor, x: Tensor): Tensor =>
  scan((c: Tensor) => ({ carry: f(c), y: null }), x, null, { length: 1 }).carry;
const kept = { names: ["k"] };
const k = (x: Tensor): Tensor => checkpointName(x, "k");
const layers = (x: Tensor, f: (h: Tensor) => Tensor): Tensor => f(f(x));

describe("remat with a policy whose function reads what its argument comes from", () => {
  it.each<[string, (x: Tensor) => Tensor]>([
    ["a tensor", (x) => remat((a: Tensor) => k(a.sin()).mul(x).sum(), kept)(x.cos())],
    ["its own argument", (x) => remat((a: Tensor) => k(a.sin()).mul(x).sum(), kept)(x)],
    ["a kept result", (x) => remat((a: Tensor) => k(a.sin().mul(x)), kept)(x.cos()).sum()],
    [
      "weights that two layers share",
      (x) => {
        const w = x.reshape([1, 2]);
        const layer = (a: Tensor) => dot(a.tanh(), w).mul(w).sum(1, { keepDims: true }).add(a);
        return layers(x.reshape([2, 1]), remat(layer, { dots: true })).sum();
      },
    ],
    [
      "an embedding that the input was looked up in",
      (x) => {
        const table = x.reshape([2, 1]);
        const logits = (h: Tensor) => dot(h, table.transpose()).exp().sum();
        return remat(logits, { dots: true })(take(table, iota([2], 0, "int32")));
      },
    ],
    [
      "the argument of a remat around it",
      (x) => remat((a: Tensor) => remat((b: Tensor) => k(b.sin()).mul(a).sum(), kept)(a.cos()))(x),
    ],
    [
      "what a remat inside it reads too, whose result it keeps",
      (x) => remat((q: Tensor) => k(remat((d: Tensor) => d.mul(0.5).add(q.tanh()))(x)), kept)(x.cos()).sum(),
    ],
    [
      "a loop's carry",
      (x) => once((c) => once((d) => remat((a: Tensor) => k(a.mul(d).sin()).mul(c), kept)(c.cos()), c), x).sum(),
    ],
  ])("%s", (_, f) => expectDerivatives(f, [0.3, 0.7]));
});

describe("bodies within bodies", () => {
  const cube = (c: Tensor) => c.mul(c).mul(c);
  const conds = (depth: number, c: Tensor): Tensor => (depth === 0 ? cube(c) : chosen(c, () => conds(depth - 1, c)));
  const overTwo = { mesh: mesh({ d: 2 }), in: [partition("d")], out: partition("d") };
  it.each<[string, (c: Tensor) => Tensor]>([
    ["cond³", (c) => conds(3, c)],
    ["cond⁴", (c) => conds(4, c)],
    ["scan(cond²)", (c) => once((c) => conds(2, c), c)],
    ["scan²(cond), which reads the middle one", (c) => once((c) => once((q) => chosen(q, () => c.mul(q).sin()), c), c)],
    ["cond(scan(cond))", (c) => chosen(c, () => once((q) => chosen(q, () => q.mul(c).sin()), c))],
    ["remat(cond³)", (c) => remat((c: Tensor) => conds(3, c))(c)],
    [
      "composite(scan), which reads the argument",
      (c) => composite("test.a", (a: Tensor) => once((q) => q.mul(a).sin(), a))(c),
    ],
    [
      "composite(cond), which reads the argument",
      (c) => composite("test.a", (a: Tensor) => chosen(a, () => cube(a)))(c),
    ],
    [
      "composite(scan(cond)), which reads both",
      (c) => composite("test.a", (a: Tensor) => once((q) => chosen(q, () => q.mul(a).mul(c).sin()), a))(c.cos()),
    ],
    [
      "composite(remat), of what is outside",
      (c) => composite("test.a", (a: Tensor) => remat((q: Tensor) => q.mul(0.5).add(a.tanh()))(c.cos()))(c),
    ],
    [
      "shardMap(scan(cond))",
      (c) => shardMap((c: Tensor) => once((q) => chosen(q, () => q.mul(c).sin()), c), overTwo)(c),
    ],
  ])("%s", (_, f) => expectDerivatives((c) => f(c).sum(), [0.7, 0.4]));
});

it("random functions have the derivatives that differences give", { timeout: 60_000 }, () => {
  const x = [0.31, 0.72, -0.4, 0.55, -0.21, 0.9];
  const property = fc.property(fc.nat(), (seed) => {
    const { f, text } = nestedProgram(seed, 4);
    try {
      expectDerivatives(f, x);
    } catch (error) {
      throw new Error(`${text}: ${error instanceof Error ? error.message : error}`, { cause: error });
    }
  });
  const seed = Number(process.env.HALFBYTE_TEST_SEED ?? 1);
  fc.assert(property, { seed, numRuns: 150, endOnFailure: true });
});
