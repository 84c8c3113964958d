/** Training steps of a Llama of one block, on one device and on meshes. */
import { afterAll } from "vitest";
import { type HostArray, hostArray, type Mesh, type Spec, treeMap } from "../../src/core/index.ts";
import { syntheticBatches } from "../../src/data/index.ts";
import { type Compiled, jit } from "../../src/jit/index.ts";
import { mesh, type PartitionTree, partition, replicated, splitLargestDim } from "../../src/sharding/index.ts";
import { initialState, type TrainState } from "../../src/train/state.ts";
import { makeTrainStep, type StepBatch, type StepScalars, type TrainStep } from "../../src/train/step.ts";
import { fetchAndFree } from "../fetchAndFree.ts";
import { tinyModel, tinyPlan } from "../train/tinyRun.ts";
import { clientOf } from "./devices.ts";

export const model = { ...tinyModel, numLayers: 1 };
const { train } = syntheticBatches(model.vocabSize, { batchSize: 4, windowLength: 32 }, 0);
export const start = initialState(model, 0);

/** A recipe's step of the model. */
export function stepOf(recipe: string, dtype: "bfloat16" | "float32"): TrainStep {
  const { precision, optimizer } = tinyPlan({}, recipe);
  return makeTrainStep({
    config: { ...model, dtype },
    precision: precision.precision,
    optimizer,
    clippingThreshold: 1,
    roundingSeed: 0,
  });
}

type Args = [TrainState, StepBatch, StepScalars];
export type CompiledStep = Compiled<Args, ReturnType<TrainStep>>;
export type HostState = TrainState<HostArray>;
interface HostResult {
  readonly state: HostState;
  readonly metrics: Readonly<Record<"loss" | "gradNorm" | "finite" | "tensorNorms", HostArray>>;
}

export const batchOf = (number: number) => {
  const { tokens, targets } = train.batchAt(number);
  return { tokens, targets };
};
export const scalarsOf = (number: number, learningRate = 1e-2) => ({
  learningRate: hostArray([], "float32", Float32Array.of(learningRate)),
  step: hostArray([], "uint32", Uint32Array.of(number)),
});
export const runStep = (
  step: CompiledStep,
  state: HostState,
  number: number,
  learningRate?: number,
): Promise<HostResult> => fetchAndFree<HostResult>(step(state, batchOf(number), scalarsOf(number, learningRate)));

/** How a state lies on a mesh. */
export interface Spread {
  readonly mesh: Mesh;
  readonly state: PartitionTree;
}

export const dataParallel = (devices: number): Spread => ({ mesh: mesh({ data: devices }), state: replicated });
export function fullySharded(devices: number): Spread {
  const on = mesh({ data: devices });
  return { mesh: on, state: treeMap<object>((x: Spec) => splitLargestDim(x, on, "data"), start) };
}

const compiled: CompiledStep[] = [];
afterAll(() => {
  for (const step of compiled) step.dispose();
});

/** @param spread how state and batch lie on the devices; absent: on one */
export function compileOn(f: TrainStep, devices: number, spread?: Spread): CompiledStep {
  const step = jit(f as (...args: Args) => ReturnType<TrainStep>, {
    name: "train_step",
    client: clientOf(devices),
    donate: [0],
    ...(spread && {
      mesh: spread.mesh,
      inShardings: [spread.state, partition("data"), replicated],
      outShardings: { state: spread.state, metrics: replicated },
    }),
  });
  compiled.push(step);
  return step;
}

export const relative = (got: HostArray, wanted: HostArray) =>
  Math.abs(Number(got.data[0]) / Number(wanted.data[0]) - 1);
