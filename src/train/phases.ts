/** The phases of a run: stretches of steps that compute in one precision. Most runs have one. */
import type { PrecisionPlan } from "../quant/index.ts";
import type { RunPlan } from "./plan.ts";

/** Steps from `firstStep` to the next phase's. */
export interface PrecisionPhase {
  readonly firstStep: number;
  readonly precision: PrecisionPlan;
}

/** In the order of their steps; the first begins with step 1. */
export function phasesOf({ precision, laterPrecision }: RunPlan): PrecisionPhase[] {
  return [{ firstStep: 1, precision }, ...(laterPrecision ? [laterPrecision] : [])];
}

/** The phase of a step; the first one's before the first step. */
export function phaseAt(plan: RunPlan, step: number): PrecisionPhase {
  const phases = phasesOf(plan);
  return phases.findLast(({ firstStep }) => firstStep <= step) ?? phases[0]!;
}

/** The plan with the precision that a step has. */
export function planAt(plan: RunPlan, step: number): RunPlan {
  return { ...plan, precision: phaseAt(plan, step).precision };
}

/** What a precision is called in a run: without a recipe, by the dtype. */
export function nameOfPrecision({ name }: PrecisionPlan, { model }: RunPlan): string {
  return name.replace(/^none\b/, model.dtype === "bfloat16" ? "bf16" : model.dtype);
}
