/**
 * Low precision. In: tensors of the compute dtype. Out: `linear`, whose three GEMMs compute as a recipe says, and the
 * quantizer behind it. A new recipe is a value of `LinearPrecision` (recipe.ts); a new format starts in formats.ts.
 */
export { type DrawStream, randomBits16, type Word } from "../core/random.ts";
export {
  type BlockDetail,
  blockDetail,
  blockGrid,
  blocksAt,
  type ElementDetail,
  type QuantizedValues,
  quantizedTensors,
  snrOf,
} from "./blockDetail.ts";
export { checkPrecision, isBiased } from "./checkPrecision.ts";
export { isCustomRecipe, recipeShown } from "./customRecipe.ts";
export {
  type DelayedScaling,
  type DelayedScalingState,
  delayedScalingOf,
  delayedScalingSpecs,
  initialDelayedScaling,
  largerMagnitudes,
  nextDelayedScaling,
  type SeenMagnitudes,
  tapsOfScales,
} from "./delayedScaling.ts";
export { whyEmulated } from "./emulation.ts";
export { dgeSlope } from "./estimators.ts";
export { type ElementName, e2m1, e4m3, e5m2, formats, int4, type NarrowFormat } from "./formats.ts";
export { type Prepared, product } from "./gemm.ts";
export { linear } from "./linear.ts";
export type { LinearTaps, OperandPlace, Site } from "./operands.ts";
export { type PrecisionOverride, parseOverrides, showOverride } from "./overrides.ts";
export { type PolicyOptions, type PrecisionPlan, quantizesAnything, resolvePrecision } from "./policy.ts";
export {
  type Block,
  type DelayedScale,
  delayedOperand,
  type E4m3Scale,
  type E8m0Scale,
  type EdenOperand,
  type Estimator,
  type FixedRotation,
  type Fp32Scale,
  type FreshRotation,
  firstQuantized,
  formatName,
  type GemmName,
  type GemmSpec,
  gemmNames,
  isDelayed,
  isQuantized,
  isQuantizedGemm,
  isStochastic,
  type LinearPrecision,
  type LinearTensor,
  linearTensors,
  type OperandSpec,
  type PlainOperand,
  type QuantizedOperand,
  type QuantizedPlace,
  type RotatableOperand,
  type Rotation,
  type RotationSize,
  type RoundedOperand,
  type SpreadScale,
  tensorAt,
} from "./precision.ts";
export { type PrecisionSwitch, switchPrecision } from "./precisionSwitch.ts";
export {
  describeGemm,
  formatOf,
  type LinearShape,
  type PrecisionRow,
  precisionTable,
  type TableOptions,
} from "./precisionTable.ts";
export {
  llmFp4,
  mxfp4RhtSr,
  nvfp4FourOverSix,
  quartet,
  quartet2,
  tetrajet2,
  ufp4,
} from "./publishedRecipes.ts";
export { dequantize, type Quantized, type QuantizeOptions, quantize } from "./quantize.ts";
export { type RandomKey, type RandomPlace, streamAt } from "./random.ts";
export { type PolicyName, policyNames, type Recipe, recipeByName, recipeNames } from "./recipeNames.ts";
export {
  bf16,
  type Fp4Switches,
  type Fp8DelayedSwitches,
  type Fp8Switches,
  fp8BlockScaling,
  fp8CurrentScaling,
  fp8DelayedScaling,
  type Mxfp4Switches,
  type Mxfp8Switches,
  mxfp4,
  mxfp8,
  type Nvfp4Switches,
  nvfp4,
  nvfp4Defaults,
} from "./recipes.ts";
export { type RotationMatrix, rotate, rotationMatrix } from "./rotation.ts";
export { roundE2M1, roundE4M3, roundNearest, roundStochastic } from "./rounding.ts";
export { type StatisticName, statisticNames } from "./statistics.ts";
export {
  hasSwitch,
  recipesWith,
  type SwitchKey,
  settingsOfSwitches,
  switchesOf,
  switchKeys,
} from "./switchSettings.ts";
