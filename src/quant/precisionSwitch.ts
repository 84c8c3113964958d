/** A change of precision in the middle of a run: the quantized GEMMs, or the forward ones alone, as another recipe has them. */
import { composed, type PrecisionPlan } from "./policy.ts";
import { type GemmName, isQuantizedGemm } from "./precision.ts";
import type { Recipe } from "./recipeNames.ts";

export const switchedGemms = ["fprop", "all"] as const;

export interface PrecisionSwitch {
  readonly recipe: Recipe;
  /** Which of the quantized GEMMs change. */
  readonly gemms: (typeof switchedGemms)[number];
}

/** The plan after the switch. What it left in BF16 stays so. */
export function switchPrecision(plan: PrecisionPlan, { recipe, gemms }: PrecisionSwitch): PrecisionPlan {
  const isSwitched = (module: string, layer: number, gemm: GemmName) =>
    (gemms === "all" || gemm === gemms) && isQuantizedGemm(plan.precision(module, layer)[gemm]);
  const name = gemms === "all" ? recipe.name : `${plan.name} with ${gemms} in ${recipe.name}`;
  return {
    ...plan,
    name,
    precision: composed(
      (module, layer, gemm) => (isSwitched(module, layer, gemm) ? recipe.precision : plan.precision(module, layer)),
      plan.packedResiduals,
    ),
    reason: (module, layer, gemm) =>
      isSwitched(module, layer, gemm) ? "precision_switch_step" : plan.reason(module, layer, gemm),
  };
}
