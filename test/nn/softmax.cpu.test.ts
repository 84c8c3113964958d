/** Activations and sums of exponentials: their values in float64, their behaviour at the edges, compiled and interpreted. */
import { describe, expect, it } from "vitest";
import { grad } from "../../src/autodiff/index.ts";
import { concat, hostArray, interpret, type Tensor } from "../../src/core/index.ts";
import { gelu, geluTanh, logSoftmax, logSumExp, silu, softmax } from "../../src/nn/index.ts";
import { compiled, floats, numbers, relativeToMax } from "../quant/bothWays.ts";

const rows = [
  [1, 2, 3, -1],
  [1000, 1001, -1000, 999],
  [-Infinity, 0, 2, -Infinity],
];
const x = hostArray([3, 4], "float32", Float32Array.from(rows.flat()));

describe("softmax and its kin", () => {
  it("are what they are in float64, however large the values", () => {
    const exact = rows.map((row) => {
      const highest = Math.max(...row);
      const sum = row.reduce((s, v) => s + Math.exp(v - highest), 0);
      return { row, logSum: highest + Math.log(sum) };
    });
    const logs = exact.flatMap(({ row, logSum }) => row.map((v) => v - logSum));
    expect(relativeToMax(numbers(interpret((x: Tensor) => softmax(x, 1), x)), logs.map(Math.exp))).toBeLessThan(1e-6);
    expect(
      relativeToMax(
        numbers(interpret((x: Tensor) => logSumExp(x, 1), x)),
        exact.map((r) => r.logSum),
      ),
    ).toBeLessThan(1e-6);
    const found = numbers(interpret((x: Tensor) => logSoftmax(x, -1), x));
    logs.forEach((log, i) => (log === -Infinity ? expect(found[i]).toBe(log) : expect(found[i]).toBeCloseTo(log, 3)));
  });

  it("of nothing but −∞ sum to nothing", () => {
    const empty = hostArray([1, 2], "float32", Float32Array.of(-Infinity, -Infinity));
    expect(interpret((x: Tensor) => logSumExp(x, 1), empty).data).toEqual(Float32Array.of(-Infinity));
  });

  it("have the gradients of softmax", () => {
    const g = interpret((x: Tensor) => grad((x: Tensor) => logSumExp(x, 1).sum())(x), x);
    expect(relativeToMax(numbers(g), numbers(interpret((x: Tensor) => softmax(x, 1), x)))).toBeLessThan(1e-6);
  });
});

describe("activations", () => {
  it("have their known values", () => {
    const at = hostArray([4], "float32", Float32Array.of(-1, 0, 1, 3));
    const close = (f: (x: Tensor) => Tensor, wanted: number[]) =>
      expect(relativeToMax(numbers(interpret(f, at)), wanted)).toBeLessThan(1e-6);
    close(gelu, [-0.15865525, 0, 0.84134475, 2.99595031]);
    close(geluTanh, [-0.15880801, 0, 0.84119199, 2.99636261]);
    close(silu, [-0.26894142, 0, 0.73105858, 2.85772238]);
  });

  it("are the same compiled, with their gradients, in float32 and bfloat16", async () => {
    for (const dtype of ["float32", "bfloat16"] as const) {
      const input = floats([2, 33], dtype, (i) => Math.sin(i * i) * 4);
      const all = (x: Tensor) =>
        concat(
          [gelu, geluTanh, silu, (x: Tensor) => softmax(x, 1)].flatMap((f) => [
            f(x),
            grad((x: Tensor) => f(x).mul(x).astype("float32").sum())(x),
          ]),
          0,
        );
      const [got] = await compiled(all, input);
      expect(relativeToMax(numbers(got!), numbers(interpret(all, input)))).toBeLessThan(
        dtype === "float32" ? 1e-5 : 2 ** -8,
      );
    }
  });
});
