/** The quantizers of published FP4 recipes against the same in plain numbers, exactly, interpreted and compiled. */
import { describe, expect, it } from "vitest";
import type { HostArray, Tensor } from "../../src/core/index.ts";
import {
  dequantize,
  type QuantizedOperand,
  type QuantizeOptions,
  quantize,
  type RandomKey,
  rotationMatrix,
  streamAt,
} from "../../src/quant/index.ts";
import { compiled, floats, interpreted, normals, numbers } from "./bothWays.ts";
import { transposed } from "./goldenQuantizer.ts";
import {
  identityMatrix,
  type PlainResult,
  plainDraws,
  plainEden,
  plainInGroups,
  plainOcp,
  plainSpread,
  type Rows,
} from "./plainQuantizers.ts";

const random: RandomKey = { seed: 3, step: 4, microBatch: 5 };
const place = { module: "mlp.down", layer: 6, gemm: "wgrad", operand: "right" } as const;
const draws = streamAt(random, place);
const draw = plainDraws({ ...{ seed: 3, step: 4, microBatch: 5 }, module: "mlp.down", layer: 6, gemm: 2, operand: 1 });

/** Normal numbers whose rows and stretches of 32 have magnitudes of their own; some are zero. */
function matrix(rows: number, columns: number, seed: number): HostArray {
  const next = normals(seed);
  const scale = Array.from({ length: rows * (columns / 32) }, () => 2 ** Math.round(3 * next()));
  return floats([rows, columns], "bfloat16", (i) => {
    const stretch = Math.floor(i / 32);
    return stretch % 11 === 5 ? 0 : next() * scale[stretch]!;
  });
}

const rowsOf = (x: HostArray): Rows => {
  const [rows, columns] = x.shape as [number, number];
  const values = Array.from(numbers(x));
  return Array.from({ length: rows }, (_, i) => values.slice(i * columns, (i + 1) * columns));
};

const eden = (outer: "tensor") =>
  ({
    element: "e2m1",
    rounding: "eden",
    block: "1x16",
    scale: { type: "e4m3", outer, gain: (17 / 16) * 0.93, bound: 255.99 },
  }) as const satisfies QuantizedOperand;
const e2m1 = { element: "e2m1", rounding: "nearest" } as const;

interface Case {
  readonly operand: QuantizedOperand;
  readonly options?: Omit<QuantizeOptions, "axis">;
  readonly plain: (rows: Rows, draw: (i: number) => number) => PlainResult;
}

const cases: Record<string, Case> = {
  ...Object.fromEntries(
    ([16, 32, 128] as const).map((group) => [
      `EDEN in groups of ${group}`,
      {
        operand: eden("tensor"),
        options: { draws, rotation: { size: group, matrix: identityMatrix(group), scale: undefined } },
        plain: (rows: Rows, draw: (i: number) => number) =>
          plainEden(rows, { group, gain: (17 / 16) * 0.93, bound: 255.99 }, draw),
      },
    ]),
  ),
  "scales by standard deviations": {
    operand: { ...e2m1, block: "1x32", scale: { type: "e8m0", statistic: "std", sigmas: 2.92247856 } },
    plain: (rows) => plainSpread(rows, 2.92247856),
  },
  "outer scales of 128 elements": {
    operand: { ...e2m1, block: "1x16", scale: { type: "e4m3", outer: "1x128" } },
    plain: (rows) => plainInGroups(rows),
  },
  "outer scales of 128 elements, stochastic, no scale 0": {
    operand: {
      ...e2m1,
      rounding: "stochastic",
      block: "1x16",
      scale: { type: "e4m3", outer: "1x128", neverZero: true },
    },
    options: { draws },
    plain: (rows, draw) => plainInGroups(rows, draw),
  },
};

describe.each(Object.entries(cases))("%s", (_, { operand, options = {}, plain }) => {
  it.each(["row", "col"] as const)("along %s meets plain numbers exactly", async (axis) => {
    const x = matrix(32, 256, 7);
    const input = axis === "row" ? x : transposed(x);
    // A draw is numbered by its element or block in the matrix as it lies: row by row.
    const perRow = operand.rounding === "eden" ? x.shape[1]! / 16 : x.shape[1]!;
    const drawAt = (i: number) => draw(axis === "row" ? i : (i % perRow) * x.shape[0]! + Math.floor(i / perRow));
    const expected = plain(rowsOf(x), drawAt);
    const f = (x: Tensor) => {
      const { elements, scales } = quantize(x, operand, { ...options, axis });
      return [elements, scales];
    };
    for (const leaves of [interpreted(f, input), await compiled(f, input)]) {
      const [elements, scales] = leaves.map((leaf) => Array.from(numbers(axis === "row" ? leaf : transposed(leaf))));
      expect(scales).toEqual(expected.scales);
      expect(elements).toEqual(expected.elements);
    }
  });
});

it("OCP scales with a gain of 4/3 meet plain numbers exactly, and decode with it", async () => {
  const next = normals(4);
  const x = floats([16, 64], "bfloat16", next);
  const operand: QuantizedOperand = {
    ...e2m1,
    rounding: "stochastic",
    block: "1x32",
    scale: { type: "e8m0", round: "floor", gain: 4 / 3 },
  };
  const f = (x: Tensor) => {
    const quantized = quantize(x, operand, { axis: "row", draws });
    return [quantized.elements, quantized.scales, dequantize(quantized, operand), quantized.factor];
  };
  const expected = plainOcp(rowsOf(x), 4 / 3, draw);
  for (const leaves of [interpreted(f, x), await compiled(f, x)]) {
    const [elements, scales, decoded, factor] = leaves.map((leaf) => Array.from(numbers(leaf)));
    expect(scales).toEqual(expected.scales);
    expect(elements).toEqual(expected.elements);
    expect(factor).toEqual([Math.fround(4 / 3)]);
    decoded!.forEach((v, i) => {
      const exact = (elements![i]! * scales![Math.floor(i / 32)]! * 4) / 3;
      expect(Math.abs(v - exact)).toBeLessThanOrEqual(1e-6 * Math.abs(exact));
    });
    // No element was cut off: the largest is below 6.
    expect(Math.max(...elements!.map(Math.abs))).toBeLessThanOrEqual(6);
  }
});

it("seeds of signs give different magnitudes, not the same with other signs", () => {
  const x = matrix(16, 128, 9);
  const operand: QuantizedOperand = { ...e2m1, block: "1x16", scale: { type: "e4m3", outer: "tensor" } };
  const magnitudes = (step: number) => {
    const signs = streamAt({ seed: 1, step, microBatch: 0 }, { ...place, operand: "signs" });
    const f = (x: Tensor) =>
      quantize(x, operand, { axis: "row", rotation: rotationMatrix({ size: 32, signs: "fresh" }, signs) }).elements;
    return Array.from(numbers(interpreted(f, x)[0]!), Math.abs);
  };
  const [first, second] = [magnitudes(1), magnitudes(2)];
  expect(magnitudes(1)).toEqual(first);
  const different = first.filter((v, i) => v !== second[i]).length;
  expect(different / first.length).toBeGreaterThan(0.4);
});
