/** The derivative of every operation, alone and in loops, against central differences in float64. */
import { describe, expect, it } from "vitest";
import { interpret, trace } from "../../src/core/index.ts";
import { coveredOperations, operationsIn } from "../core/properties/families.ts";
import { finiteDifferences, gradientOf, inputsOf } from "./finiteDifferences.ts";
import { gradientCases } from "./gradientCases.ts";

describe("gradients equal finite differences", () => {
  it.each(gradientCases.map((c) => [c.name, c] as const))("%s", (_, c) => {
    const inputs = inputsOf(c, "float64");
    const got = interpret(gradientOf(c) as never, inputs as never) as { data: Float64Array }[];
    const wanted = finiteDifferences(c);
    got.forEach(({ data }, i) => {
      const scale = Math.max(1, ...wanted[i]!.map(Math.abs));
      wanted[i]!.forEach((w, j) => {
        expect(Math.abs(data[j]! - w) / scale, `input ${i}[${j}]: ${data[j]} against ${w}`).toBeLessThan(1e-7);
      });
    });
  });
});

it("every operation that has a derivative is among the cases", () => {
  const tested = new Set(gradientCases.flatMap((c) => operationsIn(trace(c.f, ...inputsOf(c, "float64")))));
  const differentiable = coveredOperations().filter(({ vjp }) => vjp !== "none");
  expect(differentiable.length).toBeGreaterThan(30);
  expect(differentiable.filter((op) => !tested.has(op)).map(({ name }) => name)).toEqual([]);
});
