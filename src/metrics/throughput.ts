/** Counts and ratios by which runs are compared. */
import type { LlamaConfig } from "../models/llama.ts";

/** The sizes that decide a Llama's FLOPs. */
export type ModelShape = Pick<
  LlamaConfig,
  "numLayers" | "embDim" | "mlpDim" | "numHeads" | "numKvHeads" | "headDim" | "vocabSize"
>;

/** Weights that are multiplied with every token: all projections and the head, but not the embedding's look-up. */
export function matmulParameters(model: ModelShape): number {
  const { embDim, mlpDim, numHeads, numKvHeads, headDim } = model;
  const attention = embDim * (numHeads + 2 * numKvHeads) * headDim + numHeads * headDim * embDim;
  return model.numLayers * (attention + 3 * embDim * mlpDim) + embDim * model.vocabSize;
}

/**
 * Model FLOPs of training, per token: 6 per matmul weight (2 forward, 4 backward), and causal attention's
 * 6 · layers · heads · head_dim · T. Recomputation does not count. MaxText and Megatron Bridge count the same.
 * @param sequenceLength T
 */
export function flopsPerToken(model: ModelShape, sequenceLength: number): number {
  const attention = model.numLayers * model.numHeads * model.headDim * sequenceLength;
  return 6 * matmulParameters(model) + 6 * attention;
}

/** Model FLOP/s as a fraction of the peak that was measured on this machine. */
export function modelFlopsUtilization(flopsPerSecond: number, peakFlopsPerSecond: number): number {
  return flopsPerSecond / peakFlopsPerSecond;
}

/** Loss in bits per byte of text, which does not depend on the tokenizer. @param nats sum of the losses of all targets */
export function bitsPerByte(nats: number, bytes: number): number {
  return nats / Math.LN2 / bytes;
}

/** How much larger `value` is than `baseline`, in percent. */
export function gapPercent(baseline: number, value: number): number {
  return (value / baseline - 1) * 100;
}
