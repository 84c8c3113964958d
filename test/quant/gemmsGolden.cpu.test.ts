/** The three GEMMs of a layer in every recipe that golden data hold, in both evaluators: to 1e-5 of the largest value. */
import { describe, expect, it } from "vitest";
import type { HostArray, Tensor } from "../../src/core/index.ts";
import {
  fp8BlockScaling,
  fp8CurrentScaling,
  type LinearPrecision,
  linear,
  mxfp4,
  mxfp8,
  nvfp4,
} from "../../src/quant/index.ts";
import { type Golden, golden } from "../golden.ts";
import { compiled, interpreted, numbers, relativeToMax } from "./bothWays.ts";
import { asFloat32, threeGemms } from "./threeGemms.ts";

const results = ["y", "dx", "dw"] as const;

interface Wanted {
  readonly data: Golden;
  /** The results' names begin with it. */
  readonly recipe: string;
  readonly precision: LinearPrecision;
  /** After "y", "dx", "dw": only the first rows are stored. */
  readonly suffix?: string;
  /** dW is compared with bfloat16 inputs, since rotations are rounded to the input's dtype. */
  readonly rotated?: boolean;
}

/** With float32 inputs of bfloat16 values no result is rounded. */
async function expectGemms({ data, recipe, precision, suffix = "", rotated = false }: Wanted): Promise<void> {
  const stored = ["x", "w", "dy"].map((name) => data.get(name));
  const f = threeGemms(precision);
  const check = (found: readonly HostArray[], names: readonly (typeof results)[number][]) => {
    for (const name of names) {
      const wanted = data.values(`${recipe}/${name}${suffix}`);
      const values = numbers(found[results.indexOf(name)]!).subarray(0, wanted.length);
      expect({ name, off: relativeToMax(values, wanted) < 1e-5 }).toEqual({ name, off: true });
    }
  };
  const wide = stored.map(asFloat32);
  const unrotated = rotated ? (["y", "dx"] as const) : results;
  check(interpreted(f, ...wide), unrotated);
  check(await compiled(f, ...wide), unrotated);
  if (!rotated) return;
  const [x, w, dy] = stored as [HostArray, HostArray, HostArray];
  check(interpreted(f, x, asFloat32(w), dy), ["dw"]);
  check(await compiled(f, x, asFloat32(w), dy), ["dw"]);
}

const plain = await golden("05_qgemm/gemm_M64_K128_N96");
const mx = await golden("14_mx_options/gemm");
const blocks = await golden("12_fp8_block/gemm");
const options = await golden("11_nvfp4_options/gemm");
const deterministic = { stochasticRounding: false, weightScaling: "1d", rht: false } as const;

describe("the three GEMMs meet golden data", () => {
  it.each<[string, Wanted]>([
    ["FP8, a scale a tensor", { data: plain, recipe: "fp8_current", precision: fp8CurrentScaling() }],
    ["MXFP8", { data: plain, recipe: "mxfp8_rceil", precision: mxfp8() }],
    ["MXFP4 in rows alone", { data: plain, recipe: "mxfp4_rceil", precision: mxfp4(deterministic) }],
    [
      "MXFP4 by OCP's rule",
      { data: mx, recipe: "mxfp4_floor", precision: mxfp4({ ...deterministic, round: "floor" }) },
    ],
    ["MXFP8, hybrid", { data: mx, recipe: "mxfp8_hybrid_rceil", precision: mxfp8({ hybrid: true }) }],
    [
      "MXFP4 with tiles and rotation",
      { data: mx, recipe: "mxfp4_rceil_2d_rht", precision: mxfp4({ stochasticRounding: false }), rotated: true },
    ],
  ])("%s", async (_, wanted) => expectGemms(wanted));

  it.each([
    ["power-of-two scales", "pow2", 32, true],
    ["float32 scales, multiplied after each part's sum", "fp32", 16, false],
  ] as const)("FP8 in blocks of 128, %s", async (_, recipe, rows, powerOfTwo) => {
    const precision = fp8BlockScaling({ powerOfTwo });
    await expectGemms({ data: blocks, recipe, precision, suffix: `.rows${rows}` });
  });

  it.each([
    ["46_mae_256", nvfp4({ fourOverSix: "all" })],
    ["46_mse_448_weights_only", nvfp4({ fourOverSix: "weights", fourOverSixError: "mse", bound: 448 })],
    ["rows_x", nvfp4({ rowScaledActivation: true, weightScaling: "1d" })],
    ["rows_x_46_mae_256_w_46_256", nvfp4({ rowScaledActivation: true, weightScaling: "1d", fourOverSix: "all" })],
  ] as const)("NVFP4 forward, %s", async (recipe, precision) => {
    const f = (x: Tensor, w: Tensor) => linear(x, w, { module: "mlp.up", layer: 0, precision });
    const inputs = [asFloat32(options.get("x")), asFloat32(options.get("w"))];
    for (const [y] of [interpreted(f, ...inputs), await compiled(f, ...inputs)]) {
      expect(relativeToMax(numbers(y!), options.values(`${recipe}/y`))).toBeLessThan(1e-5);
    }
  });
});
