/**
 * No pass elides a rounding of any recipe: the three GEMMs of a layer, compiled as one program, have the interpreter's bits
 * where all sums are exact, so that nothing but roundings can differ; and each rounding changes most of what it rounds.
 */
import { describe, expect, it } from "vitest";
import type { HostArray, Tensor } from "../../src/core/index.ts";
import { gemmNames, type LinearPrecision } from "../../src/quant/index.ts";
import { isDelayed } from "../../src/quant/precision.ts";
import { compiled, differences, floats, interpreted, normals, numbers } from "./bothWays.ts";
import { operands, precisions, quantized } from "./operands.ts";
import { threeGemms } from "./threeGemms.ts";

const random = { seed: 5, step: 7, microBatch: 1 };
const next = normals(17);

/** Magnitudes between an eighth of the largest and the largest: few binades, so that float32 sums of products are exact. */
const narrow = (shape: readonly [number, number], dtype: "bfloat16" | "float32") =>
  floats(shape, dtype, () => Math.sign(next()) * (0.125 + (Math.abs(next()) % 0.875)));
const [x, w, dy] = [narrow([32, 64], "bfloat16"), narrow([48, 64], "float32"), narrow([32, 48], "bfloat16")];

const hasDelayed = (precision: LinearPrecision) =>
  gemmNames.some((gemm) => [precision[gemm].left, precision[gemm].right].some(isDelayed));
/** A rotation of what fprop read sums float32 numbers of all their digits: sums that are not exact, in whatever order. */
const rotatesFpropsValues = (precision: LinearPrecision) =>
  gemmNames.some((gemm) => {
    const { rotation, left, right } = precision[gemm];
    return rotation !== "none" && [left, right].some(({ source }) => source === "fprop");
  });
const exact = precisions.filter(([, precision]) => !hasDelayed(precision) && !rotatesFpropsValues(precision));

describe("three GEMMs compiled as one program have the interpreter's bits", () => {
  it.each(exact)("%s", async (_, precision) => {
    // Widened in the program, so that a rounding to bfloat16 could be taken for nothing.
    const f = (x: Tensor, w: Tensor, dy: Tensor) =>
      threeGemms(precision, random)(x, w, dy).map((result) => result.astype("float32"));
    const [wanted, found] = [interpreted(f, x, w, dy), await compiled(f, x, w, dy)];
    for (const [i, name] of ["y", "dx", "dW"].entries()) {
      expect({ name, off: differences(found[i]!, wanted[i]!).length }).toEqual({ name, off: 0 });
    }
  });
});

describe("each rounding would be missed", () => {
  const changed = (a: HostArray, b: HostArray) => {
    const [p, q] = [numbers(a), numbers(b)];
    return Array.from(p.keys()).filter((i) => p[i] !== q[i]).length / p.length;
  };

  it.each(operands.filter(({ rotation }) => rotation === undefined).map((one) => [one.label, one] as const))(
    "%s",
    (_, one) => {
      const wide = floats(x.shape, "float32", () => next());
      expect(changed(quantized(one, wide).decoded, wide)).toBeGreaterThan(0.9);
    },
  );
});
