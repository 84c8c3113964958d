/** The loop: a step, and what is due after it. */
import { HalfbyteError } from "../base/errors.ts";
import type { CheckpointPlace, Progress } from "../checkpoint/index.ts";
import { type HostArray, hostArray, type Tensor } from "../core/index.ts";
import type { Batch, Dataset } from "../data/index.ts";
import { type Compiled, disposeTree, type OnDevice } from "../jit/index.ts";
import { type RunEvent, type StepRecord, stepRecord } from "../metrics/index.ts";
import { learningRate } from "../optim/index.ts";
import type { DeviceArray } from "../pjrt/index.ts";
import type { Evaluation, Evaluator } from "./evaluate.ts";
import type { RunPlan } from "./plan.ts";
import { explainSkip } from "./skippedStep.ts";
import type { TrainState } from "./state.ts";
import type { StepMetrics, TrainStep } from "./step.ts";
import type { StopRequest } from "./stop.ts";

export type Done = Pick<Progress, "step" | "skippedInARow" | "skippedSteps">;

/** The state lies here from step to step, so that whoever frees it finds the newest. */
export interface StateHolder {
  state: TrainState<DeviceArray>;
}

export interface LoopInput {
  readonly plan: RunPlan;
  readonly data: Dataset;
  readonly step: Compiled<Parameters<TrainStep>, ReturnType<TrainStep>>;
  readonly evaluator: Evaluator;
  readonly holder: StateHolder;
  readonly done: Done;
  readonly flopsPerToken: number;
  readonly stop: StopRequest;
  readonly emit: (event: RunEvent) => void;
  /** Absent: nothing is saved. */
  readonly save?: (state: TrainState<DeviceArray>, done: Done) => Promise<CheckpointPlace>;
}

export interface LoopResult {
  readonly done: Done;
  /** The last step's checkpoint, where one was saved. */
  readonly saved: CheckpointPlace | undefined;
  /** The last step's validation. */
  readonly evaluation: Evaluation | undefined;
}

/**
 * Runs steps up to the plan's last, or until asked to stop. Two steps are in flight, so that the device never waits: the
 * numbers of a step are read, and the next batch is made, while the step after it runs.
 * @throws HalfbyteError (E_NOT_FINITE) where too many steps in a row were skipped
 */
export async function trainLoop(input: LoopInput): Promise<LoopResult> {
  const { plan, stop, holder } = input;
  let { done } = input;
  let saved: CheckpointPlace | undefined;
  let evaluation: Evaluation | undefined;
  let inFlight: StepInFlight | undefined;
  const clock = stepClock();

  while (done.step + (inFlight ? 1 : 0) < plan.steps && stop.signal === undefined) {
    const number = done.step + (inFlight ? 1 : 0) + 1;
    clock.start();
    const scalars = stepScalars(plan, number);
    const batch = input.data.train.batchAt(number);
    const result = await input.step(holder.state, { tokens: batch.tokens, targets: batch.targets }, scalars);
    holder.state = result.state;
    stop.holdOff();
    if (inFlight) done = await settle(inFlight, done, clock.lap, input);
    inFlight = { number, batch, metrics: result.metrics };

    if (!isDue(number, plan)) continue;
    done = await settle(inFlight, done, clock.lap, input);
    inFlight = undefined;
    // Saved first: whatever happens to the validation, the step is not lost.
    saved = isSaveDue(number, plan) ? await input.save?.(holder.state, done) : undefined;
    evaluation = isEvalDue(number, plan) ? await validate(number, input) : undefined;
    clock.stop();
  }

  if (inFlight) {
    done = await settle(inFlight, done, clock.lap, input);
    saved = undefined;
  }
  if (stop.signal !== undefined && saved === undefined && done.step > input.done.step) {
    saved = await input.save?.(holder.state, done);
  }
  // A run that had been done already is only validated again.
  if (stop.signal === undefined && evaluation === undefined) evaluation = await validate(done.step, input);
  return { done, saved, evaluation };
}

interface StepInFlight {
  readonly number: number;
  readonly batch: Batch;
  readonly metrics: OnDevice<StepMetrics>;
}

/** Waits for a step's numbers and tells them. */
async function settle(
  { number, batch, metrics }: StepInFlight,
  before: Done,
  lap: () => number,
  { plan, holder, flopsPerToken, emit }: LoopInput,
): Promise<Done> {
  const [loss, gradNorm, finite] = await Promise.all([metrics.loss, metrics.gradNorm, metrics.finite].map(scalarOf));
  const record: StepRecord = stepRecord(
    {
      step: number,
      seconds: lap(),
      validTokens: batch.validTokens,
      loss: loss!,
      gradNorm: gradNorm!,
      learningRate: learningRate(plan.schedule, number),
    },
    flopsPerToken,
  );
  emit({ type: "step", ...record });
  if (finite) {
    disposeTree(metrics);
    return { ...before, step: number, skippedInARow: 0 };
  }
  const norms = (await metrics.tensorNorms.toHost()).data as Float32Array;
  disposeTree(metrics);
  const skippedInARow = before.skippedInARow + 1;
  const { tensors, message } = await explainSkip(number, loss!, norms, holder.state.params);
  emit({ type: "skip", step: number, skippedInARow, tensors, message });
  if (skippedInARow >= plan.maxSkippedSteps) {
    throw new HalfbyteError("E_NOT_FINITE", `${skippedInARow} steps in a row were not finite; ${message}`);
  }
  return { step: number, skippedInARow, skippedSteps: before.skippedSteps + 1 };
}

async function validate(
  step: number,
  { plan, data, holder, evaluator, emit }: LoopInput,
): Promise<Evaluation | undefined> {
  if (data.validation === undefined) return undefined;
  const evaluation = await evaluator.evaluate(holder.state.params, data.validation, plan.evalSteps);
  emit({ type: "eval", step, ...evaluation });
  return evaluation;
}

function isSaveDue(step: number, { checkpoints, steps }: RunPlan): boolean {
  return checkpoints !== undefined && (step === steps || step % checkpoints.period === 0);
}

function isEvalDue(step: number, { evalInterval, steps }: RunPlan): boolean {
  return step === steps || (evalInterval !== undefined && step % evalInterval === 0);
}

const isDue = (step: number, plan: RunPlan): boolean => isSaveDue(step, plan) || isEvalDue(step, plan);

/** Learning rate and number of a step, as arguments of the compiled one. */
export function stepScalars(plan: RunPlan, step: number): { learningRate: HostArray; step: HostArray } {
  return {
    learningRate: hostArray([], "float32", Float32Array.of(learningRate(plan.schedule, step))),
    step: hostArray([], "uint32", Uint32Array.of(step)),
  };
}

async function scalarOf(array: OnDevice<Tensor>): Promise<number> {
  return Number((await array.toHost()).data[0]);
}

/** Seconds between the ends of steps; of the first after a pause, from its beginning. */
function stepClock() {
  let last: number | undefined;
  return {
    start(): void {
      last ??= performance.now();
    },
    lap(): number {
      const now = performance.now();
      const seconds = (now - (last ?? now)) / 1000;
      last = now;
      return seconds;
    },
    stop(): void {
      last = undefined;
    },
  };
}
