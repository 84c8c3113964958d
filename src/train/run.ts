/** A run from beginning to end: state, compiled step, loop, checkpoints, events, sample, summary. */
import { peakMemory } from "../base/peakMemory.ts";
import {
  bestCheckpoint,
  type CheckpointPlace,
  checkpointPath,
  type LoadedCheckpoint,
  lockRun,
  makeRunFolder,
  offerBestCheckpoint,
  type Progress,
  type Retention,
  type RunFolder,
  refuseBestPlace,
  type StartingParameters,
  type StartingState,
  saveCheckpoint,
  settleBest,
  writing,
} from "../checkpoint/index.ts";
import type { Dataset } from "../data/index.ts";
import { disposeTree } from "../jit/index.ts";
import {
  EventLog,
  type EventOf,
  evaluations,
  flopsPerToken,
  type RunEvent,
  type RunSummary,
} from "../metrics/index.ts";
import { llamaDelayedScaling } from "../models/llama.ts";
import { type Client, type DeviceArray, defaultClient } from "../pjrt/index.ts";
import { isEvalDue, type LoopResult, type StateHolder, trainLoop } from "./loop.ts";
import { machinePeak } from "./machinePeak.ts";
import { modelState } from "./modelState.ts";
import { explainedFailure, type StepMemory } from "./outOfMemory.ts";
import { phaseStep } from "./phaseStep.ts";
import { phaseAt, planAt } from "./phases.ts";
import { countParameters, type RunPlan } from "./plan.ts";
import { precisionLines } from "./precisionSummary.ts";
import { putStartingState, putState } from "./putState.ts";
import { type RunEvaluation, runEvaluator } from "./runEvaluator.ts";
import { doneSoFar, otherKernelsNote, provenanceOf } from "./runRecord.ts";
import { dataIdentity, refuseOtherData } from "./sameData.ts";
import { makeSaver, type Saver } from "./saver.ts";
import { adoptedState, resumedState, type TrainState } from "./state.ts";
import { forwardOptions, stepOptions } from "./step.ts";
import { noTrace, stepTrace } from "./stepTrace.ts";
import type { StopRequest, StopSignal } from "./stop.ts";
import { summarise } from "./summary.ts";
import { writeText } from "./textSample.ts";

export interface RunInput {
  /** For people: "bf16". */
  readonly name: string;
  readonly plan: RunPlan;
  readonly data: Dataset;
  readonly folder: RunFolder;
  /** The resolved keys, for the record. */
  readonly keys: Readonly<Record<string, unknown>>;
  /** Where the run goes on, and the steps of checkpoints that were found damaged; absent: from the beginning. */
  readonly resume?: LoadedCheckpoint & { readonly damaged?: readonly number[] };
  /** Weights to begin with; absent: they follow from the seed. A run that goes on has its own. */
  readonly parameters?: StartingParameters;
  /** The state of another run to begin with, its count of steps included. A run that goes on has its own. */
  readonly fullState?: StartingState;
  readonly stop: StopRequest;
  /** Hears every event; all are in the run's events.jsonl too. */
  readonly onEvent: (event: RunEvent, time: Date) => void;
  /** What the text sample at the end begins with. Default: the beginning of a document. */
  readonly samplePrompt?: string;
  readonly client?: Client;
}

export interface RunOutcome {
  readonly step: number;
  /** Set: it ended early, on this signal. */
  readonly stoppedBy: StopSignal | undefined;
  /** The checkpoint it ended with. */
  readonly saved: CheckpointPlace | undefined;
  readonly evaluation: RunEvaluation | undefined;
  readonly summary: RunSummary;
}

/** @throws HalfbyteError where it can't go on (the events say so too), UserError before anything is compiled */
export async function runTraining(input: RunInput): Promise<RunOutcome> {
  const { folder, resume } = input;
  if (resume) refuseOtherData(resume.progress.data, input);
  if (input.plan.checkpoints?.keepBest) refuseBestPlace(folder);
  makeRunFolder(folder);
  const unlock = lockRun(folder);
  const log = writing(folder.events, () => new EventLog(folder.events));
  const begin = performance.now();
  const steps: EventOf<"step">[] = [];
  const run: RunContext = {
    ...input,
    memory: {},
    begun: (resume ?? input.fullState?.state)?.progress,
    client: input.client ?? defaultClient(),
    flopsPerToken: flopsPerToken(input.plan.model, input.plan.sequenceLength),
    steps,
    seconds: () => (performance.now() - begin) / 1000,
    emit: (event) => {
      const time = new Date();
      log.write(event, time);
      if (event.type === "step") steps.push(event);
      input.onEvent(event, time);
    },
  };
  const lastStep = () => steps.at(-1)?.step ?? run.begun?.step ?? 0;
  input.stop.beforeLeaving((signal) => {
    const message = `${signal}: left at once; what was done since the last checkpoint is lost`;
    run.emit({ type: "end", step: lastStep(), reason: "interrupted", seconds: run.seconds(), message });
    log.close();
    unlock();
  });
  try {
    const outcome = await train(run);
    const reason = outcome.stoppedBy === undefined ? "done" : "interrupted";
    run.emit({ type: "end", step: outcome.step, reason, seconds: run.seconds() });
    return outcome;
  } catch (caught) {
    const error = await explainedFailure(caught, input.plan, run.memory.step);
    const message = error instanceof Error ? error.message : String(error);
    try {
      run.emit({ type: "end", step: lastStep(), reason: "failed", seconds: run.seconds(), message });
    } catch {
      // The disk may be the reason; what is thrown says it.
    }
    throw error;
  } finally {
    input.stop.beforeLeaving(() => {});
    log.close();
    unlock();
  }
}

interface RunContext extends RunInput {
  readonly client: Client;
  /** Where it stood when this process began; absent: at its beginning. */
  readonly begun: Progress | undefined;
  readonly flopsPerToken: number;
  /** The steps done so far. */
  readonly steps: readonly EventOf<"step">[];
  readonly seconds: () => number;
  /** Filled in once the step is compiled. */
  readonly memory: { step?: StepMemory };
  readonly emit: (event: RunEvent) => void;
}

async function train(run: RunContext): Promise<RunOutcome> {
  const { plan, resume, client, stop, emit } = run;
  const peak = await machinePeak(client);
  const done = doneSoFar(plan, run.begun);
  const nextStep = done.step + 1;
  emit({
    type: "start",
    step: done.step,
    ...(resume && { resumed: true }),
    config: run.keys,
    parameters: countParameters(plan.model),
    flopsPerToken: run.flopsPerToken,
    peakFlopsPerSecond: peak.flopsPerSecond,
    precision: precisionLines(planAt(plan, Math.min(nextStep, plan.steps))),
  });
  const otherKernels = resume && (await otherKernelsNote(resume.progress.provenance, client));
  if (otherKernels !== undefined) emit({ type: "note", message: otherKernels });
  const evaluator = runEvaluator(plan, client);
  // Filled in while the step compiles, and before its first use.
  const holder = { state: undefined as unknown } as StateHolder;
  const step = phaseStep({ ...run, holder });
  const trace = plan.profile ? stepTrace(plan.profile, nextStep, run.folder.trace) : noTrace;
  const tellTrace = () => {
    const message = trace.write();
    if (message !== undefined) emit({ type: "note", message });
  };
  try {
    // The state is made while the compiler works on other threads.
    const makesState = firstState(run).then((state) => {
      holder.state = state;
    });
    const entered = done.step < plan.steps ? step.enter(nextStep, makesState) : undefined;
    await Promise.allSettled([makesState, entered]);
    await makesState;
    await entered;
    const evaluated = resume ? evaluations(run.folder.events) : [];
    const { keepBest } = plan.checkpoints ?? {};
    const chosen = await settleBest(run.folder, keepBest ? evaluated : [], new Set(resume?.damaged));
    if (chosen !== undefined) emit({ type: "note", message: chosen });
    const saver = await saverOf(run);
    const isDue = resume !== undefined && isEvalDue(done.step, plan);
    const validated = isDue ? evaluated.find(({ step }) => step === done.step) : undefined;
    // It may be that nobody got to offer its checkpoint.
    if (validated) saver?.validated(validated);
    const owesValidation = isDue && validated === undefined;
    const result = await trainLoop({
      ...{ ...run, step, evaluator, holder, done, trace, owesValidation },
      ...(saver && { saver }),
    })
      .catch((error: unknown) => afterLastSave(run, error, saver))
      .finally(tellTrace);
    await saver?.finish();
    if (stop.signal === undefined) await emitSample(run, holder.state, result);
    return finish(run, result, peak.flopsPerSecond);
  } finally {
    disposeTree(holder.state);
    step.dispose();
    evaluator.dispose();
  }
}

async function firstState({
  plan,
  resume,
  fullState,
  parameters,
  client,
}: RunContext): Promise<TrainState<DeviceArray>> {
  const delayedScaling = llamaDelayedScaling(stepOptions(plan));
  const extras = { ...(plan.lossScale && { lossScale: plan.lossScale }), ...(delayedScaling && { delayedScaling }) };
  if (resume) return putState(resumedState(resume, extras), client);
  if (fullState) return putState(adoptedState(fullState.state, extras), client);
  const weights = parameters?.params ?? { seed: plan.seeds.initWeights };
  return putStartingState(plan.model, weights, { extras, client });
}

/** How the loop saves, where the plan wants checkpoints. */
async function saverOf(run: RunContext): Promise<Saver | undefined> {
  const { plan, data, folder, client, begun, emit, memory, resume } = run;
  const { checkpoints } = plan;
  if (checkpoints === undefined) return undefined;
  const provenance = { ...(await provenanceOf(plan, client)), ...beginningOf(run) };
  const identity = { data: dataIdentity(data), provenance };
  const damaged = new Set(resume?.damaged);
  const firstSave = (Math.floor((begun?.step ?? 0) / checkpoints.period) + 1) * checkpoints.period;
  return makeSaver({
    write: (state, done) => {
      damaged.delete(done.step); // It is replaced.
      const retention = { ...retentionOf(run), damaged };
      return saveCheckpoint(folder.checkpoints, state, { ...done, ...identity }, retention);
    },
    ...(checkpoints.keepBest && {
      async offerBest(evaluated) {
        const message = await offerBestCheckpoint(folder, evaluated);
        if (message !== undefined) emit({ type: "note", message });
      },
    }),
    placeOf: (step) => ({ step, path: checkpointPath(folder.checkpoints, step) }),
    emit,
    copies: firstSave < plan.steps,
    stepBytes: () => memory.step?.stats.temporaryBytes ?? 0,
  });
}

/** Where a run's first weights, or its first state, are from; one that goes on has it from its checkpoint. */
function beginningOf({ resume, parameters, fullState }: RunContext): Readonly<Record<string, unknown>> {
  const { parametersFrom, fullStateFrom }: Record<string, unknown> = resume?.progress.provenance ?? {
    parametersFrom: parameters?.from,
    fullStateFrom: fullState?.from,
  };
  return {
    ...(parametersFrom !== undefined && { parametersFrom }),
    ...(fullStateFrom !== undefined && { fullStateFrom }),
  };
}

function retentionOf({ plan: { checkpoints }, folder }: RunContext): Retention {
  const { keep, keepPeriod, keepBest } = checkpoints ?? {};
  const best = keepBest ? bestCheckpoint(folder) : undefined;
  return {
    ...(keep !== undefined && { last: keep }),
    ...(keepPeriod !== undefined && { period: keepPeriod }),
    ...(best && { best: best.step }),
  };
}

/** Throws what the loop failed with, when the save under way is done; its own failure is a note then. */
async function afterLastSave({ emit }: RunContext, error: unknown, saver: Saver | undefined): Promise<never> {
  try {
    await saver?.finish();
  } catch (second) {
    emit({ type: "note", message: (second as Error).message });
  } finally {
    // biome-ignore lint/correctness/noUnsafeFinally: the first failure counts, whatever the disk says of the note
    throw error;
  }
}

async function emitSample(
  { data, plan, samplePrompt: prompt = "", emit }: RunContext,
  state: TrainState<DeviceArray>,
  { done }: LoopResult,
): Promise<void> {
  const { tokenizer } = data;
  if (tokenizer === undefined) return;
  const model = forwardOptions(plan, phaseAt(plan, done.step).precision);
  const text = await writeText({
    ...{ model, state: modelState(state), tokenizer },
    ...{ sequenceLength: plan.sequenceLength, prompt },
  });
  emit({ type: "sample", step: done.step, prompt, text });
}

function finish(run: RunContext, { done, saved, evaluation }: LoopResult, peakFlopsPerSecond: number): RunOutcome {
  const { name, steps, stop, emit } = run;
  const summary = summarise({
    ...run,
    ...done,
    steps,
    sources: run.data.train.sources ?? [],
    evaluation,
    name,
    peakFlopsPerSecond,
    seconds: run.seconds(),
  });
  if (stop.signal === undefined) {
    emit({ type: "summary", step: done.step, peakRssBytes: peakMemory(), ...summary });
  }
  return { step: done.step, stoppedBy: stop.signal, saved, evaluation, summary };
}
