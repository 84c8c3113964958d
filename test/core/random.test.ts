/** Random numbers on the graph: the bits of the plain generator, and the distributions they are to have. */
import { describe, expect, it } from "vitest";
import {
  foldIn,
  hostArray,
  interpret,
  normal,
  randomBits,
  randomKey,
  spec,
  type Tensor,
  trace,
  uniform,
} from "../../src/core/index.ts";
import { deriveKey, drawBits, hashName, streamOfKey, threefry2x32 } from "../../src/core/randomBits.ts";
import { numbers } from "../quant/bothWays.ts";

const count = 1 << 16;
const valuesOf = (f: () => Tensor) => numbers(interpret(f));
const momentsOf = (x: ArrayLike<number>) => {
  const list = Array.from(x);
  const mean = list.reduce((a, b) => a + b, 0) / list.length;
  return { mean, variance: list.reduce((sum, v) => sum + (v - mean) ** 2, 0) / list.length };
};

describe("random bits", () => {
  it("are those of the plain generator, whether words are known or live in the program", () => {
    const stream = streamOfKey(threefry2x32(deriveKey([7, 100, 3]), [hashName("mlp.up"), 0]));
    const wanted = Uint32Array.from({ length: 12 }, (_, i) => drawBits(stream, i));
    const f = (step: Tensor) => randomBits(foldIn(randomKey(7, step, 3), "mlp.up"), [3, 4]);
    expect(interpret(f, hostArray([], "int32", Int32Array.of(100))).data).toEqual(wanted);
    expect(interpret(() => randomBits(foldIn(randomKey(7, 100, 3), "mlp.up"), [12])).data).toEqual(wanted);
  });

  it("differ between keys, parts and the order of words", () => {
    const keys = [randomKey(1), randomKey(1, 0), randomKey(0, 1), randomKey(2)].flatMap((key) => [
      key,
      foldIn(key, 0),
      foldIn(key, "a"),
    ]);
    const first = keys.map((key) => valuesOf(() => randomBits(key, [2])).join());
    expect(new Set(first).size).toBe(keys.length);
  });
});

describe("random numbers", () => {
  it("are uniform on [0, 1), on a grid that each dtype holds", () => {
    for (const [dtype, grid] of [
      ["float32", 2 ** 24],
      ["bfloat16", 2 ** 8],
      ["float16", 2 ** 11],
      ["float64", 2 ** 32],
    ] as const) {
      const u = valuesOf(() => uniform(randomKey(1), [count], { dtype }));
      const { mean, variance } = momentsOf(u);
      const step = 1 / grid;
      expect(Math.abs(mean - (1 - step) / 2) * Math.sqrt(12 * count)).toBeLessThan(4);
      expect(Math.abs(variance * 12 - 1) * Math.sqrt(count)).toBeLessThan(5);
      expect(u.every((x) => x >= 0 && x < 1 && Number.isInteger(x * grid))).toBe(true);
    }
  });

  it("are normal: moments and shares within one, two and three standard deviations", () => {
    const z = valuesOf(() => normal(randomKey(3), [count], { std: 2, mean: 1 }));
    const { mean, variance } = momentsOf(z);
    expect((Math.abs(mean - 1) / 2) * Math.sqrt(count)).toBeLessThan(4);
    expect(Math.abs(variance / 4 - 1) * Math.sqrt(count / 2)).toBeLessThan(4);
    for (const [limit, share] of [
      [1, 0.6826895],
      [2, 0.9544997],
      [3, 0.9973002],
    ] as const) {
      const found = z.filter((x) => Math.abs(x - 1) < 2 * limit).length / count;
      expect(Math.abs(found - share) / Math.sqrt((share * (1 - share)) / count)).toBeLessThan(4);
    }
  });

  it("are floats", () => {
    expect(() => trace(() => uniform(randomKey(1), [2], { dtype: "int32" }))).toThrow(
      "uniform: gives floats of 16 bits and more; got int32",
    );
    expect(() =>
      trace((x: Tensor) => normal(randomKey(1), x.shape, { dtype: "float8_e5m2" }), spec([2], "float32")),
    ).toThrow("normal: gives floats");
  });
});
