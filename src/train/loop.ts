/** The loop: a step, and what is due after it. */
import { HalfbyteError } from "../base/errors.ts";
import type { CheckpointPlace, Progress } from "../checkpoint/index.ts";
import { type HostArray, hostArray, type Tensor } from "../core/index.ts";
import type { Batch, Dataset } from "../data/index.ts";
import { disposeTree, type OnDevice } from "../jit/index.ts";
import { type RunEvent, stepRecord } from "../metrics/index.ts";
import { learningRate } from "../optim/index.ts";
import type { DeviceArray } from "../pjrt/index.ts";
import { modelState } from "./modelState.ts";
import type { PhaseStep } from "./phaseStep.ts";
import { nameOfPrecision, phaseAt, planAt } from "./phases.ts";
import type { RunPlan } from "./plan.ts";
import { precisionLines } from "./precisionSummary.ts";
import type { RunEvaluation, RunEvaluator } from "./runEvaluator.ts";
import type { Saver } from "./saver.ts";
import { explainOverflow, explainSkip } from "./skippedStep.ts";
import { tellSources } from "./sourceLosses.ts";
import type { TrainState } from "./state.ts";
import type { StepMetrics } from "./step.ts";
import { stepClock } from "./stepClock.ts";
import type { StepTrace } from "./stepTrace.ts";
import type { StopRequest } from "./stop.ts";

export type Done = Pick<Progress, "step" | "skippedInARow" | "skippedSteps" | "overflowSteps"> & {
  /** Steps done in each precision, by its name. */
  readonly stepsByPrecision: Readonly<Record<string, number>>;
};

/** The state lies here from step to step, so that whoever frees it finds the newest. */
export interface StateHolder {
  state: TrainState<DeviceArray>;
}

export interface LoopInput {
  readonly plan: RunPlan;
  readonly data: Dataset;
  /** The phase of the first step was entered. */
  readonly step: Pick<PhaseStep, "isOther" | "enter" | "compiled" | "numerics">;
  readonly evaluator: RunEvaluator;
  readonly holder: StateHolder;
  readonly done: Done;
  readonly flopsPerToken: number;
  readonly stop: StopRequest;
  readonly emit: (event: RunEvent) => void;
  readonly trace: StepTrace;
  /** The validation of the step that is done was due, and did not come: it comes first. */
  readonly owesValidation?: boolean;
  /** Absent: nothing is saved. Whoever made it waits for its last save. */
  readonly saver?: Saver;
}

export interface LoopResult {
  readonly done: Done;
  /** The last step's checkpoint, where one was saved. */
  readonly saved: CheckpointPlace | undefined;
  /** The last step's validation. */
  readonly evaluation: RunEvaluation | undefined;
}

/**
 * Runs steps up to the plan's last, or until asked to stop. Two steps are in flight, so that the device never waits: the
 * numbers of a step are read, and the next batch is made, while the step after it runs.
 * @throws HalfbyteError (E_NOT_FINITE) where too many steps in a row were skipped
 */
export async function trainLoop(input: LoopInput): Promise<LoopResult> {
  const { plan, stop, holder, saver, trace } = input;
  let { done } = input;
  let saved: CheckpointPlace | undefined;
  let evaluation: RunEvaluation | undefined;
  let running: RunningStep | undefined;
  const clock = stepClock();
  const finishRunning = async () => {
    if (running) done = counted(await finishStep(running, done, clock.lap, input), plan);
    running = undefined;
  };

  if (input.owesValidation) evaluation = await validate(done.step, input);
  for (let step = done.step + 1; step <= plan.steps && stop.signal === undefined; step++) {
    if (input.step.isOther(step)) {
      await finishRunning();
      await trace
        .during("compile", step, () => enterPhase(step, input))
        .catch(async (error: unknown) => {
          // What was done so far is not lost to a program that can't be made.
          if (saved?.step !== done.step) await saver?.save(holder.state, done);
          throw error;
        });
      clock.pause();
      if (stop.signal !== undefined) break;
    }
    if (input.step.numerics?.isDue(step)) {
      await finishRunning();
      await trace.during("numerics", step, () => measureNumerics(step, input));
      clock.pause();
    }
    clock.start();
    const batch = await trace.during("data", step, () => input.data.train.batchAt(step));
    if (batch.validTokens > 0) {
      const launched = await launchStep(step, batch, running, input);
      stop.holdOff();
      await finishRunning();
      running = launched;
    } else {
      await finishRunning();
      done = counted(skipEmpty(step, done, input), plan);
      clock.pause();
    }
    saver?.afterStep(holder.state, done);

    // Saved first: whatever happens to the validation, the step is not lost.
    if (saver && isSaveDue(step, plan)) {
      await finishRunning();
      const save = step === plan.steps ? saver.save : saver.saveCopy;
      saved = await trace.during("save", step, () => save(holder.state, done));
      clock.pause();
    }
    if (isEvalDue(step, plan)) {
      await finishRunning();
      evaluation = await trace.during("evaluate", step, () => validate(step, input));
      clock.pause();
    }
  }
  await finishRunning();

  const stopped = stop.signal !== undefined;
  if (stopped && done.step > input.done.step && saved?.step !== done.step)
    saved = await saver?.save(holder.state, done);
  // A run whose last step was done before is validated all the same.
  if (!stopped && done.step === input.done.step) evaluation ??= await validate(done.step, input);
  return { done, saved, evaluation };
}

async function enterPhase(step: number, { plan, step: phases, emit }: LoopInput): Promise<void> {
  const now = planAt(plan, step);
  emit({ type: "precision", step, name: nameOfPrecision(now.precision, plan), precision: precisionLines(now) });
  await phases.enter(step);
}

/** With the last step counted to the precision it was done in. */
function counted(done: Done, plan: RunPlan): Done {
  const name = nameOfPrecision(phaseAt(plan, done.step).precision, plan);
  const { [name]: before = 0, ...others } = done.stepsByPrecision;
  return { ...done, stepsByPrecision: { ...others, [name]: before + 1 } };
}

interface RunningStep {
  readonly step: number;
  readonly batch: Batch;
  readonly metrics: OnDevice<StepMetrics>;
  /** The loss, and when it and all before it were there on the clock of `performance.now`: the step's end. */
  readonly result: Promise<{ readonly loss: number; readonly end: number }>;
}

async function launchStep(
  step: number,
  batch: Batch,
  before: RunningStep | undefined,
  { plan, holder, trace, step: { compiled } }: LoopInput,
): Promise<RunningStep> {
  const { state, metrics } = await trace.during("dispatch", step, () =>
    compiled(holder.state, stepBatch(batch), stepScalars(plan, step)),
  );
  holder.state = state;
  // The losses of very short steps can arrive in any order.
  const result = Promise.all([scalarOf(metrics.loss), before?.result]).then(([loss]) => ({
    loss,
    end: performance.now(),
  }));
  // A failure is told where the step is finished.
  result.catch(() => {});
  return { step, batch, metrics, result };
}

/** A step whose batch has nothing to predict, as of prompts that fill their sequences, changes nothing. */
function skipEmpty(step: number, before: Done, { emit }: LoopInput): Done {
  const message = `step ${step} is skipped: no token of its batch is to be predicted`;
  emit({ type: "skip", step, reason: "no targets", skippedInARow: before.skippedInARow, tensors: [], message });
  return { ...before, step, skippedSteps: before.skippedSteps + 1 };
}

/** Waits for a step's numbers and tells them. */
async function finishStep(
  { step, batch, metrics, result }: RunningStep,
  before: Done,
  lap: (now: number) => number,
  input: LoopInput,
): Promise<Done> {
  const { plan, holder, flopsPerToken, trace, emit } = input;
  const { loss, end } = await trace.during("wait", step, () => result);
  const gradNorm = await scalarOf(metrics.gradNorm);
  const finite = await scalarOf(metrics.finite);
  const lossScale = metrics.lossScale && (await scalarOf(metrics.lossScale));
  const scaled = lossScale === undefined ? {} : { lossScale };
  const seconds = lap(end);
  trace.onDevice(step, end - 1000 * seconds, end);
  const sources = await tellSources(batch, metrics, input.data.train.sources);
  const measured = { step, seconds, validTokens: batch.validTokens, loss, gradNorm, ...scaled };
  const told = { ...measured, learningRate: learningRate(plan.schedule, step), ...(sources && { sources }) };
  const record = stepRecord(told, flopsPerToken);
  emit({ type: "step", ...record });
  const norms = finite ? undefined : await metrics.tensorNorms.toHost();
  disposeTree(metrics);
  if (norms === undefined) return { ...before, step, skippedInARow: 0 };
  const data = norms.data as Float32Array;
  const { params } = holder.state;
  const { minimum = 0, backoffFactor = 1 } = plan.lossScale ?? {};
  if (lossScale !== undefined && lossScale > minimum && Number.isFinite(loss)) {
    const nextScale = Math.max(minimum, lossScale * backoffFactor);
    const overflow = explainOverflow(step, { lossScale, nextScale }, data, params);
    emit({ type: "skip", step, reason: "overflow", skippedInARow: before.skippedInARow, ...overflow });
    return { ...before, step, overflowSteps: before.overflowSteps + 1 };
  }

  const skippedInARow = before.skippedInARow + 1;
  const { tensors, message } = await explainSkip(step, loss, data, params);
  emit({ type: "skip", step, reason: "not finite", skippedInARow, tensors, message });
  if (skippedInARow >= plan.maxSkippedSteps) {
    throw new HalfbyteError("E_NOT_FINITE", `${skippedInARow} steps in a row were not finite; ${message}`);
  }
  return { ...before, step, skippedInARow, skippedSteps: before.skippedSteps + 1 };
}

/** Thrown out of a validation where the run is to stop. */
class Stopping extends Error {}

/** A stop does not wait for it: the run that goes on makes up for it. */
async function validate(
  step: number,
  { plan, data, holder, evaluator, saver, stop, emit }: LoopInput,
): Promise<RunEvaluation | undefined> {
  if (data.validation === undefined || stop.signal !== undefined) return undefined;
  const options = {
    maxBatches: plan.evalSteps,
    onBatch: () => {
      if (stop.signal !== undefined) throw new Stopping();
    },
  };
  const evaluation = await evaluator
    .evaluate(step, modelState(holder.state), data.validation, options)
    .catch((error: unknown) => {
      if (error instanceof Stopping) return undefined;
      throw error;
    });
  if (evaluation === undefined) return undefined;
  const epochs = data.train.epochsAt?.(step);
  emit({ type: "eval", step, ...evaluation, ...(epochs && { epochs }) });
  saver?.validated({ step, ...evaluation });
  return evaluation;
}

/** Measures what the step is about to compute. The state stays as it is. */
async function measureNumerics(step: number, { data, holder, step: { numerics }, emit }: LoopInput): Promise<void> {
  const record = await numerics!.measure(holder.state, data.train.batchAt(step), step);
  emit({ type: "numerics", ...record });
}

function isSaveDue(step: number, { checkpoints, steps }: RunPlan): boolean {
  return checkpoints !== undefined && (step === steps || step % checkpoints.period === 0);
}

export function isEvalDue(step: number, { evalInterval, steps }: RunPlan): boolean {
  return step === steps || (evalInterval !== undefined && step % evalInterval === 0);
}

/** What a compiled step gets of a batch. */
export function stepBatch({ tokens, targets, mask: weights, segments }: Batch) {
  return { tokens, targets, ...(weights && { weights }), ...(segments && { segments }) };
}

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
