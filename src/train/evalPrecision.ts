/** Precisions of validation: which compute alike, and what they are called. */
import { llamaModules } from "../models/llama.ts";
import type { PrecisionPlan } from "../quant/index.ts";
import { nameOfPrecision, phasesOf } from "./phases.ts";
import type { RunPlan } from "./plan.ts";

/** What decides a forward pass: the fprop of every linear layer. */
export function forwardKey({ precision, numLayers }: PrecisionPlan): string {
  const layers = Array.from({ length: numLayers }, (_, layer) => llamaModules.map((m) => precision(m, layer).fprop));
  return JSON.stringify(layers);
}

/** What a precision of validation is called: told apart from one of training's that has its name and computes otherwise. */
export function nameOfEvaluation(precision: PrecisionPlan, plan: RunPlan): string {
  const name = nameOfPrecision(precision, plan);
  const phases = phasesOf(plan).map((phase) => phase.precision);
  if (phases.includes(precision)) return name;
  const differs = phases.some(
    (own) => nameOfPrecision(own, plan) === name && forwardKey(own) !== forwardKey(precision),
  );
  return differs ? `${name} (eval_precision)` : name;
}
