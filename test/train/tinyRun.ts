/** A model and a run small enough for a test: 2 blocks, width 32, sequences of 32. */
import { runFolder } from "../../src/checkpoint/index.ts";
import { syntheticBatches } from "../../src/data/index.ts";
import type { RunEvent } from "../../src/metrics/index.ts";
import type { LlamaConfig } from "../../src/models/llama.ts";
import { makeSchedule } from "../../src/optim/index.ts";
import { recipeByName, resolvePrecision } from "../../src/quant/index.ts";
import type { RunPlan } from "../../src/train/plan.ts";
import type { RunInput } from "../../src/train/run.ts";
import { neverStop } from "../../src/train/stop.ts";

export const tinyModel: LlamaConfig = {
  numLayers: 2,
  embDim: 32,
  mlpDim: 48,
  numHeads: 2,
  numKvHeads: 1,
  headDim: 16,
  vocabSize: 64,
  ropeTheta: 10000,
  normEps: 1e-5,
  tieEmbeddings: true,
  dtype: "bfloat16",
};

export function tinyPlan(changes: Partial<RunPlan> = {}, recipe = "bf16"): RunPlan {
  const steps = changes.steps ?? 10;
  return {
    model: tinyModel,
    precision: resolvePrecision({ recipe: recipeByName(recipe), numLayers: tinyModel.numLayers }),
    optimizer: { b1: 0.9, b2: 0.95, eps: 1e-8, weightDecay: 0.1 },
    schedule: makeSchedule({ kind: "cosine", learningRate: 1e-2, steps: 10 }),
    clippingThreshold: 1,
    batchSize: 4,
    microBatches: 1,
    sequenceLength: 32,
    steps,
    checkpoints: { period: 5 },
    seeds: { initWeights: 0, dataShuffle: 0, rounding: 0 },
    maxSkippedSteps: 3,
    ...changes,
  };
}

/** The input of a run whose events are collected in `events`. */
export function tinyRun(folder: string, plan: RunPlan, events: RunEvent[] = []): RunInput {
  return {
    name: "tiny",
    plan,
    data: syntheticBatches(
      plan.model.vocabSize,
      {
        batchSize: plan.batchSize,
        windowLength: plan.sequenceLength,
        microBatches: plan.microBatches,
      },
      0,
    ),
    folder: runFolder(folder, "run"),
    keys: { steps: plan.steps },
    stop: neverStop,
    onEvent: (event) => events.push(event),
  };
}

/** The same on a command line, on synthetic data. */
export const tinyKeys = [
  "dataset_type=synthetic",
  "vocab_size=64",
  "emb_dim=32",
  "mlp_dim=48",
  "num_decoder_layers=2",
  "num_query_heads=2",
  "num_kv_heads=1",
  "head_dim=16",
  "max_target_length=32",
  "per_device_batch_size=4",
  "learning_rate=0.01",
] as const;
