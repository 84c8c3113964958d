/** Settings of the precision by their names on the command line. */
import { z } from "zod";
import { switchedGemms } from "./precisionSwitch.ts";
import { policyNames, recipeNames } from "./recipeNames.ts";
import type { SwitchKey } from "./switchSettings.ts";

const ofRecipe = "default = what quantization says";

/** One of some words, or what the recipe says. */
const choice = <const T extends readonly [string, ...string[]]>(...choices: T) =>
  z.enum(["default", ...choices]).default("default");

/** A number from `least` to `most`, or -1 for what the recipe says. */
const between = (least: number, most: number) =>
  z
    .number()
    .refine((value) => value === -1 || (value >= least && value <= most))
    .default(-1)
    .meta({ rule: `a number from ${least} to ${most}, or -1` });

/** An integer in a range, or -1 for what the recipe says. */
const integer = (least: number, most: number) =>
  z
    .number()
    .int()
    .refine((value) => value === -1 || (value >= least && value <= most))
    .default(-1)
    .meta({ rule: `an integer from ${least} to ${most}, or -1` });

/** The switches of recipes; each belongs to the recipes that have it. */
const switches = {
  rht: choice("true", "false").describe(
    `Random Hadamard transform: rotate both operands of wgrad before they are quantized; ${ofRecipe}`,
  ),
  rotation_size: choice("16", "32", "64", "128").describe(
    `Elements of a group that the rotation of backward GEMMs mixes; ${ofRecipe}`,
  ),
  rotation_signs: choice("fresh", "fixed", "none").describe(
    `Signs of the rotation of backward GEMMs: drawn in each step, NVIDIA's 16, or none; ${ofRecipe}`,
  ),
  stochastic_rounding: choice("true", "false").describe(`Round gradients stochastically; ${ofRecipe}`),
  weight_scaling: choice("2d", "1d").describe(
    `Block scales of weights: 2d = one a tile, so that forward and backward see the same values; 1d = one a row's block; ${ofRecipe}`,
  ),
  scale_gain: between(0.5, 2).describe(
    "NVFP4 divides the elements' range by it: from 17/16 on nothing exceeds 6 and stochastic rounding has no bias, 1 is what hardware does; -1 = what quantization says",
  ),
  scale_bound: between(1, 448).describe(
    "Largest block scale that NVFP4's tensor scale aims at; -1 = what quantization says: 448, or 256 where four_over_six chooses",
  ),
  row_scaled_activation: choice("true", "false").describe(
    `NVFP4 with an FP32 scale for each row of activations, in place of one for the tensor; ${ofRecipe}`,
  ),
  four_over_six: choice("none", "weights", "activations", "all").describe(
    `Operands whose blocks' maxima NVFP4 maps to 6 or to 4, by the smaller error; ${ofRecipe}`,
  ),
  four_over_six_error: choice("mae", "mse").describe(
    `The error by which four_over_six chooses: mean absolute or mean squared; ${ofRecipe}`,
  ),
  mx_scale_rounding: choice("up", "floor").describe(
    `An MX block's power of two: up = of amax / largest element, so that nothing saturates; floor = of amax's exponent, as OCP has it; ${ofRecipe}`,
  ),
  fp8_format: choice("hybrid", "e4m3").describe(
    `FP8 elements: hybrid = gradients in E5M2, the rest in E4M3; e4m3 = all in E4M3; ${ofRecipe}`,
  ),
  power_of_two_scales: choice("true", "false").describe(`FP8's FP32 scales cut to powers of two; ${ofRecipe}`),
  fp8_amax_history_len: integer(1, 65536).describe(
    "Steps whose largest magnitudes FP8's delayed scales remember; -1 = what quantization says",
  ),
  fp8_amax_compute_algo: choice("max", "most_recent").describe(
    `What of that history FP8's delayed scales follow: its maximum, or the last step; ${ofRecipe}`,
  ),
  fp8_margin: integer(0, 126).describe(
    "FP8's delayed scales are divided by 2 to this power, which leaves room for larger values; -1 = what quantization says",
  ),
} satisfies Record<SwitchKey, z.ZodType>;

export const precisionSettings = z.object({
  dtype: z
    .enum(["bfloat16", "float16", "float32"])
    .default("bfloat16")
    .describe("Activations and matrix products; master weights, gradients and moments are FP32 in any case"),
  quantization: z
    .enum(recipeNames)
    .default("none")
    .describe("Precision recipe of the linear layers; none computes them in dtype")
    .meta({ rule: `one of ${recipeNames.join(", ")}; or a recipe of your own, as JSON or in a .json file` }),
  ...switches,
  precision_policy: z
    .enum(["default", ...policyNames])
    .default("default")
    .describe("Which GEMMs are quantized: those of every linear layer, or the MLP's; default = what quantization says"),
  first_layers_bf16: z
    .number()
    .int()
    .min(-1)
    .default(-1)
    .describe("Blocks at the beginning that stay in BF16; -1 = what quantization says: none for most")
    .meta({ rule: "an integer of 0 or more, or -1" }),
  last_layers_bf16: z
    .number()
    .int()
    .min(-1)
    .default(-1)
    .describe("Blocks at the end that stay in BF16; -1 = what quantization says: 15 %, rounded up, or none for te_…")
    .meta({ rule: "an integer of 0 or more, or -1" }),
  precision_overrides: z
    .string()
    .default("")
    .describe(
      "Single GEMMs in another recipe, over all of the above: PATH=RECIPE,… with paths layers.N.MODULE.GEMM, * for any and 0-3 for a range; later rules win",
    )
    .meta({
      rule: "PATH=RECIPE, with commas between rules, such as layers.*.attn.*=bf16,layers.0-1.mlp.down.wgrad=bf16",
    }),
  precision_switch_step: z
    .string()
    .regex(/^(never|decay|\d+)$/)
    .default("never")
    .describe("First step of another precision of quantized GEMMs; decay = where the learning rate begins to fall")
    .meta({ rule: "the number of a step, decay, or never" }),
  precision_switch_gemms: z
    .enum(switchedGemms)
    .default("fprop")
    .describe("Quantized GEMMs that precision_switch_step changes: the forward ones, or all"),
  precision_switch_to: z.enum(recipeNames).default("bf16").describe("Recipe that they compute in from then on"),
  eval_precision: z
    .string()
    .default("same")
    .describe(
      "What validation computes in: same = as training does at that step, or a recipe; several with commas give a loss each",
    )
    .meta({ rule: "same, a recipe, or several of these with commas" }),
  packed_residuals: z
    .boolean()
    .default(false)
    .describe(
      "Keep what the backward pass reads of quantized layers as codes, FP4 two a byte, with their scales: less memory, the same bits",
    ),
});
