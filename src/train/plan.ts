/** What a run shall do, in the terms of the stages it uses. The command line makes it from a configuration. */

import type { RematPolicy } from "../autodiff/index.ts";
import { type LlamaConfig, llamaModules, llamaShapes } from "../models/llama.ts";
import type { AdamWSettings, LossScaleSettings, Schedule } from "../optim/index.ts";
import type { LinearShape, PrecisionPlan } from "../quant/index.ts";
import type { TelemetryPlan } from "./numerics.ts";
import type { PrecisionPhase } from "./phases.ts";
import type { ProfilePlan } from "./stepTrace.ts";

export interface RunPlan {
  readonly model: LlamaConfig;
  /** How every linear layer computes. */
  readonly precision: PrecisionPlan;
  /** How from a later step on; absent: the same throughout. */
  readonly laterPrecision?: PrecisionPhase;
  /** What validation computes in: "same" is training's precision at that step. Absent: that alone. */
  readonly evalPrecisions?: readonly ("same" | PrecisionPlan)[];
  /** What a block keeps for the backward pass; absent: everything. */
  readonly remat?: RematPolicy;
  /** Run blocks of equal precision as a scan. */
  readonly scanLayers?: boolean;
  /** Weight of the z-loss in training's loss; absent: 0. Validation's loss is the cross-entropy alone. */
  readonly zLoss?: number;
  readonly optimizer: AdamWSettings;
  /** For float16; absent: the loss is not scaled. */
  readonly lossScale?: LossScaleSettings;
  /** Step n, from 1, uses `learningRate(schedule, n)`. */
  readonly schedule: Schedule;
  /** Largest global gradient norm; 0 for no clipping. */
  readonly clippingThreshold: number;
  /** B: sequences in a micro-batch. */
  readonly batchSize: number;
  /** A: micro-batches of a step. A step's batch is A·B sequences. */
  readonly microBatches: number;
  /** T: tokens in a sequence. */
  readonly sequenceLength: number;
  /** What batches say of their tokens; absent: every target counts, and a sequence is one document. */
  readonly batchForm?: { readonly masked: boolean; readonly segmented: boolean };
  /** Whether steps tell the loss of each of their sequences, of which those of sources are made; absent: they don't. */
  readonly sequenceLosses?: boolean;
  /** The last step's number. */
  readonly steps: number;
  /** Steps between validations; absent: one after the last step only. */
  readonly evalInterval?: number;
  /** Batches of a validation; absent: all. */
  readonly evalSteps?: number;
  /** Absent: nothing is saved. */
  readonly checkpoints?: CheckpointPlan;
  readonly seeds: { readonly initWeights: number; readonly dataShuffle: number; readonly rounding: number };
  /** Steps to trace; absent: none. */
  readonly profile?: ProfilePlan;
  /** What is measured of the numbers; absent: nothing. */
  readonly telemetry?: TelemetryPlan;
  /** Steps in a row that may be skipped because something in them was not finite. */
  readonly maxSkippedSteps: number;
}

export interface CheckpointPlan {
  /** Steps between checkpoints; one is saved at the end in any case. */
  readonly period: number;
  /** How many of the newest stay; absent: all. */
  readonly keep?: number;
  /** Those of steps that it divides stay for good; absent: none. */
  readonly keepPeriod?: number;
  /** Whether the one with the lowest validation loss stays. */
  readonly keepBest?: boolean;
}

/** [out, in] of each linear layer of a block, by its module. */
export function linearShapesOf(config: LlamaConfig): LinearShape[] {
  const block = llamaShapes(config).layers[0]!;
  return llamaModules.map((module) => {
    const [outDim, inDim] = block[module.slice(module.indexOf(".") + 1) as keyof typeof block] as [number, number];
    return { module, outDim, inDim };
  });
}

/** Parameters of the model: weights that training changes. A tied embedding counts once. */
export function countParameters(config: LlamaConfig): number {
  const { layers, ...others } = llamaShapes(config);
  const shapes = [
    ...layers.flatMap((block) => Object.values(block)),
    ...Object.values(others),
  ] as (readonly number[])[];
  return shapes.reduce((sum, shape) => sum + shape.reduce((a, b) => a * b, 1), 0);
}
