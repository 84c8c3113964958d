/**
 * Programs put together by chance, compiled against interpreted: whatever XLA fuses, moves or merges, every element comes
 * out the same. Products and sums stay apart in floats, since a product that feeds a sum may be one multiply-add.
 */
import fc from "fast-check";
import { expect, it } from "vitest";
import { concat, type DType, type HostArray, pad, type Tensor, where } from "../../src/core/index.ts";
import { exactButZeros } from "../core/properties/compare.ts";
import { differencesOf, draw, type OpCase } from "../core/properties/opCase.ts";
import { ordinaryArrays } from "../core/properties/values.ts";

const shape = [4, 6];
type Step = (a: Tensor, b: Tensor) => Tensor;

/** Keep the shape, so that any can follow any. */
const moving: Step[] = [
  (a) => a.transpose().reshape(shape),
  (a) => a.reshape([2, 3, 4]).transpose([1, 2, 0]).reshape(shape),
  (a) => a.reverse([1]),
  (a, b) => concat([a.narrow(0, 0, 2), b.narrow(0, 2, 2)], 0),
  (a) => pad(a.slice([0, 1], [4, 5], [2, 1]), { low: [1, 1], high: [0, 1], interior: [1, 0], value: 1 }),
  (a) => a.at(0, 2).broadcastTo(shape),
  (a, b) => where(a.lt(b), a, b.reverse([0])),
  (a) => a.maxOver(1, { keepDims: true }).broadcastTo(shape),
  (a, b) => a.max(b).min(a.neg()),
  (a) => a.abs().neg(),
];
const roundingSteps: Step[] = (["bfloat16", "float16", "float8_e5m2"] as const).map(
  (dtype) => (a: Tensor) => a.astype(dtype).astype(a.dtype),
);
const products: Step[] = [
  (a, b) => a.mul(b),
  (a, b) => a.div(b.abs().max(0.25)),
  (a) => a.mul(1.1).mul(0.9),
  (a) => a.div(3),
  (a, b) => a.div(b.at(1, 3).reshape([4, 1]).abs().max(0.5)),
  (a) => a.abs().sqrt(),
];
const floatSums: Step[] = [(a, b) => a.add(b), (a, b) => a.sub(b), (a) => a.add(1.1).sub(0.7), (a) => a.sub(a.floor())];
const integerSteps: Step[] = [
  (a, b) => a.add(b).mul(a),
  (a, b) => a.mul(b).sub(7),
  (a, b) => a.div(b.or(1)),
  (a, b) => a.rem(b.or(1)),
  (a, b) => a.xor(b.shiftLeft(3)),
  (a) => a.shiftRight(2).and(a.not()),
  (a) => a.sum(0, { keepDims: true }).broadcastTo(shape),
];

const kinds: Record<string, { readonly dtype: DType; readonly steps: Step[] }> = {
  "products of floats": { dtype: "float32", steps: [...moving, ...roundingSteps, ...products] },
  "sums of floats": { dtype: "float32", steps: [...moving, ...roundingSteps, ...floatSums] },
  "products of bfloat16": { dtype: "bfloat16", steps: [...moving, ...products, ...floatSums] },
  int32: { dtype: "int32", steps: [...moving, ...integerSteps] },
  uint8: { dtype: "uint8", steps: [...moving, ...integerSteps] },
};

/** A program of a few steps: each works on two of the values before it. */
const programs = (label: string, dtype: DType, steps: readonly Step[]): fc.Arbitrary<OpCase> => {
  const pick = fc.record({ step: fc.nat(steps.length - 1), a: fc.nat(), b: fc.nat() });
  return fc
    .record({
      inputs: fc.tuple(ordinaryArrays(dtype, shape), ordinaryArrays(dtype, shape)),
      picks: fc.array(pick, { minLength: 3, maxLength: 6 }),
    })
    .map(({ inputs, picks }) => ({
      label: `${label}: ${picks.map(({ step, a, b }) => `${step}(${a % 9},${b % 9})`).join(" ")}`,
      inputs: inputs as HostArray[],
      f: (...values: Tensor[]) => {
        const made = [...values];
        for (const { step, a, b } of picks) {
          // Mostly the newest value, so that steps follow each other.
          const newest = made.at(-1)!;
          made.push(steps[step]!(a % 3 === 0 ? made[a % made.length]! : newest, made[b % made.length]!));
        }
        return made.at(-1)!;
      },
      rule: exactButZeros,
    }));
};

it.each(Object.entries(kinds))("%s", async (label, { dtype, steps }) => {
  expect(await differencesOf(draw(label, programs(label, dtype, steps), 40))).toEqual([]);
});
