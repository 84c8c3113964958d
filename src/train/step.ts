/** One training step as a pure function of Tensors: loss, gradient, clipping, AdamW, scales. It is compiled whole. */
import { invariant } from "../base/errors.ts";
import { full, namedScope, type Tensor } from "../core/index.ts";
import { type LlamaOptions, llamaDelayedScaling } from "../models/llama.ts";
import { type AdamWSettings, adamw, clipByGlobalNorm, type LossScaleSettings, nextLossScale } from "../optim/index.ts";
import { nextDelayedScaling, type PrecisionPlan } from "../quant/index.ts";
import { lossAndGradients } from "./gradients.ts";
import type { RunPlan } from "./plan.ts";
import type { TrainState } from "./state.ts";

export interface StepOptions extends Omit<LlamaOptions, "random" | "taps" | "segments"> {
  readonly optimizer: AdamWSettings;
  /** For float16; the state then has a `lossScale`. */
  readonly lossScale?: LossScaleSettings;
  /** Largest global gradient norm; 0 for no clipping. */
  readonly clippingThreshold: number;
  /** Decides the draws of stochastic rounding, with the step's number and the micro-batch's. */
  readonly roundingSeed: number;
  /** A: parts of the batch that are computed one after the other; default 1. */
  readonly microBatches?: number;
  /** Whether the metrics tell the loss of each sequence; default false. */
  readonly sequenceLosses?: boolean;
}

export interface StepBatch {
  /** int32 [A·B, T] */
  readonly tokens: Tensor;
  /** int32 [A·B, T] */
  readonly targets: Tensor;
  /** float32 [A·B, T]; absent: every target counts. */
  readonly weights?: Tensor;
  /** int32 [A·B, T]: the document of each token, as `LlamaOptions.segments`; absent: a row is one. */
  readonly segments?: Tensor;
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
  /** The scale this step used, float32; absent where the loss is not scaled. */
  readonly lossScale?: Tensor;
  /** Gradient norm of each tensor in the order of `treePaths(params)`: says which one is not finite. */
  readonly tensorNorms: Tensor;
  /** float32 [A·B]: Σ weight · loss of each sequence in nats; absent where nobody asks. */
  readonly sequenceLosses?: Tensor;
}

export interface StepResult {
  readonly state: TrainState;
  readonly metrics: StepMetrics;
}

export type TrainStep = (state: TrainState, batch: StepBatch, scalars: StepScalars) => StepResult;

/** What a plan says about its model, in a precision: that of its first phase, unless another is given. */
function modelOptions(plan: RunPlan, { precision }: PrecisionPlan = plan.precision): LlamaOptions {
  return { config: plan.model, precision, scanLayers: plan.scanLayers ?? false };
}

/**
 * The same for a forward pass alone, as in validation. What a recipe draws in it is drawn as in a step 0, which training does
 * not have, and so is the same every time.
 */
export function forwardOptions(plan: RunPlan, precision: PrecisionPlan): LlamaOptions {
  return { ...modelOptions(plan, precision), random: { seed: plan.seeds.rounding, step: 0, microBatch: 0 } };
}

/** What a plan says about its step, in the precision of its first phase. */
export function stepOptions(plan: RunPlan): StepOptions {
  const { remat, zLoss = 0, optimizer, lossScale } = plan;
  const { clippingThreshold, seeds, microBatches, sequenceLosses = false } = plan;
  return {
    ...modelOptions(plan),
    ...(remat && { remat }),
    zLoss,
    optimizer,
    ...(lossScale && { lossScale }),
    clippingThreshold,
    roundingSeed: seeds.rounding,
    microBatches,
    sequenceLosses,
  };
}

export function makeTrainStep(options: StepOptions): TrainStep {
  const { optimizer: adam, lossScale: scaling, clippingThreshold, roundingSeed, microBatches = 1, ...others } = options;
  const { sequenceLosses: tellsSequences = false, ...model } = others;
  const optimizer = adamw(adam);
  const delayed = llamaDelayedScaling(model);

  return ({ params, optimizer: moments, lossScale, delayedScaling }, batch, { learningRate, step }) => {
    invariant((lossScale === undefined) === (scaling === undefined), "loss scale of settings and of state");
    invariant(delayed === undefined || delayedScaling !== undefined, "delayed scales of precision and of state");
    const { tokens, targets, segments } = batch;
    const weights = batch.weights ?? full(tokens.shape, 1, "float32");
    const { loss, totalWeight, grads, amax, sequenceLosses } = lossAndGradients(
      params,
      { tokens, targets, weights, ...(segments && { segments }) },
      {
        ...{ model, microBatches, roundingSeed, step, sequenceLosses: tellsSequences },
        ...(lossScale && { lossScale: lossScale.scale }),
        ...(delayed && delayedScaling && { scales: delayedScaling.scales }),
      },
    );

    return namedScope("optimizer", () => {
      const clipped = namedScope("clip", () => clipByGlobalNorm(grads, clippingThreshold));
      const lossIsFinite = loss.isFinite();
      const finite = clipped.finite.and(lossIsFinite);
      const next = optimizer.update({ grads: clipped.grads, state: moments, params, learningRate, finite });
      const state = {
        ...{ params: next.params, optimizer: next.state },
        // Kept where no scale is delayed: the precision may change on the way.
        ...(delayedScaling && {
          delayedScaling:
            delayed && amax ? nextDelayedScaling(delayedScaling, { amax, finite }, delayed) : delayedScaling,
        }),
      };
      const metrics = {
        ...{ loss, totalWeight, gradNorm: clipped.norm, finite, tensorNorms: clipped.tensorNorms },
        ...(sequenceLosses && { sequenceLosses }),
      };
      if (lossScale === undefined || scaling === undefined) return { state, metrics };
      const nextScale = nextLossScale(scaling, lossScale, { lossIsFinite, allFinite: finite });
      return { state: { ...state, lossScale: nextScale }, metrics: { ...metrics, lossScale: lossScale.scale } };
    });
  };
}
