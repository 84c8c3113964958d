/** One training step as a pure function of Tensors: loss, gradient, clipping, AdamW. It is compiled whole. */
import type { RematPolicy } from "../autodiff/index.ts";
import { full, namedScope, type Tensor } from "../core/index.ts";
import type { LlamaConfig, LlamaOptions } from "../models/llama.ts";
import { type AdamWSettings, adamw, clipByGlobalNorm } from "../optim/index.ts";
import { lossAndGradients } from "./gradients.ts";
import type { TrainState } from "./state.ts";

export interface StepOptions {
  readonly config: LlamaConfig;
  readonly precision: LlamaOptions["precision"];
  readonly remat?: RematPolicy;
  readonly optimizer: AdamWSettings;
  /** Largest global gradient norm; 0 for no clipping. */
  readonly clippingThreshold: number;
  /** Decides the draws of stochastic rounding, with the step's number and the micro-batch's. */
  readonly roundingSeed: number;
  /** A: parts of the batch that are computed one after the other; default 1. */
  readonly microBatches?: number;
}

export interface StepBatch {
  /** int32 [A·B, T] */
  readonly tokens: Tensor;
  /** int32 [A·B, T] */
  readonly targets: Tensor;
  /** float32 [A·B, T]; absent: every target counts. */
  readonly weights?: Tensor;
}

/** What differs between steps and is no data: arguments, so that one program serves all steps. */
export interface StepScalars {
  /** float32 */
  readonly learningRate: Tensor;
  /** uint32, from 1 */
  readonly step: Tensor;
}

export interface StepMetrics {
  /** float32, nats per token. */
  readonly loss: Tensor;
  readonly totalWeight: Tensor;
  /** Global norm before clipping. */
  readonly gradNorm: Tensor;
  /** bool: loss and gradients are finite. Where not, the new state is the old one, bit by bit. */
  readonly finite: Tensor;
  /** Gradient norm of each tensor in the order of `treePaths(params)`: says which one is not finite. */
  readonly tensorNorms: Tensor;
}

export interface StepResult {
  readonly state: TrainState;
  readonly metrics: StepMetrics;
}

export type TrainStep = (state: TrainState, batch: StepBatch, scalars: StepScalars) => StepResult;

export function makeTrainStep(options: StepOptions): TrainStep {
  const { config, precision, remat, clippingThreshold, roundingSeed, microBatches = 1 } = options;
  const optimizer = adamw(options.optimizer);

  return ({ params, optimizer: moments }, batch, { learningRate, step }) => {
    const { tokens, targets } = batch;
    const weights = batch.weights ?? full(tokens.shape, 1, "float32");
    const model = { config, precision, ...(remat && { remat }) };
    const { loss, totalWeight, grads } = lossAndGradients(
      params,
      { tokens, targets, weights },
      { model, microBatches, roundingSeed, step },
    );

    const { clipped, finite, next } = namedScope("optimizer", () => {
      const clipped = namedScope("clip", () => clipByGlobalNorm(grads, clippingThreshold));
      const finite = clipped.finite.and(loss.isFinite());
      const update = { grads: clipped.grads, state: moments, params, learningRate, finite };
      return { clipped, finite, next: optimizer.update(update) };
    });
    return {
      state: { params: next.params, optimizer: next.state },
      metrics: { loss, totalWeight, gradNorm: clipped.norm, finite, tensorNorms: clipped.tensorNorms },
    };
  };
}
