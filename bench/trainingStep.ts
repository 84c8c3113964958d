/** A workload's training step as a function, with what it starts from. */
import { type HostArray, hostArray } from "../src/core/index.ts";
import type { LlamaOptions } from "../src/models/llama.ts";
import { type RematPolicyName, rematPolicies } from "../src/models/rematPolicies.ts";
import { type PolicyName, recipeByName, resolvePrecision } from "../src/quant/index.ts";
import { initialState } from "../src/train/state.ts";
import { makeTrainStep } from "../src/train/step.ts";
import { configOf, type Sizes } from "./workload.ts";

export interface StepChoice {
  readonly recipe: string;
  /** Which layers it is for (default: the recipe's). */
  readonly policy?: PolicyName;
  readonly rematPolicy: RematPolicyName;
  readonly scanLayers: boolean;
  /** What the backward pass reads of quantized layers is kept packed. */
  readonly packedResiduals: boolean;
}

export const adamSettings = { b1: 0.9, b2: 0.95, eps: 1e-8, weightDecay: 0.1 } as const;

/** The function of (state, batch, scalars), and host arrays for it; `scalars` takes the step's number. */
export function trainingStep(sizes: Sizes, { recipe, policy, rematPolicy, scanLayers, packedResiduals }: StepChoice) {
  const config = configOf(sizes);
  const { precision } = resolvePrecision({
    ...{ recipe: recipeByName(recipe), numLayers: config.numLayers, packedResiduals },
    ...(policy && { policy }),
  });
  const remat = rematPolicies[rematPolicy];
  const model: LlamaOptions = { config, precision, scanLayers, ...(remat && { remat }) };
  const train = makeTrainStep({ ...model, optimizer: adamSettings, clippingThreshold: 1, roundingSeed: 0 });
  const scalars = (number: number) => ({
    learningRate: hostArray([], "float32", Float32Array.of(1e-3)),
    step: hostArray([], "uint32", Uint32Array.of(number)),
  });
  const batch = { tokens: tokenIds(sizes, 0), targets: tokenIds(sizes, 1) };
  return { train, state: initialState(config, 0), batch, scalars };
}

/** int32 [batch, seq], other ids for another shift. */
export function tokenIds({ batch, seq, vocab }: Pick<Sizes, "batch" | "seq" | "vocab">, shift: number): HostArray {
  const ids = Int32Array.from({ length: batch * seq }, (_, i) => ((i + shift) * 7) % vocab);
  return hostArray([batch, seq], "int32", ids);
}
