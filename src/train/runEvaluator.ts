/** Validation of a run: in the precisions that its plan asks for, of which "same" is that of the step it follows. */
import type { ValidationBatches } from "../data/index.ts";
import type { Client, DeviceArray } from "../pjrt/index.ts";
import type { PrecisionPlan } from "../quant/index.ts";
import { forwardKey, nameOfEvaluation } from "./evalPrecision.ts";
import { type EvaluateOptions, type Evaluation, type Evaluator, makeEvaluator } from "./evaluate.ts";
import type { ModelState } from "./modelState.ts";
import { phaseAt } from "./phases.ts";
import type { RunPlan } from "./plan.ts";
import { forwardOptions } from "./step.ts";

/** A validation by the name of the precision it was computed in. */
export interface NamedEvaluation extends Evaluation {
  readonly precision: string;
}

/** The validation after a step, and those in the other precisions that were asked for. */
export interface RunEvaluation extends NamedEvaluation {
  readonly others?: readonly NamedEvaluation[];
  /** Set: its precision is that of training after the step. */
  readonly asTrained?: true;
}

export interface RunEvaluator {
  evaluate(
    step: number,
    state: ModelState<DeviceArray>,
    batches: ValidationBatches,
    options?: EvaluateOptions,
  ): Promise<RunEvaluation>;
  dispose(): void;
}

/** Compiles each precision at its first use; forward passes that are alike share a program. */
export function runEvaluator(plan: RunPlan, client: Client): RunEvaluator {
  const { evalPrecisions = ["same"] } = plan;
  const evaluators = new Map<string, Evaluator>();
  const evaluatorOf = (precision: PrecisionPlan) => {
    const key = forwardKey(precision);
    const evaluator = evaluators.get(key) ?? makeEvaluator(forwardOptions(plan, precision), client);
    evaluators.set(key, evaluator);
    return evaluator;
  };
  return {
    async evaluate(step, state, batches, options) {
      const precisions = evalPrecisions.map((asked) => (asked === "same" ? phaseAt(plan, step).precision : asked));
      const results = new Map<string, Evaluation>();
      const named: NamedEvaluation[] = [];
      for (const precision of precisions) {
        const key = forwardKey(precision);
        const result = results.get(key) ?? (await evaluatorOf(precision).evaluate(state, batches, options));
        results.set(key, result);
        named.push({ ...result, precision: nameOfEvaluation(precision, plan) });
      }
      const [first, ...others] = named;
      const asTrained = evalPrecisions[0] === "same";
      return { ...first!, ...(asTrained && { asTrained }), ...(others.length > 0 && { others }) };
    },
    dispose() {
      for (const evaluator of evaluators.values()) evaluator.dispose();
    },
  };
}
