/** Rounding on Tensors against the codecs, over every bfloat16, random float32 bits and all ties; in both evaluators. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeArray, encodeArray } from "../../src/core/codecs.ts";
import { type HostArray, hostArray, type Tensor } from "../../src/core/index.ts";
import { e2m1, e4m3, roundE2M1, roundE4M3, roundStochastic } from "../../src/quant/index.ts";
import { compiledFunction, differences, interpreted, numbers } from "./bothWays.ts";

const numInputs = 2 ** 17;

const fromBits = (bits: ArrayLike<number>): Float32Array => new Float32Array(Uint32Array.from(bits).buffer);

/** The next float32 up (+1) or down (−1) in magnitude. */
const nudged = (x: number, ulps: number): number =>
  fromBits([new Uint32Array(Float32Array.of(x).buffer)[0]! + ulps])[0]!;

type Format = typeof e2m1 | typeof e4m3;

/** Non-negative values of a format, in order. */
function gridOf({ dtype }: Format): number[] {
  const size = dtype === "float4_e2m1fn" ? 8 : 127;
  return Array.from(
    decodeArray(
      dtype,
      Uint8Array.from({ length: size }, (_, code) => code),
    ),
  );
}

/** Grid values, the ties between them, their neighbours, and the same negative. */
function edges(format: Format): number[] {
  const grid = gridOf(format);
  const ties = grid.slice(1).map((value, i) => (value + grid[i]!) / 2);
  const around = [...grid, ...ties, format.max * 1.25].flatMap((x) =>
    x === 0 ? [0] : [x, nudged(x, 1), nudged(x, -1)],
  );
  return [...around, Number.POSITIVE_INFINITY].flatMap((x) => [x, -x]);
}

/** Every bfloat16 that is a number, random bits, edges: `numInputs` float32 values. */
function inputs(format: Format): Float32Array {
  const values = new Float32Array(numInputs);
  const all = [...fromBits(Uint32Array.from({ length: 65536 }, (_, i) => i << 16)), ...edges(format)];
  values.set(all);
  let state = 12345;
  for (let i = all.length; i < numInputs; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    // Exponents around the format's own range.
    values[i] = fromBits([(state & 0x807fffff) | ((110 + ((state >>> 8) % 30)) << 23)])[0]!;
  }
  return values.map((x) => (Number.isNaN(x) ? 1 : x));
}

/** Compiled code may read float32 denormals as zero, and with them lose a sign. */
const isDenormal = (x: number): boolean => x !== 0 && Math.abs(x) < 2 ** -126;

describe.each([
  ["E2M1", roundE2M1, e2m1],
  ["E4M3", roundE4M3, e4m3],
] as const)("rounding to %s", (_, round, format) => {
  const values = inputs(format);
  const input = hostArray([numInputs], "float32", values);
  const codes = encodeArray(format.dtype, values, "rne_sat");
  const wanted = hostArray([numInputs], "float32", decodeArray(format.dtype, codes) as Float32Array);

  it("is the codec's, interpreted", () => {
    expect(differences(interpreted(round, input)[0]!, wanted)).toEqual([]);
  });

  it("is the codec's, compiled", async () => {
    const [found] = await compiledFunction(round)(input);
    expect(differences(found!, wanted).filter((i) => !isDenormal(values[i]!))).toEqual([]);
  });

  it("keeps NaN", async () => {
    const nan = hostArray([2], "float32", Float32Array.of(Number.NaN, 1));
    for (const [found] of [interpreted(round, nan), await compiledFunction(round)(nan)]) {
      expect(Array.from(numbers(found!))).toEqual([Number.NaN, 1]);
    }
  });
});

/** The rule in its own words, in exact float64 arithmetic. */
function stochasticReference(x: number, u: number): number {
  const magnitude = Math.min(Math.abs(x), 6);
  const step = magnitude < 2 ? 0.5 : magnitude < 4 ? 1 : 2;
  const t = magnitude / step;
  const k = Math.floor((t - Math.floor(t)) * 65536);
  const rounded = (Math.floor(t) + (k + u >= 65536 ? 1 : 0)) * step;
  return x < 0 || Object.is(x, -0) ? -rounded : rounded;
}

describe("stochastic rounding to E2M1", () => {
  const f = (x: Tensor, u: Tensor) => roundStochastic(x, e2m1, u);
  const compiled = compiledFunction(f);
  const size = 4096;
  const arrays = (x: number[], u: number[]): [HostArray, HostArray] => [
    hostArray(
      [size],
      "float32",
      Float32Array.from({ length: size }, (_, i) => x[i % x.length]!),
    ),
    hostArray(
      [size],
      "uint32",
      Uint32Array.from({ length: size }, (_, i) => u[i % u.length]!),
    ),
  ];

  async function check(x: number[], u: number[]): Promise<void> {
    const [xs, us] = arrays(x, u);
    const wanted = hostArray(
      [size],
      "float32",
      Float32Array.from(xs.data as Float32Array, (v, i) => stochasticReference(v, us.data[i] as number)),
    );
    expect(differences(interpreted(f, xs, us)[0]!, wanted)).toEqual([]);
    const [found] = await compiled(xs, us);
    expect(differences(found!, wanted).filter((i) => !isDenormal(xs.data[i] as number))).toEqual([]);
  }

  it("follows the rule on any bits", async () => {
    const value = fc.oneof(
      fc.float({ min: -8, max: 8, noNaN: true }),
      fc.integer({ min: 0, max: 12 * 65536 }).map((i) => i / 131072),
      fc.float({ noNaN: true }),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(value, { minLength: 63, maxLength: 63 }),
        fc.array(fc.integer({ min: 0, max: 65535 }), { minLength: 64, maxLength: 64 }),
        check,
      ),
      { numRuns: 25 },
    );
  });

  it("is exact at the edges: grid values never move, the smallest fraction goes up with the largest draw alone", async () => {
    const grid = [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0, -1.5];
    const barely = [0, 0.5, 1, 1.5].map((x) => x + 0.5 * 2 ** -16);
    const less = [0.5 * 2 ** -17, 2 ** -30, nudged(0.5 * 2 ** -16, -1)];
    const all = [...grid, ...barely, ...less, 2 + 2 ** -16, 4 + 2 ** -15, nudged(2, -1), nudged(6, -1), nudged(6, 1)];
    // Lists of coprime lengths, so that every value meets every draw.
    expect(all.length % 3).not.toBe(0);
    await check(all, [0, 65534, 65535]);
    expect(stochasticReference(0.5 * 2 ** -16, 65535)).toBe(0.5);
    expect(stochasticReference(0.5 * 2 ** -16, 65534)).toBe(0);
    expect(stochasticReference(2 ** -30, 65535)).toBe(0);
  });
});
