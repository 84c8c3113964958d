/** The quantizer beyond golden data: compiled against interpreted on any input in every description, edges, padding. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeArray } from "../../src/core/codecs.ts";
import { type DType, type HostArray, hostArray, type Tensor, trace } from "../../src/core/index.ts";
import {
  dequantize,
  formats,
  type QuantizedOperand,
  type QuantizeOptions,
  quantize,
  type RotationMatrix,
  rotationMatrix,
  streamAt,
} from "../../src/quant/index.ts";
import { compiledFunction, differences, floats, fromNumbers, interpreted, normals, numbers } from "./bothWays.ts";
import { identityMatrix } from "./plainQuantizers.ts";

interface Mode extends QuantizeOptions {
  readonly operand: QuantizedOperand;
}

const place = { module: "mlp.up", layer: 2, gemm: "dgrad", operand: "left" } as const;
const draws = streamAt({ seed: 1, step: 2, microBatch: 3 }, place);
const e4m3 = { type: "e4m3", outer: "tensor" } as const;
const nearest = { element: "e2m1", rounding: "nearest", scale: e4m3 } as const;
const stochastic = { ...nearest, rounding: "stochastic" } as const;
const rows: QuantizedOperand = { ...nearest, block: "1x16" };
const inGroups = { type: "e4m3", outer: "1x128" } as const;
const eden = { rounding: "eden", block: "1x16", scale: { ...e4m3, bound: 255.99, gain: (17 / 16) * 0.93 } } as const;
/** A rotation by nothing, so that the matrix is what is quantized. */
const identity = (size: number): RotationMatrix => ({ size, matrix: identityMatrix(size), scale: undefined });
const modes = {
  "NVFP4 rows": { axis: "row", operand: rows },
  "NVFP4 columns": { axis: "col", operand: rows },
  "NVFP4 tiles": { axis: "row", operand: { ...nearest, block: "16x16" } },
  "stochastic NVFP4 rows": { axis: "row", operand: { ...stochastic, block: "1x16" }, draws },
  "stochastic NVFP4 columns": { axis: "col", operand: { ...stochastic, block: "1x16" }, draws },
  "NVFP4 rows by 8 random bits": { axis: "row", operand: { ...rows, rounding: "stochastic8" }, draws },
  "row-scaled NVFP4": { axis: "row", operand: { ...rows, scale: { type: "e4m3", outer: "row" } } },
  "row-scaled NVFP4 columns": { axis: "col", operand: { ...rows, scale: { type: "e4m3", outer: "row" } } },
  "NVFP4 with gain 17/16": { axis: "row", operand: { ...rows, scale: { ...e4m3, gain: 17 / 16 } } },
  "INT4 under E4M3 scales": { axis: "row", operand: { ...rows, element: "int4" } },
  "MXFP4 rows": { axis: "row", operand: { ...rows, block: "1x32", scale: { type: "e8m0", round: "up" } } },
  "MXFP4 columns, OCP": { axis: "col", operand: { ...rows, block: "1x32", scale: { type: "e8m0", round: "floor" } } },
  "stochastic MXFP4": {
    axis: "row",
    operand: { ...stochastic, block: "1x32", scale: { type: "e8m0", round: "up" } },
    draws,
  },
  "MXFP8 tiles": {
    axis: "row",
    operand: { ...rows, element: "e4m3", block: "32x32", scale: { type: "e8m0", round: "up" } },
  },
  "FP8 tensor": {
    axis: "row",
    operand: { ...rows, element: "e4m3", block: "tensor", scale: { type: "fp32", powerOfTwo: false } },
  },
  "FP8 E5M2 tensor, power of two": {
    axis: "row",
    operand: { ...rows, element: "e5m2", block: "tensor", scale: { type: "fp32", powerOfTwo: true } },
  },
  "FP8 blocks": {
    axis: "row",
    operand: { ...rows, element: "e4m3", block: "1x128", scale: { type: "fp32", powerOfTwo: true } },
  },
  "FP8 tiles with FP32 scales": {
    axis: "col",
    operand: { ...rows, element: "e4m3", block: "128x128", scale: { type: "fp32", powerOfTwo: false } },
  },
  "NVFP4 rows in groups of 128": { axis: "row", operand: { ...rows, scale: inGroups } },
  "stochastic NVFP4 columns in groups of 128, no scale 0": {
    axis: "col",
    operand: { ...stochastic, block: "1x16", scale: { ...inGroups, neverZero: true } },
    draws,
  },
  "NVFP4 by four over six, largest error": {
    axis: "row",
    operand: { ...rows, scale: { ...e4m3, fourOverSix: "absmax" } },
  },
  "stochastic MXFP4 with gain 4/3": {
    axis: "row",
    operand: { ...stochastic, block: "1x32", scale: { type: "e8m0", round: "floor", gain: 4 / 3 } },
    draws,
  },
  "MXFP4 by standard deviations": {
    axis: "row",
    operand: { ...rows, block: "1x32", scale: { type: "e8m0", statistic: "std", sigmas: 2.92247856 } },
  },
  "MXFP4 columns by standard deviations": {
    axis: "col",
    operand: { ...rows, block: "1x32", scale: { type: "e8m0", statistic: "std", sigmas: 2.92247856 } },
  },
  "E2M1 with a power of two a row": {
    axis: "row",
    operand: { ...rows, block: "row", scale: { type: "fp32", powerOfTwo: true } },
  },
  "E2M1 with a scale a column": {
    axis: "col",
    operand: { ...rows, block: "row", scale: { type: "fp32", powerOfTwo: false } },
  },
  "EDEN rows": { axis: "row", operand: { ...rows, ...eden }, rotation: identity(16), draws },
  "EDEN columns": { axis: "col", operand: { ...rows, ...eden }, rotation: identity(16), draws },
} as const satisfies Record<string, Mode>;

const parts =
  ({ operand, ...options }: Mode) =>
  (x: Tensor) => {
    const quantized = quantize(x, operand, options);
    const { values, elements, scales, amax = scales, parts } = quantized;
    const factor = quantized.factor ?? parts?.scales ?? scales;
    return { values, elements, scales, amax, factor, decoded: dequantize(quantized, operand) };
  };
const names = ["values", "elements", "scales", "amax", "factor", "decoded"] as const;
type Parts = Record<(typeof names)[number], HostArray>;
const named = (leaves: HostArray[]): Parts => Object.fromEntries(names.map((n, i) => [n, leaves[i]!])) as Parts;

/** Non-negative values of a format. */
const gridOf = (element: QuantizedOperand["element"]): Set<number> => {
  const { dtype, max } = formats[element];
  if (dtype === undefined) return new Set(Array.from({ length: max + 1 }, (_, i) => i));
  const codes = Uint8Array.from({ length: dtype === "float4_e2m1fn" ? 8 : 128 }, (_, code) => code);
  return new Set(Array.from(decodeArray(dtype, codes)).filter(Number.isFinite));
};

/** A matrix of normal numbers whose rows, columns and elements have magnitudes of their own; some blocks are zero. */
function matrix(shape: readonly [number, number], dtype: DType, seed: number, spread: number): HostArray {
  const next = normals(seed);
  const scale = () => 2 ** Math.round(next() * spread);
  const rows = Array.from({ length: shape[0] }, scale);
  const columns = Array.from({ length: shape[1] }, scale);
  return floats(shape, dtype, (i) => {
    const [row, column] = [Math.floor(i / shape[1]), i % shape[1]];
    const zero = (Math.floor(row / 16) + Math.floor(column / 16) + seed) % 7 === 0;
    return zero ? 0 : next() * rows[row]! * columns[column]!;
  });
}

describe.each(Object.entries<Mode>(modes))("quantizing: %s", (_, mode) => {
  const f = parts(mode);
  const { operand } = mode;
  const compiled = compiledFunction(f);

  it("gives the same bits compiled and interpreted", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 0, max: 2 ** 31 }),
        fc.constantFrom(0, 1, 4, 9),
        fc.constantFrom<DType>("bfloat16", "float32"),
        async (seed, spread, dtype) => {
          const x = matrix([32, 48], dtype, seed, spread);
          const [found, wanted] = [named(await compiled(x)), named(interpreted(f, x))];
          for (const name of ["values", "elements", "scales", "amax", "factor"] as const) {
            expect({ name, off: differences(found[name], wanted[name]) }).toEqual({ name, off: [] });
          }
        },
      ),
      { numRuns: 8 },
    );
  });

  it("pads what is no whole block and changes nothing by it", async () => {
    const [height, width] = [21, 40];
    const [tall, wide] = [128, 128];
    const x = matrix([height, width], "bfloat16", 3, 1);
    const padded = hostArray(
      [tall, wide],
      "bfloat16",
      Uint16Array.from({ length: tall * wide }, (_, i) => {
        const [row, column] = [Math.floor(i / wide), i % wide];
        return row < height && column < width ? (x.data as Uint16Array)[row * width + column]! : 0;
      }),
    );
    for (const run of [async (x: HostArray) => interpreted(f, x), compiledFunction(f)]) {
      const [small, large] = [named(await run(x)), named(await run(padded))];
      // A rotation keeps its whole groups.
      if (mode.rotation === undefined) expect(small.values.shape).toEqual([height, width]);
      // Draws are numbered in the unpadded matrix, so only nearest rounding must agree.
      if (operand.rounding !== "nearest") continue;
      const [a, b] = [numbers(small.elements), numbers(large.elements)];
      for (let i = 0; i < a.length; i++) {
        expect(a[i]).toBe(b[Math.floor(i / width) * wide + (i % width)]);
      }
    }
  });

  it("D1: blocks of zeros beside large values have no NaN scale (bytes 0x7f, 0xff) and decode to exact zeros", async () => {
    const isZero = (i: number) => i % 64 < 32;
    const x = floats([32, 64], "bfloat16", (i) => (isZero(i) ? 0 : 1e4 * Math.sin(i)));
    for (const leaves of [interpreted(f, x), await compiled(x)]) {
      const { scales, decoded } = named(leaves);
      const largest = operand.scale.type === "e4m3" ? 448 : Number.MAX_VALUE;
      expect(numbers(scales).every((scale) => scale >= 0 && scale <= largest)).toBe(true);
      expect(numbers(decoded).filter((value, i) => isZero(i) && value !== 0)).toEqual(new Float32Array());
      expect(numbers(decoded).some((value) => value !== 0)).toBe(true);
    }
  });

  it("is defined for zeros, one outlier and the largest numbers, without NaN", async () => {
    const grid = gridOf(operand.element);
    // Within a rounding step of 2^128 a decoded value may be beyond float32, unless a float32 scale holds the range.
    const powersOfTwo = operand.block !== "tensor" && operand.scale.type !== "e4m3";
    const largest = powersOfTwo ? 2 ** 127 : 3.3895313892515355e38;
    const cases: [string, HostArray][] = [
      ["zeros", floats([32, 48], "bfloat16", () => 0)],
      ["outlier", floats([32, 48], "bfloat16", (i) => (i === 100 ? 1e30 : Math.sin(i)))],
      ["largest", floats([32, 48], "bfloat16", (i) => largest * Math.cos(i))],
      ["smallest normal", floats([32, 48], "bfloat16", (i) => 1.1754943508222875e-38 * ((i % 5) - 2))],
    ];
    for (const [what, x] of cases) {
      for (const leaves of [interpreted(f, x), await compiled(x)]) {
        const result = named(leaves);
        for (const name of names) {
          if (name === "decoded") continue;
          expect({ what, name, finite: numbers(result[name]).every(Number.isFinite) }).toEqual({
            what,
            name,
            finite: true,
          });
        }
        expect(numbers(result.elements).every((v) => grid.has(Math.abs(v)))).toBe(true);
        if (what === "zeros") expect(numbers(result.values).every((v) => v === 0)).toBe(true);
      }
    }
  });

  it("makes NaN and infinity reach the product, whatever the format can hold", async () => {
    for (const bad of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) {
      for (const at of [0, 21, 777, 32 * 48 - 1]) {
        const x = floats([32, 48], "bfloat16", (i) => (i === at ? bad : Math.sin(i)));
        for (const leaves of [interpreted(f, x), await compiled(x)]) {
          const { factor, values } = named(leaves);
          const seen = [numbers(values)[at]!, ...numbers(factor)];
          expect(seen.every(Number.isFinite)).toBe(false);
        }
      }
    }
  });
});

describe("values of the emulated product", () => {
  it("are exact in bfloat16: q · s_b", () => {
    const next = normals(9);
    const x = floats([64, 64], "bfloat16", () => next() * 2 ** Math.round(next() * 5));
    const { values, elements, scales } = named(interpreted(parts(modes["NVFP4 rows"]), x));
    const [v, q, s] = [numbers(values), numbers(elements), numbers(scales)];
    for (let i = 0; i < v.length; i++) expect(v[i]).toBe(q[i]! * s[Math.floor(i / 16)]!);
  });
});

describe("the rotated copy", () => {
  const rotated = (): Mode => ({
    axis: "col",
    operand: rows,
    rotation: rotationMatrix({ size: 16, signs: "fixed" }),
  });
  const f = (x: Tensor) => parts(rotated())(x);

  it("rounds the rotation to bfloat16 before anything else, compiled too", async () => {
    // Sums of integers times 1/4 are exact in float32, so nothing but the rounding can differ; many need 9 bits or more.
    const next = normals(4);
    const x = floats([48, 32], "bfloat16", () => Math.round(next() * 80));
    const [wanted, found] = [named(interpreted(f, x)), named(await compiledFunction(f)(x))];
    for (const name of names) {
      if (name !== "decoded") expect({ name, off: differences(found[name], wanted[name]) }).toEqual({ name, off: [] });
    }
    const rounded = fromNumbers([1], "bfloat16", numbers(wanted.amax) as Float32Array);
    expect(numbers(rounded)[0]).toBe(numbers(wanted.amax)[0]);
  });

  it("keeps the whole group of a token count that is no multiple of 16", () => {
    const x = matrix([21, 48], "bfloat16", 5, 0);
    expect(interpreted(f, x)[0]!.shape).toEqual([32, 48]);
  });

  it("leaves the product of two rotated operands as it was", () => {
    // Outliers aside, quantization errors are far below the product itself.
    const next = normals(6);
    const [a, b] = [floats([64, 16], "float32", next), floats([64, 16], "float32", next)];
    const decoded = (x: HostArray) => numbers(named(interpreted(f, x)).decoded);
    const gram = (p: ArrayLike<number>, q: ArrayLike<number>) =>
      Array.from({ length: 256 }, (_, ij) => {
        let sum = 0;
        for (let t = 0; t < 64; t++) sum += p[t * 16 + Math.floor(ij / 16)]! * q[t * 16 + (ij % 16)]!;
        return sum;
      });
    const exact = gram(numbers(a), numbers(b));
    const found = gram(decoded(a), decoded(b));
    const rms = (values: number[]) => Math.sqrt(values.reduce((sum, v) => sum + v * v, 0) / values.length);
    expect(rms(found.map((v, i) => v - exact[i]!)) / rms(exact)).toBeLessThan(0.25);
  });
});

describe("quantize refuses", () => {
  it.each([
    [
      { shape: [4, 4, 16], dtype: "bfloat16" },
      modes["NVFP4 rows"],
      /takes a bfloat16 or float32 matrix; got bfloat16\[4,4,16\]/,
    ],
    [{ shape: [16, 16], dtype: "float16" }, modes["NVFP4 rows"], /got float16\[16,16\]/],
    [
      { shape: [16, 16], dtype: "bfloat16" },
      { axis: "row", operand: { ...rows, rounding: "stochastic" } },
      /stochastic rounding needs `draws`/,
    ],
  ] as const)("%o", (spec, { axis, operand }, message) => {
    expect(() => trace((x: Tensor) => quantize(x, operand, { axis }).values, spec)).toThrow(message);
  });
});
