/**
 * Layers as plain functions of Tensors. In: activations and weights. Out: activations. A new layer is a file here; what
 * multiplies by a weight goes through `linear` of `quant`, so that recipes apply to it.
 */
export { gelu, geluTanh, silu } from "./activations.ts";
export { type AttentionInputs, causalAttention } from "./attention.ts";
export type { AttentionTiles } from "./attentionHeads.ts";
export { type CrossEntropy, type CrossEntropyInputs, crossEntropy } from "./crossEntropy.ts";
export { dropout } from "./dropout.ts";
export { rmsNorm } from "./rmsNorm.ts";
export {
  type Llama3RopeScaling,
  type RopeOptions,
  type RopeTables,
  rope,
  ropeFrequencies,
  ropeTables,
} from "./rope.ts";
export { segmentPositions, segmentStarts } from "./segments.ts";
export { logSoftmax, logSumExp, softmax } from "./softmax.ts";
export { swiglu } from "./swiglu.ts";
