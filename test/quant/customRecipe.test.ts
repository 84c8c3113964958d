/** Recipes as JSON: what is allowed, and how what is not is refused; the types refuse the same. */
import { describe, expect, it } from "vitest";
import { type LinearPrecision, nvfp4, recipeNames } from "../../src/quant/index.ts";
import { recipeByName } from "../../src/quant/recipeNames.ts";

const int4 = { element: "int4", block: "1x16", rounding: "nearest", scale: { type: "e4m3", outer: "tensor" } } as const;
const backward = { dgrad: "nvfp4", wgrad: "nvfp4" } as const;
const parse = (recipe: unknown) => recipeByName(JSON.stringify(recipe)).precision;

describe("a recipe as JSON", () => {
  it.each(recipeNames)("can be %s itself, written out", (name) => {
    const { precision } = recipeByName(name);
    expect(parse(precision)).toEqual(precision);
  });

  it("takes GEMMs of recipes by name", () => {
    const { dgrad, wgrad } = nvfp4();
    const plain = { element: "plain" };
    expect(parse({ ...backward, fprop: "bf16" })).toEqual({
      fprop: { rotation: "none", left: plain, right: plain },
      dgrad,
      wgrad,
    });
    expect(parse({ ...backward, fprop: { left: "plain", right: int4 } }).fprop.right).toEqual(int4);
  });

  it.each(["quartet", "llm_fp4", "nvfp4"])("made of %s's three GEMMs is that recipe, its estimators too", (name) => {
    const { precision } = recipeByName(name);
    expect(parse({ fprop: name, dgrad: name, wgrad: name })).toEqual(precision);
    const ste = { x: "ste", w: "ste" };
    expect(parse({ fprop: name, dgrad: name, wgrad: name, estimator: ste }).estimator).toEqual(ste);
  });

  const rotation = { size: 16, signs: "fixed" };
  it.each([
    [{ left: int4 }, "fprop.right: is missing"],
    [{ left: { ...int4, block: "16x16" }, right: int4, rotation }, "fprop.left: a rotated tile would differ"],
    [{ left: "plain", right: int4, rotation }, "fprop.left: a rotation cancels only if both operands"],
    [
      { left: { ...int4, rounding: "eden" }, right: int4, rotation },
      "fprop.left: rounding eden .* fresh signs; got fixed",
    ],
    [{ left: { ...int4, rounding: "eden" }, right: int4 }, "fprop.left: rounding eden needs a rotation"],
    [
      { left: { ...int4, rounding: "eden", block: "1x64" }, right: int4, rotation: { size: 32, signs: "fresh" } },
      "a multiple of 64; got 32",
    ],
    [
      {
        left: { ...int4, rounding: "eden", scale: { type: "fp32", powerOfTwo: true } },
        right: int4,
        rotation: { size: 32, signs: "fresh" },
      },
      "rounding eden corrects E4M3 scales; got fp32",
    ],
    [{ left: { ...int4, bloc: "1x16" }, right: int4 }, "fprop.left.bloc: .*did you mean block"],
    [{ left: { ...int4, block: "1x17" }, right: int4 }, 'fprop.left.block: .*1x16.*; got "1x17"'],
    [{ left: { ...int4, block: "tensor" }, right: int4 }, 'fprop.left.scale.type: .*fp32.*delayed.*; got "e4m3"'],
    [{ left: int4, right: { ...int4, source: "fprop" } }, 'the right operand of fprop: source "fprop"'],
    [{ left: int4, right: int4, rotation: { size: 24, signs: "fixed" } }, "fprop.rotation.size: .*16.*128; got 24"],
    [{ left: { ...int4, scale: { ...int4.scale, gain: 3 } }, right: int4 }, "gain must be from 0.5 to 2; got 3"],
    ["nvfp5", 'Did you mean "nvfp4"'],
    [undefined, "fprop: must be the name of a recipe or an object"],
  ])("is refused: %j", (fprop, message) => {
    expect(() => parse({ ...backward, fprop })).toThrow(new RegExp(message, "u"));
  });

  it("is refused where it is no recipe at all", () => {
    expect(() => recipeByName("{fprop")).toThrow(/the recipe is no JSON/);
    expect(() => parse({ ...backward, fprop: "bf16", forward: "bf16" })).toThrow(/forward: unknown key/);
  });
});

// The compiler refuses each of these; that is part of `npm run check`.
const { fprop, dgrad, wgrad } = nvfp4();
const tile = { ...int4, block: "16x16" } as const;
const turned = { size: 16, signs: "fixed" } as const;
const eden = { ...int4, rounding: "eden" } as const;
const history = { type: "delayed", historyLength: 16, algorithm: "max", margin: 0 } as const;
const delayed = { element: "e4m3", block: "tensor", rounding: "nearest", scale: history } as const;
const impossible: readonly LinearPrecision[] = [
  // @ts-expect-error: a rotated tile
  { dgrad, wgrad, fprop: { rotation: turned, left: tile, right: int4 } },
  // @ts-expect-error: one operand rotated alone
  { dgrad, wgrad, fprop: { rotation: turned, left: { element: "plain" }, right: int4 } },
  // @ts-expect-error: EDEN without a rotation
  { dgrad, wgrad, fprop: { rotation: "none", left: { ...int4, rounding: "eden" }, right: int4 } },
  // @ts-expect-error: EDEN under signs that never change
  { dgrad, wgrad, fprop: { rotation: turned, left: { ...eden, scale: { ...eden.scale, bound: 256 } }, right: int4 } },
  // @ts-expect-error: EDEN without room for its corrections
  { dgrad, wgrad, fprop: { rotation: { size: 32, signs: "fresh" }, left: eden, right: int4 } },
  // @ts-expect-error: a delayed scale of a rotated tensor
  { dgrad, wgrad, fprop: { rotation: turned, left: delayed, right: int4 } },
  // @ts-expect-error: a tensor has no E4M3 scale of its own
  { dgrad, wgrad, fprop: { rotation: "none", left: { ...int4, block: "tensor" }, right: int4 } },
  // @ts-expect-error: tiles have one float32 scale for the tensor
  { dgrad, wgrad, fprop: { rotation: "none", left: { ...tile, scale: { type: "e4m3", outer: "row" } }, right: int4 } },
  // @ts-expect-error: no wgrad
  { fprop, dgrad },
];

describe("what does not type-check", () => {
  it.each(impossible.map((recipe, i) => ({ i, recipe })))("is refused as JSON too: $i", ({ recipe }) => {
    expect(() => parse(recipe)).toThrow(/^the recipe: /);
  });
});
