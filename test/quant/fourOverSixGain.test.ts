/** Four over six under a gain: it leaves room in the elements, as it does without the choice. */
import { expect, it } from "vitest";
import { type QuantizedOperand, quantize } from "../../src/quant/index.ts";
import { floats, interpreted, normals, numbers } from "./bothWays.ts";

const operand = (gain: number, fourOverSix?: "mae"): QuantizedOperand => ({
  element: "e2m1",
  block: "1x16",
  rounding: "nearest",
  scale: { type: "e4m3", outer: "tensor", bound: 256, gain, ...(fourOverSix && { fourOverSix }) },
});

it("decodes each block as one of its two scales without the choice would", () => {
  const next = normals(11);
  const x = floats([16, 64], "float32", () => next());
  for (const gain of [17 / 16, 1.25]) {
    const scalesOf = (spec: QuantizedOperand) =>
      numbers(interpreted((x) => quantize(x, spec, { axis: "row" }).scales, x)[0]!);
    const [plain, chosen] = [scalesOf(operand(gain)), scalesOf(operand(gain, "mae"))];
    const ratios = Array.from(chosen, (s, i) => s / plain[i]!);
    // E4M3 steps are at most an eighth: 6 gives the plain scale, give or take one step; 4 half as much again.
    for (const ratio of ratios)
      expect(
        [1, 1.5].some((r) => Math.abs(ratio / r - 1) < 0.13),
        `${gain}: ${ratio}`,
      ).toBe(true);
    expect(ratios.filter((ratio) => ratio === 1).length).toBeGreaterThan(5);
    expect(ratios.filter((ratio) => ratio > 1.3).length).toBeGreaterThan(5);
  }
});
