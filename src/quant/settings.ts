/** Settings of the precision by their names on the command line. */
import { z } from "zod";
import { policyNames, recipeNames } from "./recipeNames.ts";

export const precisionSettings = z.object({
  dtype: z
    .enum(["bfloat16", "float16", "float32"])
    .default("bfloat16")
    .describe("Activations and matrix products; master weights, gradients and moments are FP32 in any case"),
  quantization: z
    .enum(recipeNames)
    .default("none")
    .describe("Precision recipe of the linear layers; none computes them in dtype"),
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
});
