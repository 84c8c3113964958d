/** Compiled gradients equal interpreted ones, in float32 and with bfloat16 products. */
import { expect, it } from "vitest";
import { grad } from "../../src/autodiff/index.ts";
import { concat, type Tensor } from "../../src/core/index.ts";
import { sums } from "../core/properties/compare.ts";
import { differencesOf, type OpCase } from "../core/properties/opCase.ts";
import { gradientOf, inputsOf } from "./finiteDifferences.ts";
import { gradientCases } from "./gradientCases.ts";

const asOne = (leaves: readonly Tensor[]): Tensor =>
  concat(
    leaves.map((leaf) => leaf.reshape([-1])),
    0,
  );

it("equals the interpreter's, case by case", async () => {
  const cases = gradientCases.map(
    (c): OpCase => ({
      label: c.name,
      inputs: inputsOf(c, "float32"),
      f: (...inputs) => asOne(gradientOf(c)(inputs)),
      rule: sums("float32"),
    }),
  );
  expect(await differencesOf(cases)).toEqual([]);
});

/** Cases in which every operation rounds by itself, so that bfloat16 has one answer. */
const exactInBfloat16 = [
  "add",
  "sub",
  "mul",
  "abs",
  "max",
  "where",
  "concat",
  "pad",
  "slice",
  "maxOver",
  "take",
  "dot",
];

it("equals the interpreter's in bfloat16", async () => {
  const cases = gradientCases
    .filter(({ name }) => exactInBfloat16.includes(name))
    .map(
      (c): OpCase => ({
        label: c.name,
        inputs: inputsOf(c, "float32"),
        f: (...inputs) => {
          const loss = (xs: readonly Tensor[]) =>
            c
              .f(...xs.map((x) => x.astype("bfloat16")))
              .astype("float32")
              .sum();
          return asOne(grad(loss)(inputs));
        },
        rule: sums("bfloat16"),
      }),
    );
  expect(cases.length).toBe(exactInBfloat16.length);
  expect(await differencesOf(cases)).toEqual([]);
});
