/**
 * FP4 training recipes as papers publish them, with what is different here. Where a paper's scales, rotations or switches
 * are known from its code, they are that code's; of others no more is known here than the abstract says, and the recipe's
 * note tells so. None keeps blocks in BF16 unless its paper does.
 */
import type {
  E4m3Scale,
  EdenOperand,
  FreshRotation,
  LinearPrecision,
  RotatableOperand,
  RotationSize,
  RoundedOperand,
} from "./precision.ts";
import { bf16, type Fp4Switches, fourOverSixBound, type Nvfp4Switches } from "./recipes.ts";

const e2m1 = { element: "e2m1", rounding: "nearest" } as const;
const nv = { type: "e4m3", outer: "tensor" } as const;
/** From here on no element exceeds 6 whatever E4M3 makes of its block's scale. */
const unbiasedGain = 17 / 16;

/** The choice that several recipes have in common. */
export type GradientSwitch = Pick<Fp4Switches, "stochasticRounding">;

const roundingOf = ({ stochasticRounding }: GradientSwitch) => (stochasticRounding ? "stochastic" : "nearest");

/** Switches of `quartet2`. */
export interface Quartet2Switches extends GradientSwitch, Pick<Nvfp4Switches, "fourOverSix" | "fourOverSixError"> {
  /** Elements of a group that is rotated in backward GEMMs. */
  readonly rotationSize: RotationSize;
}

export const quartet2Defaults: Quartet2Switches = {
  fourOverSix: "none",
  fourOverSixError: "mse",
  rotationSize: 128,
  stochasticRounding: false,
};

/**
 * Quartet II (arXiv 2601.22813): NVFP4 1×16 in fprop, W too; backward GEMMs of rotated operands by MS-EDEN, x and W from
 * what fprop read, signs fresh and the same for dgrad and wgrad. `stochasticRounding` draws elements in place of scales.
 * Different here: ties to even (its Triton kernels round away), the tensor's maximum is the current one.
 */
export function quartet2(switches: Partial<Quartet2Switches> = {}): LinearPrecision {
  const { fourOverSix, fourOverSixError, rotationSize, stochasticRounding } = { ...quartet2Defaults, ...switches };
  const forward = (kind: "activations" | "weights") => ({
    ...e2m1,
    block: "1x16" as const,
    scale: fourOverSixScale(fourOverSix === "all" || fourOverSix === kind, fourOverSixError),
  });
  const eden: EdenOperand<"1x16"> = {
    element: "e2m1",
    rounding: "eden",
    block: "1x16",
    scale: { ...nv, gain: unbiasedGain * 0.93, bound: 255.99 },
  };
  const drawn: RotatableOperand = {
    element: "e2m1",
    rounding: "stochastic",
    block: "1x16",
    scale: { ...nv, gain: unbiasedGain },
  };
  const operand = stochasticRounding ? drawn : eden;
  const rotation: FreshRotation = { size: rotationSize, signs: "fresh", key: "layer" };
  const backward = { rotation, left: operand, right: { ...operand, source: "fprop" } } as const;
  return {
    fprop: { rotation: "none", left: forward("activations"), right: forward("weights") },
    dgrad: backward,
    wgrad: backward,
  };
}

/** NVFP4's scale, with room for the choice where there is one. */
function fourOverSixScale(chooses: boolean, error: "mae" | "mse"): E4m3Scale & { readonly outer: "tensor" } {
  return chooses ? { ...nv, bound: fourOverSixBound, fourOverSix: error } : nv;
}

export const quartetDefaults: GradientSwitch = { stochasticRounding: true };

/**
 * Quartet (arXiv 2505.14669): MXFP4 in the space of a plain Hadamard transform of 32; in fprop by standard deviations, with
 * gradients of clipped elements cut to 0; in backward GEMMs by OCP's scales, elements divided by 4/3 and drawn. Different
 * here: signs of the backward rotations are drawn on the side of the input; in its first code they came after the
 * transform, where they change no magnitude.
 */
export function quartet(switches: Partial<GradientSwitch> = {}): LinearPrecision {
  const forward: RotatableOperand = {
    ...e2m1,
    block: "1x32",
    scale: { type: "e8m0", statistic: "std", sigmas: 2.92247856 },
  };
  const operand: RotatableOperand = { ...ocpOperand, rounding: roundingOf({ ...quartetDefaults, ...switches }) };
  const rotation = { size: 32, signs: "fresh" } as const;
  const backward = { rotation, left: operand, right: { ...operand, source: "fprop" } } as const;
  return {
    fprop: { rotation: { size: 32, signs: "none" }, left: forward, right: forward },
    dgrad: backward,
    wgrad: backward,
    estimator: { x: "clip_mask", w: "clip_mask" },
  };
}

/** OCP's scales leave elements up to 8; divided by 4/3 none saturates. */
const ocpOperand = {
  ...e2m1,
  block: "1x32",
  scale: { type: "e8m0", round: "floor", gain: 4 / 3 },
} as const satisfies RotatableOperand;

export const tetrajet2Defaults: GradientSwitch = { stochasticRounding: true };

/**
 * TetraJet-v2 (arXiv 2510.27527) without its outlier channels and its reset of oscillating weights: NVFP4 with a float32
 * scale for each 128 elements in place of the tensor's; backward GEMMs rotated by 16 with fresh signs, all four operands
 * drawn, x and W from what fprop read.
 */
export function tetrajet2(switches: Partial<GradientSwitch> = {}): LinearPrecision {
  const scale: E4m3Scale = { type: "e4m3", outer: "1x128" };
  const forward: RotatableOperand = { ...e2m1, block: "1x16", scale };
  const rounding = roundingOf({ ...tetrajet2Defaults, ...switches });
  const operand: RotatableOperand = { ...forward, rounding, scale: { ...scale, neverZero: true } };
  const rotation = { size: 16, signs: "fresh" } as const;
  const backward = { rotation, left: operand, right: { ...operand, source: "fprop" } } as const;
  return { fprop: { rotation: "none", left: forward, right: forward }, dgrad: backward, wgrad: backward };
}

/** Switches of `mxfp4_rht_sr`. */
export interface Mxfp4RhtSrSwitches extends GradientSwitch {
  readonly rotationSize: RotationSize;
  readonly rotationSigns: "fresh" | "fixed" | "none";
}

export const mxfp4RhtSrDefaults: Mxfp4RhtSrSwitches = {
  stochasticRounding: true,
  rotationSize: 64,
  rotationSigns: "fresh",
};

/**
 * Training LLMs with MXFP4 (arXiv 2502.20586): fprop in BF16; both operands of the backward GEMMs rotated with signs of
 * each GEMM, by OCP's scales, divided by 4/3 and drawn.
 */
export function mxfp4RhtSr(switches: Partial<Mxfp4RhtSrSwitches> = {}): LinearPrecision {
  const { rotationSize: size, rotationSigns: signs, stochasticRounding } = { ...mxfp4RhtSrDefaults, ...switches };
  const operand: RotatableOperand = { ...ocpOperand, rounding: roundingOf({ stochasticRounding }) };
  const backward = { rotation: { size, signs }, left: operand, right: operand } as const;
  return { fprop: bf16.fprop, dgrad: backward, wgrad: backward };
}

/** Switches of `nvfp4_4over6`. */
export type Nvfp4FourOverSixSwitches = Fp4Switches & Pick<Nvfp4Switches, "fourOverSixError">;

export const nvfp4FourOverSixDefaults: Nvfp4FourOverSixSwitches = {
  rht: true,
  stochasticRounding: true,
  weightScaling: "2d",
  fourOverSixError: "mse",
};

/**
 * Four over six (arXiv 2512.02010): NVFP4 whose fprop chooses for each block to map its maximum to 6 or to 4; gradients
 * drawn with a gain of 17/16 and without the choice, which would follow what was drawn.
 */
export function nvfp4FourOverSix(switches: Partial<Nvfp4FourOverSixSwitches> = {}): LinearPrecision {
  const { rht, weightScaling, fourOverSixError, stochasticRounding } = { ...nvfp4FourOverSixDefaults, ...switches };
  const scale = fourOverSixScale(true, fourOverSixError);
  const weight: RoundedOperand = { ...e2m1, block: weightScaling === "2d" ? "16x16" : "1x16", scale };
  const gradient: RotatableOperand = {
    element: "e2m1",
    rounding: roundingOf({ stochasticRounding }),
    block: "1x16",
    scale: { ...nv, gain: unbiasedGain },
  };
  return {
    fprop: { rotation: "none", left: { ...e2m1, block: "1x16", scale }, right: weight },
    dgrad: { rotation: "none", left: gradient, right: weight },
    wgrad: {
      rotation: rht ? { size: 16, signs: "fixed" } : "none",
      left: gradient,
      right: { ...e2m1, block: "1x16", scale: nv },
    },
  };
}

export const ufp4Defaults: GradientSwitch = { stochasticRounding: true };

/**
 * UFP4 (arXiv 2606.20381), as far as its abstract says: a uniform 4-bit grid, both operands of all three GEMMs rotated,
 * gradients alone drawn. Scales and the size of the rotation are assumed to be NVFP4's.
 */
export function ufp4(switches: Partial<GradientSwitch> = {}): LinearPrecision {
  const operand: RotatableOperand = { element: "int4", rounding: "nearest", block: "1x16", scale: nv };
  const gradient: RotatableOperand = {
    element: "int4",
    rounding: roundingOf({ ...ufp4Defaults, ...switches }),
    block: "1x16",
    scale: { ...nv, gain: unbiasedGain },
  };
  const rotation = { size: 16, signs: "fixed" } as const;
  return {
    fprop: { rotation, left: operand, right: operand },
    dgrad: { rotation, left: gradient, right: operand },
    wgrad: { rotation, left: gradient, right: operand },
  };
}

/** Switches of `llm_fp4`. */
export interface LlmFp4Switches {
  /** Scales cut to powers of two, as in the released code. */
  readonly powerOfTwo: boolean;
}

export const llmFp4Defaults: LlmFp4Switches = { powerOfTwo: true };

/**
 * LLM training with FP4 (arXiv 2501.17116): E2M1 in fprop with a scale for each token and each row of W, backward GEMMs in
 * BF16 of the values before rounding, the gradient of W times the slope of its smoothed rounding. Different here: outliers
 * are neither clamped nor given back as a sparse residual.
 */
export function llmFp4(switches: Partial<LlmFp4Switches> = {}): LinearPrecision {
  const { powerOfTwo } = { ...llmFp4Defaults, ...switches };
  const operand: RotatableOperand = { ...e2m1, block: "row", scale: { type: "fp32", powerOfTwo } };
  return {
    ...bf16,
    fprop: { rotation: "none", left: operand, right: operand },
    estimator: { w: { type: "dge", k: 5, cap: 3 } },
  };
}
