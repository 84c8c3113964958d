/** The NVFP4 quantizer beyond golden data: compiled against interpreted on any input, edges, padding. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type DType, type HostArray, hostArray, type Tensor, trace } from "../../src/core/index.ts";
import { dequantize, type Nvfp4Options, quantizeNvfp4, streamAt, tensorFactor } from "../../src/quant/index.ts";
import { compiledFunction, differences, floats, fromNumbers, interpreted, normals, numbers } from "./bothWays.ts";

const nearest = { rht: false, rounding: "nearest" } as const;
const place = { module: "mlp.up", layer: 2, gemm: "dgrad", operand: "left" } as const;
const stochastic = { stochastic: streamAt({ seed: 1, step: 2, microBatch: 3 }, place) };
const modes: Record<string, Nvfp4Options> = {
  row: { axis: "row", block: "1d", ...nearest },
  col: { axis: "col", block: "1d", ...nearest },
  tiles: { axis: "row", block: "2d", ...nearest },
  "stochastic row": { axis: "row", block: "1d", rht: false, rounding: stochastic },
  "stochastic col": { axis: "col", block: "1d", rht: false, rounding: stochastic },
};

const parts = (options: Nvfp4Options) => (x: Tensor) => {
  const quantized = quantizeNvfp4(x, options);
  const { values, amax, elements, blockScales } = quantized;
  return { values, elements, blockScales, amax, factor: tensorFactor(amax), decoded: dequantize(quantized) };
};
const names = ["values", "elements", "blockScales", "amax", "factor", "decoded"] as const;
type Parts = Record<(typeof names)[number], HostArray>;
const named = (leaves: HostArray[]): Parts => Object.fromEntries(names.map((n, i) => [n, leaves[i]!])) as Parts;

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

describe.each(Object.entries(modes))("quantizing by %s", (_, options) => {
  const f = parts(options);
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
          for (const name of ["values", "elements", "blockScales", "amax", "factor"] as const) {
            expect({ name, off: differences(found[name], wanted[name]) }).toEqual({ name, off: [] });
          }
        },
      ),
      { numRuns: 12 },
    );
  });

  it("pads what is no multiple of 16 and changes nothing by it", async () => {
    const [rows, columns] = [21, 40];
    const x = matrix([rows, columns], "bfloat16", 3, 1);
    const padded = hostArray(
      [32, 48],
      "bfloat16",
      Uint16Array.from({ length: 32 * 48 }, (_, i) => {
        const [row, column] = [Math.floor(i / 48), i % 48];
        return row < rows && column < columns ? (x.data as Uint16Array)[row * columns + column]! : 0;
      }),
    );
    for (const run of [async (x: HostArray) => interpreted(f, x), compiledFunction(f)]) {
      const [small, large] = [named(await run(x)), named(await run(padded))];
      expect(small.values.shape).toEqual([rows, columns]);
      expect(numbers(small.amax)).toEqual(numbers(large.amax));
      // Draws are numbered in the unpadded matrix, so only nearest rounding must agree.
      if (options.rounding !== "nearest") continue;
      const [a, b] = [numbers(small.elements), numbers(large.elements)];
      for (let i = 0; i < a.length; i++) {
        expect(a[i]).toBe(b[Math.floor(i / columns) * 48 + (i % columns)]);
      }
    }
  });

  it("is defined for zeros, one outlier and the largest numbers, without NaN", async () => {
    const cases: [string, HostArray][] = [
      ["zeros", floats([32, 48], "bfloat16", () => 0)],
      ["outlier", floats([32, 48], "bfloat16", (i) => (i === 100 ? 1e30 : Math.sin(i)))],
      ["largest", floats([32, 48], "bfloat16", (i) => 3.3895313892515355e38 * Math.cos(i))],
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
        expect(numbers(result.elements).every((v) => [0, 0.5, 1, 1.5, 2, 3, 4, 6].includes(Math.abs(v)))).toBe(true);
        if (what === "zeros") expect(numbers(result.values).every((v) => v === 0)).toBe(true);
        if (what === "outlier") expect(Math.abs(numbers(result.values)[100]!)).toBe(2688);
      }
    }
  });

  it("shows NaN and infinity in amax, and NaN in the values", async () => {
    for (const bad of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) {
      for (const at of [0, 21, 777, 32 * 48 - 1]) {
        const x = floats([32, 48], "bfloat16", (i) => (i === at ? bad : Math.sin(i)));
        for (const leaves of [interpreted(f, x), await compiled(x)]) {
          const { amax, factor, values } = named(leaves);
          expect(numbers(amax)[0]).toBe(Math.abs(bad));
          expect(numbers(factor)[0]).toBe(Math.abs(bad));
          if (Number.isNaN(bad)) expect(numbers(values)[at]).toBeNaN();
        }
      }
    }
  });
});

describe("values of the emulated product", () => {
  it("are exact in bfloat16: q · s_b", () => {
    const next = normals(9);
    const x = floats([64, 64], "bfloat16", () => next() * 2 ** Math.round(next() * 5));
    const { values, elements, blockScales } = named(interpreted(parts(modes.row!), x));
    const [v, q, s] = [numbers(values), numbers(elements), numbers(blockScales)];
    for (let i = 0; i < v.length; i++) expect(v[i]).toBe(q[i]! * s[Math.floor(i / 16)]!);
  });
});

describe("the rotated copy", () => {
  const rotated: Nvfp4Options = { axis: "col", block: "1d", rht: true, rounding: "nearest" };

  it("rounds the rotation to bfloat16 before anything else, compiled too", async () => {
    // Sums of integers times 1/4 are exact in float32, so nothing but the rounding can differ; many need 9 bits or more.
    const next = normals(4);
    const x = floats([48, 32], "bfloat16", () => Math.round(next() * 80));
    const f = parts(rotated);
    const [wanted, found] = [named(interpreted(f, x)), named(await compiledFunction(f)(x))];
    for (const name of names) {
      if (name !== "decoded") expect({ name, off: differences(found[name], wanted[name]) }).toEqual({ name, off: [] });
    }
    const rounded = fromNumbers([1], "bfloat16", numbers(wanted.amax) as Float32Array);
    expect(numbers(rounded)[0]).toBe(numbers(wanted.amax)[0]);
  });

  it("keeps the whole group of a token count that is no multiple of 16", () => {
    const x = matrix([21, 48], "bfloat16", 5, 0);
    expect(interpreted(parts(rotated), x)[0]!.shape).toEqual([32, 48]);
  });

  it("leaves the product of two rotated operands as it was", () => {
    // Outliers aside, quantization errors are far below the product itself.
    const next = normals(6);
    const [a, b] = [floats([64, 16], "float32", next), floats([64, 16], "float32", next)];
    const decoded = (x: HostArray, options: Nvfp4Options) => numbers(named(interpreted(parts(options), x)).decoded);
    const gram = (p: ArrayLike<number>, q: ArrayLike<number>) =>
      Array.from({ length: 256 }, (_, ij) => {
        let sum = 0;
        for (let t = 0; t < 64; t++) sum += p[t * 16 + Math.floor(ij / 16)]! * q[t * 16 + (ij % 16)]!;
        return sum;
      });
    const exact = gram(numbers(a), numbers(b));
    const found = gram(decoded(a, rotated), decoded(b, rotated));
    const rms = (values: number[]) => Math.sqrt(values.reduce((sum, v) => sum + v * v, 0) / values.length);
    expect(rms(found.map((v, i) => v - exact[i]!)) / rms(exact)).toBeLessThan(0.25);
  });
});

describe("quantizeNvfp4 refuses", () => {
  it.each([
    [
      { shape: [4, 4, 16], dtype: "bfloat16" },
      modes.row!,
      /takes a bfloat16 or float32 matrix; got bfloat16\[4,4,16\]/,
    ],
    [{ shape: [16, 16], dtype: "float16" }, modes.row!, /got float16\[16,16\]/],
    [
      { shape: [16, 16], dtype: "bfloat16" },
      { ...modes.row!, rht: true },
      /only 1-D blocks along dim 0 can be rotated/,
    ],
  ] as const)("%o", (spec, options, message) => {
    expect(() => trace((x: Tensor) => quantizeNvfp4(x, options).values, spec)).toThrow(message);
  });
});
