/** Loss and gradients of a step: of its whole batch at once, or summed over micro-batches in a loop. */
import { scan, valueAndGrad } from "../autodiff/index.ts";
import { full, iota, type Tensor, treeMap, zeros } from "../core/index.ts";
import { type LlamaBatch, type LlamaOptions, type LlamaParams, llamaLoss } from "../models/llama.ts";
import { largerMagnitudes, tapsOfScales, type Word } from "../quant/index.ts";

/** How a step's gradient is taken. */
export interface GradientOptions {
  readonly model: Omit<LlamaOptions, "random" | "taps" | "segments">;
  /** A: equal parts of the batch that are computed one after the other, so that activations of one are kept at a time. */
  readonly microBatches: number;
  readonly roundingSeed: number;
  /** uint32 scalar */
  readonly step: Tensor;
  /** Float32 scalar: multiplies the loss on its way backward, and is divided out of the gradients. */
  readonly lossScale?: Tensor;
  /** The delayed scales in force, float32 [layers, modules, 3]. */
  readonly scales?: Tensor;
  /** Whether the loss of each sequence is told; default false. */
  readonly sequenceLosses?: boolean;
}

/** A step's loss and gradient. */
export interface StepGradients {
  /** Σ weight · nll / Σ weight over the whole batch, in nats; float32. */
  readonly loss: Tensor;
  readonly totalWeight: Tensor;
  /** Float32, of `loss`. */
  readonly grads: LlamaParams;
  /** The largest magnitudes of tensors whose scales are delayed, of all micro-batches together; shaped as `scales`. */
  readonly amax?: Tensor;
  /** float32 [A·B]: Σ weight · nll of each sequence, in nats. */
  readonly sequenceLosses?: Tensor;
}

/**
 * The batch is [A·B, T]; its first B rows are the first micro-batch. Every token's loss is divided by the weight of the
 * whole batch before it goes backward, so a token's gradient has the same bits in whatever micro-batch it lies, and only
 * the order of float32 sums differs. (Recipes with a scale for a whole tensor take it for each micro-batch; a delayed scale is the step's.)
 */
export function lossAndGradients(params: LlamaParams, batch: LlamaBatch, options: GradientOptions): StepGradients {
  const totalWeight = batch.weights.sum();
  const sums = summedGradients(params, batch, totalWeight.max(1), options);
  const { lossScale } = options;
  if (lossScale === undefined) return { ...sums, totalWeight };
  const unscale = full([], 1, "float32").div(lossScale);
  return { ...sums, totalWeight, grads: treeMap<LlamaParams>((g: Tensor) => g.mul(unscale), sums.grads) };
}

type Summed = Omit<StepGradients, "totalWeight">;

/** The cotangent of scales is the largest magnitudes (see `LinearTaps`). */
interface Differentiated {
  readonly params: LlamaParams;
  readonly scales?: Tensor;
}

/** The gradients are of `lossScale` times the loss. */
function summedGradients(params: LlamaParams, batch: LlamaBatch, divisor: Tensor, options: GradientOptions): Summed {
  const { model, microBatches, roundingSeed: seed, step, lossScale, scales, sequenceLosses = false } = options;
  const ofPart = (part: LlamaBatch, microBatch: Word): Summed => {
    const random = { seed, step, microBatch };
    const lossOf = ({ params, scales }: Differentiated) => {
      const taps = scales && tapsOfScales(scales);
      const sums = llamaLoss(params, part, { ...model, random, ...(taps && { taps }) });
      const loss = sums.lossSum.div(divisor);
      const aux = { loss, ...(sequenceLosses && { sequenceLosses: sums.sequenceLosses }) };
      return { value: lossScale === undefined ? loss : loss.mul(lossScale), aux };
    };
    const { aux, grad } = valueAndGrad(lossOf, { aux: true })({ params, ...(scales && { scales }) });
    return { ...aux, grads: grad.params, ...(grad.scales && { amax: grad.scales }) };
  };
  if (microBatches === 1) return ofPart(batch, 0);

  const parts = treeMap<LlamaBatch>(
    (x: Tensor) => x.reshape([microBatches, x.shape[0]! / microBatches, ...x.shape.slice(1)]),
    batch,
  );
  const { carry, ys } = scan(
    (sum: Omit<Summed, "sequenceLosses">, { part, index }: { part: LlamaBatch; index: Tensor }) => {
      const { loss, grads, amax, ...y } = ofPart(part, index);
      const added = treeMap<LlamaParams>((a: Tensor, b: Tensor) => a.add(b), sum.grads, grads);
      const largest = amax && largerMagnitudes(sum.amax!, amax);
      return { carry: { loss: sum.loss.add(loss), grads: added, ...(largest && { amax: largest }) }, y };
    },
    {
      loss: zeros([], "float32"),
      grads: treeMap<LlamaParams>((p: Tensor) => zeros(p.shape, "float32"), params),
      ...(scales && { amax: zeros(scales.shape, "float32") }),
    },
    { part: parts, index: iota([microBatches], 0, "uint32") },
  );
  return { ...carry, ...(ys.sequenceLosses && { sequenceLosses: ys.sequenceLosses.reshape([-1]) }) };
}
