/**
 * The recipes: values of `LinearPrecision` by their switches, each default the published recipe. One's own is written the
 * same way, from operands.
 */
import type {
  DelayedScale,
  E4m3Scale,
  E8m0Scale,
  LinearPrecision,
  PlainOperand,
  RotatableOperand,
  Rotation,
  RoundedOperand,
  RowBlock,
} from "./precision.ts";

const plain: PlainOperand = { element: "plain" };
const plainGemm = { rotation: "none", left: plain, right: plain } as const;

/** Operands in the compute dtype: the bf16 recipe, or FP32 where the model computes in float32. */
export const bf16: LinearPrecision = { fprop: plainGemm, dgrad: plainGemm, wgrad: plainGemm };

/** What 4-bit training does beyond rounding, each on by default. */
export interface Fp4Switches {
  /** Rotate both operands of wgrad. */
  readonly rht: boolean;
  /** Round gradients stochastically. */
  readonly stochasticRounding: boolean;
  /** Scales of weights: one for a tile, so that fprop and dgrad see the same values, or for a row's block. */
  readonly weightScaling: "2d" | "1d";
}

/** NVFP4's switches, each by default the published recipe. */
export interface Nvfp4Switches extends Fp4Switches, Required<Pick<E4m3Scale, "gain" | "bound">> {
  /** One float32 scale for each row of activations, in place of one for the tensor. */
  readonly rowScaledActivation: boolean;
  /** Which operands map block maxima to 6 or to 4, by the smaller error; with a bound of 256 unless one is given. */
  readonly fourOverSix: "none" | "weights" | "activations" | "all";
  readonly fourOverSixError: "mae" | "mse";
}

export const nvfp4Defaults: Nvfp4Switches = {
  rht: true,
  stochasticRounding: true,
  weightScaling: "2d",
  gain: 1,
  bound: 448,
  rowScaledActivation: false,
  fourOverSix: "none",
  fourOverSixError: "mae",
};

/** The block scales of four over six are multiplied by 1.5 afterwards, which needs room under 448. */
export const fourOverSixBound = 256;

/** The bound where none is given; undefined where weights and activations have different ones. */
export const nvfp4Bound = (fourOverSix: Nvfp4Switches["fourOverSix"]): number | undefined =>
  ({ none: 448, all: fourOverSixBound, weights: undefined, activations: undefined })[fourOverSix];

/** NVFP4: x and gradients in 1×16 blocks, weights in tiles; gradients stochastic; wgrad rotated. */
export function nvfp4(switches: Partial<Nvfp4Switches> = {}): LinearPrecision {
  const { rowScaledActivation, fourOverSix, fourOverSixError, gain, bound, ...fp4 } = { ...nvfp4Defaults, ...switches };
  const scaleOf = (kind: "weights" | "activations"): E4m3Scale & { readonly outer: "tensor" } => {
    const chooses = fourOverSix === "all" || fourOverSix === kind;
    const ownBound = chooses && switches.bound === undefined ? fourOverSixBound : bound;
    return {
      type: "e4m3",
      outer: "tensor",
      ...(gain !== 1 && { gain }),
      ...(ownBound !== 448 && { bound: ownBound }),
      ...(chooses && { fourOverSix: fourOverSixError }),
    };
  };
  const x = { ...scaleOf("activations"), ...(rowScaledActivation && { outer: "row" as const }) };
  const elements = { element: "e2m1", rounding: "nearest" } as const;
  return fp4Precision(fp4, {
    x: { ...elements, block: "1x16", scale: x },
    dy: { ...elements, block: "1x16", scale: { ...x, outer: "tensor" } },
    w: { ...elements, block: fp4.weightScaling === "2d" ? "16x16" : "1x16", scale: scaleOf("weights") },
    rotation: { size: 16, signs: "fixed" },
  });
}

/** NVFP4's three switches, and how a block's power of two is found. */
export interface Mxfp4Switches extends Fp4Switches, Pick<E8m0Scale, "round"> {}

export const mxfp4Defaults: Mxfp4Switches = { rht: true, stochasticRounding: true, weightScaling: "2d", round: "up" };

/** MXFP4: blocks of 32 with power-of-two scales; weights in tiles; gradients stochastic; wgrad rotated. */
export function mxfp4(switches: Partial<Mxfp4Switches> = {}): LinearPrecision {
  const { round, rht, stochasticRounding, weightScaling } = { ...mxfp4Defaults, ...switches };
  const operand = { element: "e2m1", rounding: "nearest", scale: { type: "e8m0", round } } as const;
  return fp4Precision(
    { rht, stochasticRounding, weightScaling },
    {
      x: { ...operand, block: "1x32" },
      dy: { ...operand, block: "1x32" },
      w: { ...operand, block: weightScaling === "2d" ? "32x32" : "1x32" },
      rotation: { size: 32, signs: "fixed" },
    },
  );
}

interface Fp4Operands {
  readonly x: RoundedOperand & { readonly block: RowBlock };
  readonly dy: RoundedOperand & { readonly block: RowBlock };
  readonly w: RoundedOperand;
  readonly rotation: Rotation;
}

function fp4Precision(
  { rht, stochasticRounding }: Fp4Switches,
  { x, dy: nearest, w, rotation }: Fp4Operands,
): LinearPrecision {
  const dy: RotatableOperand = { ...nearest, rounding: stochasticRounding ? "stochastic" : "nearest" };
  return {
    fprop: { rotation: "none", left: x, right: w },
    dgrad: { rotation: "none", left: dy, right: w },
    wgrad: { rotation: rht ? rotation : "none", left: dy, right: x },
  };
}

/** The same three operands in each of the GEMMs that read them, none rotated. */
function threeOperands(x: RoundedOperand, w: RoundedOperand, dy: RoundedOperand): LinearPrecision {
  return {
    fprop: { rotation: "none", left: x, right: w },
    dgrad: { rotation: "none", left: dy, right: w },
    wgrad: { rotation: "none", left: dy, right: x },
  };
}

/** How a block's power of two is found, and the gradients' format. */
export interface Mxfp8Switches extends Pick<E8m0Scale, "round"> {
  /** Gradients in E5M2 rather than E4M3; they make pre-training diverge. */
  readonly hybrid: boolean;
}

export const mxfp8Defaults: Mxfp8Switches = { round: "up", hybrid: false };

/** MXFP8: E4M3 in blocks of 32 with power-of-two scales. */
export function mxfp8(switches: Partial<Mxfp8Switches> = {}): LinearPrecision {
  const { round, hybrid } = { ...mxfp8Defaults, ...switches };
  const operand = { element: "e4m3", rounding: "nearest", block: "1x32", scale: { type: "e8m0", round } } as const;
  return threeOperands(operand, operand, hybrid ? { ...operand, element: "e5m2" } : operand);
}

/** The gradients' format, and how scales are cut. */
export interface Fp8Switches {
  /** Gradients in E5M2 rather than E4M3. */
  readonly hybrid: boolean;
  /** Scales cut to powers of two. */
  readonly powerOfTwo: boolean;
}

export const fp8CurrentDefaults: Fp8Switches = { hybrid: true, powerOfTwo: false };

/** FP8 with one float32 scale a tensor, from the tensor's own maximum. */
export function fp8CurrentScaling(switches: Partial<Fp8Switches> = {}): LinearPrecision {
  const { hybrid, powerOfTwo } = { ...fp8CurrentDefaults, ...switches };
  const scale = { type: "fp32", powerOfTwo } as const;
  const operand = { element: "e4m3", rounding: "nearest", block: "tensor", scale } as const;
  return threeOperands(operand, operand, hybrid ? { ...operand, element: "e5m2" } : operand);
}

/** Delayed scaling's switches: E5M2 gradients, and how scales follow from the steps before. */
export interface Fp8DelayedSwitches extends Pick<Fp8Switches, "hybrid">, Omit<DelayedScale, "type"> {}

export const fp8DelayedDefaults: Fp8DelayedSwitches = {
  hybrid: true,
  historyLength: 1024,
  algorithm: "max",
  margin: 0,
};

/** FP8 with one float32 scale a tensor, from its maxima in the steps before. */
export function fp8DelayedScaling(switches: Partial<Fp8DelayedSwitches> = {}): LinearPrecision {
  const { hybrid, ...delay } = { ...fp8DelayedDefaults, ...switches };
  const scale = { type: "delayed", ...delay } as const;
  const operand = { element: "e4m3", rounding: "nearest", block: "tensor", scale } as const;
  return threeOperands(operand, operand, hybrid ? { ...operand, element: "e5m2" } : operand);
}

export const fp8BlockDefaults: Fp8Switches = { hybrid: false, powerOfTwo: true };

/** FP8 in blocks of 1×128, weights in tiles of 128×128, with float32 scales. */
export function fp8BlockScaling(switches: Partial<Fp8Switches> = {}): LinearPrecision {
  const { hybrid, powerOfTwo } = { ...fp8BlockDefaults, ...switches };
  const scale = { type: "fp32", powerOfTwo } as const;
  const operand = { element: "e4m3", rounding: "nearest", block: "1x128", scale } as const;
  const dy: RoundedOperand = hybrid ? { ...operand, element: "e5m2" } : operand;
  return threeOperands(operand, { ...operand, block: "128x128" }, dy);
}
