/**
 * Low precision. In: tensors of the compute dtype. Out: `linear`, whose three GEMMs compute as a recipe says, and the
 * quantizer behind it. A new recipe is a value of `LinearPrecision` (recipe.ts); a new format starts in formats.ts.
 */
export { type DrawStream, randomBits16, type Word } from "../core/random.ts";
export { e2m1, e4m3, type NarrowFormat } from "./formats.ts";
export { type Prepared, product } from "./gemm.ts";
export { linear, type Site } from "./linear.ts";
export { dequantize, type Nvfp4Options, type Quantized, quantizeNvfp4, tensorFactor } from "./nvfp4.ts";
export { type PolicyOptions, type PrecisionPlan, resolvePrecision } from "./policy.ts";
export {
  type GemmName,
  type GemmSpec,
  gemmNames,
  isQuantized,
  isQuantizedGemm,
  isStochastic,
  type LinearPrecision,
  type OperandSpec,
  type QuantizedOperand,
} from "./precision.ts";
export {
  describeGemm,
  type LinearShape,
  type PrecisionRow,
  precisionTable,
  showPrecisionTable,
  type TableOptions,
} from "./precisionTable.ts";
export { type RandomKey, type RandomPlace, streamAt } from "./random.ts";
export {
  bf16,
  type Nvfp4Switches,
  nvfp4,
  nvfp4Defaults,
  type PolicyName,
  policyNames,
  type Recipe,
  recipeByName,
  recipeNames,
} from "./recipe.ts";
export { rotateTokens, rotationMatrix } from "./rotation.ts";
export { roundE2M1, roundE4M3, roundNearest, roundStochastic } from "./rounding.ts";
