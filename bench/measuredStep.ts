/** A training step of a workload, compiled and run: what it costs to compile, in memory, and to run. */
import { type HostArray, hostArray } from "../src/core/index.ts";
import { disposeTree, jit, putTree } from "../src/jit/index.ts";
import type { LlamaOptions } from "../src/models/llama.ts";
import { type RematPolicyName, rematPolicies } from "../src/models/rematPolicies.ts";
import { recipeByName, resolvePrecision } from "../src/quant/index.ts";
import { initialState } from "../src/train/state.ts";
import { makeTrainStep } from "../src/train/step.ts";
import { configOf, type Sizes } from "./workload.ts";

export interface StepChoice {
  readonly recipe: string;
  readonly rematPolicy: RematPolicyName;
  readonly scanLayers: boolean;
  /** What the backward pass reads of quantized layers is kept packed. */
  readonly packedResiduals?: boolean;
}

export interface StepCost {
  /** Process CPU time of all threads. */
  readonly compileCpuSeconds: number;
  readonly temporaryBytes: number;
  /** Process CPU time ÷ 2 of the best of several steps; absent where none was run. */
  readonly stepSeconds?: number;
  readonly loss?: number;
}

const cpuSeconds = (since?: NodeJS.CpuUsage): number => {
  const { user, system } = process.cpuUsage(since);
  return (user + system) / 1e6;
};

export async function measureStep(workload: Sizes, choice: StepChoice, numSteps: number): Promise<StepCost> {
  const config = configOf(workload);
  const { recipe, rematPolicy, scanLayers, packedResiduals = false } = choice;
  const { numLayers } = config;
  const { precision } = resolvePrecision({ recipe: recipeByName(recipe), numLayers, packedResiduals });
  const remat = rematPolicies[rematPolicy];
  const model: LlamaOptions = { config, precision, scanLayers, ...(remat && { remat }) };
  const optimizer = { b1: 0.9, b2: 0.95, eps: 1e-8, weightDecay: 0.1 };
  const train = makeTrainStep({ ...model, optimizer, clippingThreshold: 1, roundingSeed: 0 });
  const step = jit(train, { donate: [0], name: "train_step" });
  const ids = (shift: number): HostArray => {
    const { batch, seq, vocab } = workload;
    return hostArray(
      [batch, seq],
      "int32",
      Int32Array.from({ length: batch * seq }, (_, i) => ((i + shift) * 7) % vocab),
    );
  };
  const batch = { tokens: ids(0), targets: ids(1) };
  const scalars = (number: number) => ({
    learningRate: hostArray([], "float32", Float32Array.of(1e-3)),
    step: hostArray([], "uint32", Uint32Array.of(number)),
  });

  let state = await putTree(initialState(config, 0));
  const before = process.cpuUsage();
  const executable = await step.compile(state, batch, scalars(1));
  const compileCpuSeconds = cpuSeconds(before);
  const { temporaryBytes } = executable.memoryStats();
  let [best, loss] = [Number.POSITIVE_INFINITY, Number.NaN];
  for (let i = 1; i <= numSteps; i++) {
    const start = process.cpuUsage();
    const result = await step(state as never, batch as never, scalars(i));
    loss = (await result.metrics.loss.toHost()).data[0] as number;
    best = Math.min(best, cpuSeconds(start) / 2);
    state = result.state as never;
    disposeTree(result.metrics);
  }
  disposeTree(state);
  step.dispose();
  return { compileCpuSeconds, temporaryBytes, ...(numSteps > 0 && { stepSeconds: best, loss }) };
}
