/** A plan's training step at every stage of its way, from the sizes alone: no weights, no data. */
import { full, type Program, type Spec, spec, type Tensor, trace } from "../core/index.ts";
import { jit } from "../jit/index.ts";
import { type ListedOperation, listHlo, listProgram } from "../lower/index.ts";
import { llamaSpecs } from "../models/hfMapping.ts";
import { llamaDelayedScaling, llamaLoss } from "../models/llama.ts";
import { type Client, type MemoryStats, withHloDump } from "../pjrt/index.ts";
import { delayedScalingSpecs } from "../quant/index.ts";
import { type ModelState, modelState, withScales } from "./modelState.ts";
import type { RunPlan } from "./plan.ts";
import type { TrainState } from "./state.ts";
import { makeTrainStep, type StepBatch, type StepScalars, stepOptions } from "./step.ts";

/** What each stage shows, in the order in which a step goes through them. */
export const stages = {
  trace: "the loss of a batch as traced",
  grad: "the whole step as a program: loss, backward pass, clipping, AdamW",
  stablehlo: "the text that is handed to XLA",
  hlo: "what XLA made of it, with the memory it needs",
} as const;

export type Stage = keyof typeof stages;

export interface StageListing {
  readonly operations: readonly ListedOperation[];
  /** Of the compiled program. */
  readonly memory?: MemoryStats;
}

export async function listStage(plan: RunPlan, stage: Stage, client?: Client): Promise<StageListing> {
  if (stage === "trace") return { operations: listProgram(lossProgram(plan)) };
  if (stage === "grad") return { operations: listProgram(stepProgram(plan)) };
  if (stage === "stablehlo") {
    const listing: ListedOperation[] = [];
    const options = { donate: [0], name: "train_step", listing, ...(client && { client }) };
    await jit(makeTrainStep(stepOptions(plan)), options).lower(...stepSpecs(plan));
    return { operations: listing };
  }
  const { hlo, memory } = await stepHlo(plan, client);
  return { operations: listHlo(hlo), memory };
}

/** The text of XLA's optimized program of the step, with its operations' scopes, and the memory it needs. */
export async function stepHlo(
  plan: RunPlan,
  client?: Client,
): Promise<{ readonly hlo: string; readonly memory: MemoryStats }> {
  const { result: memory, hlo } = await withHloDump(async (envOverrides) => {
    const options = { donate: [0], name: "train_step", listing: [], compileOptions: { envOverrides } };
    const compiled = jit(makeTrainStep(stepOptions(plan)), { ...options, ...(client && { client }) });
    const executable = await compiled.compile(...stepSpecs(plan));
    const memory = executable.memoryStats();
    compiled.dispose();
    return memory;
  });
  return { hlo, memory };
}

/** The loss of one micro-batch: (model's state, batch, step) → its sum, its mean and the number of tokens. */
export function lossProgram(plan: RunPlan): Program {
  const { optimizer, lossScale, clippingThreshold, microBatches, roundingSeed: seed, ...others } = stepOptions(plan);
  const { sequenceLosses: tellsSequences, ...model } = others;
  const loss = ({ params, scales }: ModelState, batch: StepBatch, step: Tensor) => {
    const weights = batch.weights ?? full(batch.tokens.shape, 1, "float32");
    const options = { ...withScales(model, scales), random: { seed, step, microBatch: 0 } };
    const { sequenceLosses, ...sums } = llamaLoss(params, { ...batch, weights }, options);
    return tellsSequences ? { ...sums, sequenceLosses } : sums;
  };
  const [state, , scalars] = stepSpecs(plan);
  return trace(loss, modelState(state), batchSpecs(plan, plan.batchSize), scalars.step);
}

export function stepProgram(plan: RunPlan): Program {
  return trace(makeTrainStep(stepOptions(plan)), ...stepSpecs(plan));
}

type SpecsOf<T> = { readonly [K in keyof T]: Spec };

/** Shapes and dtypes of the step's arguments: state, batch, scalars. */
export function stepSpecs(plan: RunPlan): [TrainState<Spec>, SpecsOf<StepBatch>, SpecsOf<StepScalars>] {
  return [
    stateSpecs(plan),
    batchSpecs(plan, plan.microBatches * plan.batchSize),
    { learningRate: spec([], "float32"), step: spec([], "uint32") },
  ];
}

function batchSpecs({ sequenceLength, batchForm }: RunPlan, rows: number): SpecsOf<StepBatch> {
  const shape = [rows, sequenceLength];
  const ids = spec(shape, "int32");
  return {
    ...{ tokens: ids, targets: ids },
    ...(batchForm?.masked && { weights: spec(shape, "float32") }),
    ...(batchForm?.segmented && { segments: ids }),
  };
}

/** Shapes and dtypes of the state that a run carries, in the order of its arrays. */
export function stateSpecs(plan: RunPlan): TrainState<Spec> {
  const params = llamaSpecs(plan.model);
  const count = spec([], "int32");
  const delayedScaling = llamaDelayedScaling(stepOptions(plan));
  return {
    ...{ params, optimizer: { count, mu: params, nu: params } },
    ...(plan.lossScale && { lossScale: { scale: spec([], "float32"), goodSteps: count } }),
    ...(delayedScaling && { delayedScaling: delayedScalingSpecs(delayedScaling) }),
  };
}
