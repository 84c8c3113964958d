import { describe, expect, it } from "vitest";
import { type HostArray, interpret, type Tensor, treeLeaves } from "../../src/core/index.ts";
import { jit } from "../../src/jit/index.ts";
import { clipByGlobalNorm } from "../../src/optim/index.ts";
import { fetchAndFree } from "../fetchAndFree.ts";
import { floats, scalarOf, valuesOf } from "./floats.ts";

type Grads<Leaf> = { a: Leaf; b: Leaf };
interface Clipped {
  grads: Grads<HostArray>;
  norm: HostArray;
  scale: HostArray;
  finite: HostArray;
  tensorNorms: HostArray;
}

const clipping = (threshold: number) => (grads: Grads<Tensor>) => clipByGlobalNorm(grads, threshold);
const programs = [0, 1].map((threshold) => jit(clipping(threshold)));
const program = (threshold: number) => programs[threshold]!;

/** Clips compiled and interpreted; both must agree. */
async function clip(grads: Grads<HostArray>, threshold = 1): Promise<Clipped> {
  const compiled = await fetchAndFree<Clipped>(program(threshold)(grads as never));
  const interpreted = interpret(clipping(threshold), grads as never) as unknown as Clipped;
  const [got, wanted] = [treeLeaves<HostArray>(compiled), treeLeaves<HostArray>(interpreted)];
  if (scalarOf(compiled.finite) === 1) {
    got.forEach((array, i) => {
      const other = valuesOf(wanted[i]!);
      valuesOf(array).forEach((x, j) => {
        expect(Math.abs(x - other[j]!)).toBeLessThanOrEqual(1e-6 * Math.abs(other[j]!));
      });
    });
  }
  expect(scalarOf(compiled.finite)).toBe(scalarOf(interpreted.finite));
  return compiled;
}

const sample = (magnitude: number): Grads<HostArray> => ({
  a: floats([7, 33], (i) => magnitude * Math.sin(i + 1)),
  b: floats([5], (i) => magnitude * Math.cos(i)),
});

const normOf = (grads: Grads<HostArray>): number => Math.hypot(...valuesOf(grads.a), ...valuesOf(grads.b));

describe("clipByGlobalNorm", () => {
  it.each([1, 1e-3, 1e30, 1e-30, 1e19, 1e-18])("is exact for gradients of size %g", async (magnitude) => {
    const grads = sample(magnitude);
    const { norm, scale, finite, grads: clipped, tensorNorms } = await clip(grads);
    const wanted = normOf(grads);
    expect(scalarOf(finite)).toBe(1);
    expect(scalarOf(norm) / wanted).toBeCloseTo(1, 6);
    expect(scalarOf(scale) * Math.max(wanted, 1)).toBeCloseTo(1, 6);
    expect(normOf(clipped) / Math.min(wanted, 1)).toBeCloseTo(1, 6);
    expect(valuesOf(tensorNorms)[0]! / Math.hypot(...valuesOf(grads.a))).toBeCloseTo(1, 6);
    expect(valuesOf(tensorNorms)[1]! / Math.hypot(...valuesOf(grads.b))).toBeCloseTo(1, 6);
  });

  it("leaves a gradient below the threshold bit for bit, and a zero one", async () => {
    const grads = sample(1e-3);
    const { grads: clipped, scale } = await clip(grads);
    expect(scalarOf(scale)).toBe(1);
    expect(valuesOf(clipped.a)).toEqual(valuesOf(grads.a));
    const zero = await clip(sample(0));
    expect([scalarOf(zero.norm), scalarOf(zero.scale), scalarOf(zero.finite)]).toEqual([0, 1, 1]);
  });

  it("measures without clipping where the threshold is 0", async () => {
    const grads = sample(3);
    const { grads: clipped, norm, scale } = await clip(grads, 0);
    expect(scalarOf(scale)).toBe(1);
    expect(scalarOf(norm) / normOf(grads)).toBeCloseTo(1, 6);
    expect(valuesOf(clipped.a)).toEqual(valuesOf(grads.a));
  });

  it.each([
    ["NaN", Number.NaN],
    ["infinity", Number.POSITIVE_INFINITY],
    ["−infinity", Number.NEGATIVE_INFINITY],
  ])("reports %s and the tensor that has it", async (_, bad) => {
    const grads = sample(1);
    (grads.b.data as Float32Array)[3] = bad;
    const { finite, tensorNorms, norm } = await clip(grads);
    expect(scalarOf(finite)).toBe(0);
    expect(Number.isFinite(scalarOf(norm))).toBe(false);
    expect(valuesOf(tensorNorms).map(Number.isFinite)).toEqual([true, false]);
  });

  it("counts as not finite what float32 cannot scale back or an optimiser cannot square", async () => {
    expect(scalarOf((await clip(sample(3e38))).finite)).toBe(0);
    expect(scalarOf((await clip(sample(1e20), 0)).finite)).toBe(0);
    expect(scalarOf((await clip(sample(1e20))).finite)).toBe(1);
  });

  it("refuses a threshold that is no bound", () => {
    const f = (t: number) => () => interpret((g: Grads<Tensor>) => clipByGlobalNorm(g, t), sample(1) as never);
    expect(f(-1)).toThrow(/threshold/);
    expect(f(Number.NaN)).toThrow(/threshold/);
    expect(f(Number.POSITIVE_INFINITY)).toThrow(/threshold/);
  });
});
