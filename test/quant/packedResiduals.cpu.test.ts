/** Residuals kept packed: no bit of a result changes, whatever the recipe, and what is kept is smaller. */
import { describe, expect, it } from "vitest";
import { vjp } from "../../src/autodiff/index.ts";
import type { HostArray, Tensor } from "../../src/core/index.ts";
import {
  bf16,
  fp8BlockScaling,
  fp8CurrentScaling,
  type LinearPrecision,
  linear,
  mxfp4,
  mxfp8,
  nvfp4,
  type RandomKey,
  recipeByName,
  recipeNames,
} from "../../src/quant/index.ts";
import { drawsRandom } from "../../src/quant/precision.ts";
import { bits, compiled, floats, interpreted, normals } from "./bothWays.ts";

const random: RandomKey = { seed: 3, step: 5, microBatch: 0 };

/** y, dx, dw of two layers that read one input. */
function twoLayers(precision: LinearPrecision) {
  return (x: Tensor, w: Tensor, v: Tensor, dy: Tensor): Tensor[] => {
    const f = (x: Tensor, w: Tensor, v: Tensor) =>
      linear(x, w, { module: "mlp.gate", layer: 0, precision, random }).add(
        linear(x, v, { module: "mlp.up", layer: 0, precision, random }),
      );
    const { out, pullback } = vjp(f, x, w, v);
    return [out, ...pullback(dy)];
  };
}

const recipes: Record<string, LinearPrecision> = {
  bf16,
  nvfp4: nvfp4(),
  "nvfp4 without tiles and rotation": nvfp4({ rht: false, weightScaling: "1d" }),
  mxfp4: mxfp4(),
  mxfp8: mxfp8(),
  "fp8 current": fp8CurrentScaling(),
  "fp8 in blocks": fp8BlockScaling(),
};

/** [x, w, v, dy] */
function argsOf(tokens: number): HostArray[] {
  const normal = normals(7);
  return [
    floats([tokens, 64], "bfloat16", () => normal() * 3),
    floats([48, 64], "float32", () => normal() * 0.1),
    floats([48, 64], "float32", (i) => (i < 200 ? 0 : normal() * 0.1)),
    floats([tokens, 48], "bfloat16", () => normal() * 1e-3),
  ];
}

describe.each(Object.entries(recipes))("%s with packed residuals", (_, precision) => {
  const [plain, packed] = [twoLayers(precision), twoLayers({ ...precision, residuals: "packed" })];

  // 37 tokens are no whole groups, pairs or blocks.
  it.each([64, 37])("gives the same bits for %i tokens", (tokens) => {
    const args = argsOf(tokens);
    const wanted = interpreted(plain, ...args);
    expect(wanted).toHaveLength(4);
    for (const [i, found] of interpreted(packed, ...args).entries()) expect(bits(found)).toEqual(bits(wanted[i]!));
  });

  it("lets a NaN and an infinity through to the gradient of W", () => {
    for (const bad of [Number.NaN, Number.POSITIVE_INFINITY]) {
      const x = floats([64, 64], "bfloat16", (i) => (i === 70 ? bad : 1));
      const w = floats([32, 64], "float32", () => 0.5);
      const dy = floats([64, 32], "bfloat16", () => 1);
      const dw = interpreted(twoLayers({ ...precision, residuals: "packed" }), x, w, w, dy)[2] as HostArray;
      expect((dw.data as Float32Array).some((value) => !Number.isFinite(value))).toBe(true);
    }
  });
});

describe("packed residuals", () => {
  it("change no forward pass without random numbers, as validation is, whatever the recipe", () => {
    const drawing = recipeNames.filter((name) => drawsRandom(recipeByName(name).precision));
    expect(drawing).toEqual(expect.arrayContaining(["nvfp4", "quartet2", "tetrajet2", "mxfp4_rht_sr"]));
    const [x, w] = argsOf(32);
    for (const name of drawing) {
      const { precision } = recipeByName(name);
      const forward = (precision: LinearPrecision) => (x: Tensor, w: Tensor) =>
        linear(x, w, { module: "mlp.gate", layer: 0, precision });
      const [wanted] = interpreted(forward(precision), x, w);
      const [found] = interpreted(forward({ ...precision, residuals: "packed" }), x, w);
      expect(bits(found!), name).toEqual(bits(wanted!));
    }
  });

  it.each(["nvfp4", "mxfp4", "fp8 in blocks"])("of %s give the same bits compiled", async (name) => {
    const [args, precision] = [argsOf(37), recipes[name]!];
    const wanted = await compiled(twoLayers(precision), ...args);
    const found = await compiled(twoLayers({ ...precision, residuals: "packed" }), ...args);
    for (const [i, array] of found.entries()) expect(bits(array)).toEqual(bits(wanted[i]!));
  });
});
