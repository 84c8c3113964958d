/** Taps: what a linear layer tells of its tensors, as cotangents, through scan and remat too. */
import { describe, expect, it } from "vitest";
import { grad, remat, scan } from "../../src/autodiff/index.ts";
import { full, type HostArray, stack, type Tensor } from "../../src/core/index.ts";
import {
  fp8CurrentScaling,
  type LinearPrecision,
  type LinearTaps,
  linear,
  nvfp4,
  type OperandSpec,
  type QuantizedOperand,
  type RoundedOperand,
  type StatisticName,
  statisticNames,
} from "../../src/quant/index.ts";
import { compiled, floats, interpreted, normals, numbers } from "./bothWays.ts";

const delayed = (element: "e4m3" | "e5m2"): RoundedOperand => ({
  element,
  rounding: "nearest",
  block: "tensor",
  scale: { type: "delayed", historyLength: 4, algorithm: "max", margin: 0 },
});

const delayedPrecision: LinearPrecision = {
  fprop: { rotation: "none", left: delayed("e4m3"), right: delayed("e4m3") },
  dgrad: { rotation: "none", left: delayed("e5m2"), right: delayed("e4m3") },
  wgrad: { rotation: "none", left: delayed("e5m2"), right: delayed("e4m3") },
};

const matrix = (shape: readonly number[], seed: number): HostArray => {
  const draw = normals(seed);
  return floats(shape, "float32", () => draw());
};
const row = (values: readonly number[]): HostArray => floats([values.length], "float32", (i) => values[i]!);

const x = matrix([32, 48], 1);
const w = matrix([16, 48], 2);
const dy = matrix([32, 16], 3);

const largest = (list: ArrayLike<number>): number => Math.max(...Array.from(list, Math.abs));

/** Cotangents of the taps where the gradient of y is dy. */
const tapsSeen = (precision: LinearPrecision, taps: LinearTaps) => (x: Tensor, w: Tensor, dy: Tensor) =>
  grad((taps: LinearTaps) => linear(x, w, { module: "m", layer: 0, precision, taps }).mul(dy).sum())(taps);

describe("delayed scales", () => {
  it("come with the largest magnitudes of x, W and dy", async () => {
    const f = (x: Tensor, w: Tensor, dy: Tensor, scales: Tensor) =>
      tapsSeen(delayedPrecision, { scales })(x, w, dy).scales!;
    const scales = row([16, 8, 4]);
    for (const [amax] of [interpreted(f, x, w, dy, scales), await compiled(f, x, w, dy, scales)]) {
      expect([...numbers(amax!)]).toEqual([x, w, dy].map((t) => largest(numbers(t))));
    }
  });

  it("of a power of two that clips nothing give what a power-of-two scale of the tensor gives", () => {
    const current = fp8CurrentScaling({ powerOfTwo: true });
    const scaleOf = (t: typeof x, max: number) => 2 ** Math.floor(Math.log2(max / largest(numbers(t))));
    const scales = row([scaleOf(x, 448), scaleOf(w, 448), scaleOf(dy, 57344)]);
    const f = (precision: LinearPrecision) => (x: Tensor, w: Tensor, dy: Tensor, scales: Tensor) =>
      grad((args: { x: Tensor; w: Tensor }) =>
        linear(args.x, args.w, { module: "m", layer: 0, precision, taps: { scales } }).mul(dy).sum(),
      )({ x, w });
    const [a, b] = [delayedPrecision, current].map((precision) => interpreted(f(precision), x, w, dy, scales));
    expect(a!.map(numbers)).toEqual(b!.map(numbers));
  });

  it("are refused where the site has none", () => {
    const f = (x: Tensor, w: Tensor) => linear(x, w, { module: "mlp.up", layer: 0, precision: delayedPrecision });
    expect(() => interpreted(f, x, w)).toThrow(/mlp\.up.*right operand of fprop.*taps\.scales/);
  });
});

/** Share of 32×48 values that are not 0 and that NVFP4 decodes to 0, by the formulas in plain numbers. */
function lostShare(values: Float32Array): number {
  const S = Math.fround(2688 / largest(values));
  let lost = 0;
  for (let start = 0; start < values.length; start += 16) {
    const block = values.subarray(start, start + 16);
    const scaled = largest(block) * (S / 6);
    // Half of 2^-9, E4M3's smallest, rounds to 0; no block of the test is near enough to a boundary to depend on more digits.
    const s = scaled <= 2 ** -10 ? 0 : e4m3Near(scaled);
    for (const v of block) if (v !== 0 && (s === 0 || Math.abs(v) * (S / s) <= 0.25)) lost++;
  }
  return lost / values.length;
}

/** Nearest E4M3 number of a positive one that is no tie. */
function e4m3Near(value: number): number {
  const step = 2 ** Math.max(-9, Math.floor(Math.log2(value)) - 3);
  return Math.round(value / step) * step;
}

describe("statistics", () => {
  const probe = () => full([3, statisticNames.length], 0, "float32");
  const f = (precision: LinearPrecision) => (x: Tensor, w: Tensor, dy: Tensor) =>
    tapsSeen(precision, { probe: probe() })(x, w, dy).probe!;

  it("of a tensor with a zero block, values that vanish and a scale that does", async () => {
    const values = Float32Array.from(numbers(x));
    values.fill(0, 0, 16); // a block of zeros
    values.fill(1e-6, 16, 32); // its scale, 1e-6/6 · 2688/A, rounds to 0
    values[32] = 1000;
    const odd = floats([32, 48], "float32", (i) => values[i]!);
    const precision = nvfp4({ rht: false, stochasticRounding: false });
    const rows = [interpreted(f(precision), odd, w, dy), await compiled(f(precision), odd, w, dy)].map(([s]) =>
      Object.fromEntries(statisticNames.map((name, i) => [name, numbers(s!)[i]!])),
    ) as Record<StatisticName, number>[];
    for (const found of rows) {
      expect(found.amax).toBe(1000);
      expect(found.tensorScale).toBe(Math.fround(2.688));
      expect(found.zeroBlocks).toBe(Math.fround(1 / 96));
      expect(found.scaleUnderflow).toBe(Math.fround(1 / 96));
      expect(found.underflow).toBe(Math.fround(lostShare(values)));
      expect(found.saturated).toBeLessThan(0.05);
      expect(found.signal / values.reduce((sum, v) => sum + v * v, 0)).toBeCloseTo(1, 5);
      expect(found.noise).toBeGreaterThan(0);
    }
    for (const name of statisticNames) expect(rows[1]![name]! / rows[0]![name]!).toBeCloseTo(1, 4);
  });

  it("of a tensor with a scale for each column count columns", () => {
    const plain: OperandSpec = { element: "plain" };
    const column: QuantizedOperand = {
      element: "e2m1",
      rounding: "nearest",
      block: "row",
      scale: { type: "fp32", powerOfTwo: false },
    };
    const gemm = { rotation: "none", left: plain, right: plain } as const;
    // x is quantized in wgrad alone, which sums over tokens: each of its 48 columns has a scale.
    const precision = { fprop: gemm, dgrad: gemm, wgrad: { rotation: "none", left: plain, right: column } } as const;
    const values = numbers(x);
    const odd = floats([32, 48], "float32", (i) => (i % 48 < 3 ? 0 : values[i]!));
    const [seen] = interpreted(f(precision), odd, w, dy);
    expect(numbers(seen!)[statisticNames.indexOf("zeroBlocks")]).toBe(Math.fround(3 / 48));
  });

  it("of tensors that are not quantized are magnitude and signal alone", () => {
    const plain: OperandSpec = { element: "plain" };
    const gemm = { rotation: "none", left: plain, right: plain } as const;
    const [seen] = interpreted(f({ fprop: gemm, dgrad: gemm, wgrad: gemm }), x, w, dy);
    const rowOf = (i: number) =>
      Array.from(numbers(seen!)).slice(i * statisticNames.length, (i + 1) * statisticNames.length);
    expect([rowOf(0)[0], rowOf(1)[0], rowOf(2)[0]]).toEqual([x, w, dy].map((t) => largest(numbers(t))));
    expect([rowOf(0)[1], rowOf(0)[7]]).toEqual([Number.NaN, 0]);
  });

  it("are the same through scan and remat", async () => {
    const square = matrix([48, 48], 5);
    const precision = nvfp4({ rht: false, stochasticRounding: false });
    const layer = (h: Tensor, w: Tensor, taps: LinearTaps) => linear(h, w, { module: "m", layer: 0, precision, taps });
    const probes = (): Tensor => full([2, 3, statisticNames.length], 0, "float32");
    const unrolled = (x: Tensor, w: Tensor) =>
      grad((p: Tensor) => layer(layer(x, w, { probe: p.at(0, 0) }), w, { probe: p.at(0, 1) }).sum())(probes());
    const scanned = (x: Tensor, w: Tensor) =>
      grad((p: Tensor) => {
        const kept = remat((h: Tensor, w: Tensor, probe: Tensor) => layer(h, w, { probe }));
        const step = (h: Tensor, { w, probe }: { w: Tensor; probe: Tensor }) => ({ carry: kept(h, w, probe), y: null });
        return scan(step, x, { w: stack([w, w], 0), probe: p }).carry.sum();
      })(probes());
    const [a] = interpreted(unrolled, x, square);
    const [b] = interpreted(scanned, x, square);
    expect(numbers(b!)).toEqual(numbers(a!));
    const [c] = await compiled(scanned, x, square);
    const rows = (seen: HostArray) =>
      Array.from({ length: 6 }, (_, i) => Array.from(numbers(seen)).slice(8 * i, 8 * (i + 1)));
    rows(c!).forEach((found, i) => {
      const wanted = rows(a!)[i]!;
      // Noise is the square of differences: what rounding leaves of it is small beside the signal.
      const [signal, noise] = [statisticNames.indexOf("signal"), statisticNames.indexOf("noise")];
      expect(Math.abs(found[noise]! - wanted[noise]!) / wanted[signal]!).toBeLessThan(1e-6);
      found.slice(0, noise).forEach((value, j) => {
        expect(Math.abs(value - wanted[j]!)).toBeLessThanOrEqual(1e-4 * Math.abs(wanted[j]!));
      });
    });
  });
});
