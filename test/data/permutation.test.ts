import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { permutation } from "../../src/data/permutation.ts";

describe("permutation", () => {
  it("visits every position once, whatever the size and key", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 3000 }), fc.integer(), fc.nat(), (size, seed, epoch) => {
        const at = permutation(size, seed, epoch);
        const seen = new Set(Array.from({ length: size }, (_, i) => at(i)));
        expect(seen.size).toBe(size);
        expect(Math.min(...seen)).toBe(0);
        expect(Math.max(...seen)).toBe(size - 1);
      }),
    );
  });

  it("stays inside sizes beyond 32 bits", () => {
    const size = 2 ** 40 + 12345;
    const at = permutation(size, 7);
    const values = Array.from({ length: 1000 }, (_, i) => at(i * 1_000_003));
    expect(new Set(values).size).toBe(1000);
    expect(values.every((value) => Number.isInteger(value) && value >= 0 && value < size)).toBe(true);
    expect(Math.max(...values)).toBeGreaterThan(2 ** 39);
  });

  it("is a function of the key alone, and another for another key", () => {
    const order = (...key: number[]) => Array.from({ length: 50 }, (_, i) => permutation(50, ...key)(i));
    expect(order(1, 0)).toEqual(order(1, 0));
    expect(order(1, 0)).not.toEqual(order(1, 1));
    expect(order(1, 0)).not.toEqual(order(2, 0));
    expect(order(1, 0)).not.toEqual([...order(1, 0)].sort((a, b) => a - b));
  });

  it("sends each position to each value about equally often", () => {
    // 9 values, 4,500 keys: 500 expected in each of 81 cells; 6 standard deviations are 126.
    const counts = new Int32Array(81);
    for (let key = 0; key < 4500; key++) {
      const at = permutation(9, key);
      for (let i = 0; i < 9; i++) counts[9 * i + at(i)]!++;
    }
    expect(Math.min(...counts)).toBeGreaterThan(374);
    expect(Math.max(...counts)).toBeLessThan(626);
  });

  it("refuses positions outside", () => {
    expect(() => permutation(10, 0)(10)).toThrow("position 10 of 10");
  });
});
