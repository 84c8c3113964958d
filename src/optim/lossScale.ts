/**
 * Dynamic loss scaling (Micikevicius et al. 2018): float16 has no exponents for small gradients, so the loss is multiplied
 * by a scale before it goes backward and the gradients are divided by it after. Where they overflow the step is skipped
 * and the scale falls; after a number of good steps it rises.
 */
import { UserError } from "../base/errors.ts";
import { full, type Tensor, where } from "../core/index.ts";
import { selectTree } from "./selectTree.ts";

/** How float16's loss scale grows and falls. */
export interface LossScaleSettings {
  readonly initial: number;
  /** It does not fall below this. */
  readonly minimum: number;
  readonly growthFactor: number;
  readonly backoffFactor: number;
  /** Good steps in a row after which it grows. */
  readonly growthInterval: number;
}

/** The loss scale and how long it has held, part of the training state. */
export interface LossScaleState<Leaf = Tensor> {
  /** float32 scalar */
  readonly scale: Leaf;
  /** int32 scalar: good steps since the scale last changed. */
  readonly goodSteps: Leaf;
}

export interface StepHealth {
  /** Bool scalar. */
  readonly lossIsFinite: Tensor;
  /** Bool scalar: loss and gradients. */
  readonly allFinite: Tensor;
}

/**
 * The state after a step. A loss that is not finite has nothing to do with the scale, which then stays.
 * @throws UserError on settings outside their ranges
 */
export function nextLossScale(
  settings: LossScaleSettings,
  state: LossScaleState,
  { lossIsFinite, allFinite }: StepHealth,
): LossScaleState {
  checkSettings(settings);
  const { minimum, growthFactor, backoffFactor, growthInterval } = settings;
  const none = full([], 0, "int32");
  const goodSteps = state.goodSteps.add(1);
  const grown = state.scale.mul(growthFactor);
  // Growth stops where float32 does.
  const grows = goodSteps.ge(growthInterval).and(grown.isFinite());
  const better = { scale: where(grows, grown, state.scale), goodSteps: where(grows, none, goodSteps) };
  const worse = { scale: state.scale.mul(backoffFactor).max(minimum), goodSteps: none };
  return selectTree(allFinite, better, selectTree(lossIsFinite, worse, state));
}

function checkSettings({ initial, minimum, growthFactor, backoffFactor, growthInterval }: LossScaleSettings): void {
  const check = (name: string, value: number, ok: boolean, rule: string) => {
    if (!ok) throw new UserError("E_LOSS_SCALE", `loss scaling: ${name} must be ${rule}; got ${value}`);
  };
  check("the minimum", minimum, minimum > 0 && Number.isFinite(minimum), "a positive number");
  check("the first scale", initial, initial >= minimum && initial < 2 ** 127, `at least the minimum, ${minimum}`);
  check("the growth factor", growthFactor, growthFactor > 1 && Number.isFinite(growthFactor), "above 1");
  check("the backoff factor", backoffFactor, backoffFactor > 0 && backoffFactor < 1, "between 0 and 1");
  check("the growth interval", growthInterval, Number.isInteger(growthInterval) && growthInterval > 0, "1 or more");
}
