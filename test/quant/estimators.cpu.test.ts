/** Estimators of rounding's derivative, and gradients of a rotated fprop, against plain numbers. */
import { describe, expect, it } from "vitest";
import { trace } from "../../src/core/index.ts";
import {
  bf16,
  checkPrecision,
  dgeSlope,
  type LinearPrecision,
  type RandomKey,
  type RotatableOperand,
} from "../../src/quant/index.ts";
import { compiled, floats, interpreted, normals, numbers, relativeToMax } from "./bothWays.ts";
import { gridE2m1, plainDge } from "./plainQuantizers.ts";
import { threeGemms } from "./threeGemms.ts";

const perRow = {
  element: "e2m1",
  rounding: "nearest",
  block: "row",
  scale: { type: "fp32", powerOfTwo: true },
} as const satisfies RotatableOperand;
const next = normals(2);
const [x, w, dy] = [
  [24, 32],
  [16, 32],
  [24, 16],
].map((shape) => floats(shape, "float32", next));
const product = (left: number[][], right: number[][]) =>
  left.map((row) => right[0]!.map((_, j) => row.reduce((sum, v, k) => sum + v * right[k]![j]!, 0)));
const rows = (array: typeof x): number[][] => {
  const [M, N] = array!.shape as [number, number];
  return Array.from({ length: M }, (_, i) => Array.from(numbers(array!)).slice(i * N, (i + 1) * N));
};
const columns = (matrix: number[][]) => matrix[0]!.map((_, j) => matrix.map((row) => row[j]!));
/** Elements of a row over its scale: a power of two, the largest that leaves none above 6. */
const scaledRow = (row: number[]) => {
  const encode = 2 ** Math.floor(Math.log2(6 / Math.max(...row.map(Math.abs))));
  return row.map((v) => v * encode);
};

describe("dge", () => {
  it("has the derivative of the paper at 20 places of E2M1's range, capped", async () => {
    const places = floats([20], "float32", (i) => -6 + (12 * i) / 19);
    const expected = Array.from(numbers(places), (v) => plainDge(v, 5, 3));
    const f = (x: Parameters<typeof dgeSlope>[0]) => dgeSlope(x.abs(), { k: 5, cap: 3 });
    for (const [found] of [interpreted(f, places), await compiled(f, places)]) {
      Array.from(numbers(found!)).forEach((v, i) => expect(v).toBeCloseTo(expected[i]!, 4));
    }
    expect(expected[0]).toBeCloseTo(0.2, 6);
    // In the middle of an interval the derivative would be infinite.
    const middle = floats([1], "float32", () => 2.5);
    expect(Array.from(numbers(interpreted(f, middle)[0]!))).toEqual([3]);
  });

  it("multiplies the gradient of W, and of W alone", async () => {
    const precision: LinearPrecision = {
      ...bf16,
      fprop: { rotation: "none", left: perRow, right: perRow },
      estimator: { w: { type: "dge", k: 5, cap: 3 } },
    };
    const weights = rows(w);
    const slopes = weights.map((row) => scaledRow(row).map((v) => plainDge(v, 5, 3)));
    const dw = product(columns(rows(dy)), rows(x)).map((row, i) => row.map((v, j) => v * slopes[i]![j]!));
    const dx = product(rows(dy), weights);
    const f = threeGemms(precision);
    for (const found of [interpreted(f, x, w, dy), await compiled(f, x, w, dy)]) {
      expect(relativeToMax(numbers(found[1]!), dx.flat())).toBeLessThan(1e-5);
      expect(relativeToMax(numbers(found[2]!), dw.flat())).toBeLessThan(1e-5);
    }
    expect(Math.max(...slopes.flat())).toBeGreaterThan(1);
  });
});

const spread = {
  element: "e2m1",
  rounding: "nearest",
  block: "1x32",
  scale: { type: "e8m0", statistic: "std", sigmas: 2.92247856 },
} as const satisfies RotatableOperand;
/** Eight bits of what fprop read: what they add is small beside what is to be seen. */
const again = {
  element: "e4m3",
  rounding: "nearest",
  block: "1x32",
  scale: { type: "e8m0", round: "up" },
} as const satisfies RotatableOperand;
const rotation = { size: 32, signs: "none" } as const;

/** A row times H/√32: entry (i, j) is −1 to the number of ones that i and j have in common. */
const rotated = (row: number[]) =>
  row.map((_, i) => {
    const ones = (n: number) => n.toString(2).replaceAll("0", "").length;
    return row.reduce((sum, v, j) => sum + (ones(i & j) % 2 === 0 ? v : -v), 0) / Math.sqrt(32);
  });

/** Rotated rows over the scales of their blocks of 32, and what they round and decode to. */
function readRotated(matrix: number[][]) {
  return matrix.map((row) => {
    const values = rotated(row);
    const mean = values.reduce((a, b) => a + b) / 32;
    const sigma = Math.sqrt(values.reduce((sum, v) => sum + (v - mean) ** 2, 0) / 32);
    const scale = 2 ** Math.floor(Math.log2((sigma * 2.92247856) / 6 + 1e-8));
    const scaled = values.map((v) => v / scale);
    const nearest = (v: number) =>
      Math.sign(v) *
      gridE2m1.reduce((best, g) => (Math.abs(g - Math.abs(v)) < Math.abs(best - Math.abs(v)) ? g : best));
    return { mask: scaled.map((v) => (Math.abs(v) < 6 ? 1 : 0)), decoded: scaled.map((v) => nearest(v) * scale) };
  });
}

describe("a rotated fprop", () => {
  const backward = (left: RotatableOperand) => ({
    rotation: { size: 32, signs: "fresh" } as const,
    left,
    right: { ...again, source: "fprop" } as const,
  });
  const precision: LinearPrecision = {
    fprop: { rotation, left: spread, right: spread },
    dgrad: backward(again),
    wgrad: backward(again),
    estimator: { x: "clip_mask", w: "clip_mask" },
  };
  const random: RandomKey = { seed: 1, step: 2, microBatch: 3 };
  // Heavy tails, so that elements are clipped.
  const heavy = (shape: number[]) => floats(shape, "float32", () => next() ** 3);
  const [x, w] = [heavy([24, 32]), heavy([16, 32])];
  const [readX, readW] = [readRotated(rows(x)), readRotated(rows(w))];
  const decoded = (read: typeof readX) => read.map((row) => row.decoded);
  const masked = (gradient: number[][], read: typeof readX) =>
    gradient.map((row, i) => rotated(row.map((v, j) => v * read[i]!.mask[j]!)));

  it("gives gradients that are masked in rotated space and turned back", async () => {
    const y = product(decoded(readX), columns(decoded(readW)));
    const dx = masked(product(rows(dy), decoded(readW)), readX);
    const dw = masked(product(columns(rows(dy)), decoded(readX)), readW);
    expect(readX.flatMap((row) => row.mask).filter((v) => v === 0).length).toBeGreaterThan(5);
    const f = threeGemms(precision, random);
    for (const found of [interpreted(f, x, w, dy), await compiled(f, x, w, dy)]) {
      expect(relativeToMax(numbers(found[0]!), y.flat())).toBeLessThan(1e-5);
      // The factors of both have 8 bits.
      expect(relativeToMax(numbers(found[1]!), dx.flat())).toBeLessThan(0.06);
      expect(relativeToMax(numbers(found[2]!), dw.flat())).toBeLessThan(0.06);
    }
    const withoutMask = interpreted(threeGemms({ ...precision, estimator: {} }, random), x, w, dy);
    expect(relativeToMax(numbers(withoutMask[1]!), dx.flat())).toBeGreaterThan(0.1);
  });

  it("is padded to whole groups, and its gradients cut back", () => {
    const ragged = [
      [20, 40],
      [24, 40],
      [20, 24],
    ].map((shape) => heavy(shape));
    const shapes = interpreted(threeGemms(precision, random), ...ragged).map(({ shape }) => shape);
    expect(shapes).toEqual([
      [20, 24],
      [20, 40],
      [24, 40],
    ]);
  });
});

describe("refused", () => {
  const specs = [
    { shape: [32, 32], dtype: "float32" },
    { shape: [16, 32], dtype: "float32" },
    { shape: [32, 16], dtype: "float32" },
  ] as const;

  it.each<[string, LinearPrecision, RegExp]>([
    [
      "an estimator of what is not rounded",
      { ...bf16, estimator: { x: "clip_mask" } },
      /the estimator of x: fprop reads x as it is/,
    ],
    [
      "a mask that is known in rotated space alone",
      {
        ...bf16,
        fprop: { rotation, left: spread, right: spread },
        estimator: { w: "clip_mask" },
      },
      /fprop is rotated, so its derivative is known in rotated space alone: give x in wgrad the source "fprop"/,
    ],
    [
      "dge of another format",
      {
        ...bf16,
        fprop: { rotation: "none", left: perRow, right: { ...perRow, element: "int4" } },
        estimator: { w: { type: "dge", k: 5, cap: 3 } },
      },
      /the estimator of w: dge is for e2m1; got int4/,
    ],
    [
      "dge with a k below 1",
      {
        ...bf16,
        fprop: { rotation: "none", left: perRow, right: perRow },
        estimator: { w: { type: "dge", k: 0.5, cap: 3 } },
      },
      /dge needs k of at least 1 and a cap above 0; got 0.5, 3/,
    ],
    [
      "corrected scales without room",
      {
        ...bf16,
        dgrad: {
          rotation: { size: 32, signs: "fresh" },
          left: {
            element: "e2m1",
            rounding: "eden",
            block: "1x16",
            scale: { type: "e4m3", outer: "tensor", bound: 400 },
          },
          right: again,
        },
      },
      /left operand of dgrad: eden multiplies block scales afterwards.*at most 298; got 400/,
    ],
    [
      "a gain out of range",
      {
        ...bf16,
        fprop: {
          rotation: "none",
          left: { element: "plain" },
          right: { ...again, scale: { type: "e8m0", round: "floor", gain: 3 } },
        },
      },
      /right operand of fprop: gain must be from 0.5 to 2; got 3/,
    ],
    [
      "no standard deviations",
      { ...bf16, fprop: { rotation, left: { ...spread, scale: { ...spread.scale, sigmas: 0 } }, right: spread } },
      /left operand of fprop: sigmas must be above 0 and at most 100; got 0/,
    ],
  ])("%s", (_, precision, message) => {
    expect(() => checkPrecision(precision)).toThrow(message);
    expect(() => trace(threeGemms(precision, { seed: 0, step: 0, microBatch: 0 }), ...specs)).toThrow(message);
  });
});
