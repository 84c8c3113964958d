/** Rules of a layer's precision that its types can't state, and what stochastic rounding leaves biased. */
import { UserError } from "../base/errors.ts";
import { formats } from "./formats.ts";
import {
  delayedOperand,
  type GemmName,
  gemmNames,
  isDelayed,
  type LinearPrecision,
  linearTensors,
  type OperandSpec,
  type QuantizedOperand,
  type Side,
  specText,
  tensorAt,
} from "./precision.ts";

/**
 * @param place whose precision it is, for the message
 * @throws UserError for what the types can't exclude: a source that does not exist, numbers out of range
 */
export function checkPrecision(precision: LinearPrecision, place?: string): void {
  const refuse = (what: string, rule: string): never => {
    throw new UserError("E_PRECISION", `${place === undefined ? "" : `${place}: `}${what}: ${rule}`);
  };
  for (const gemm of gemmNames) {
    for (const side of ["left", "right"] as const) {
      const spec = precision[gemm][side];
      if (spec.element === "plain") continue;
      const broken = brokenRule(spec, gemm, side) ?? brokenDelay(precision, gemm, side);
      if (broken !== undefined) refuse(`the ${side} operand of ${gemm}`, broken);
    }
  }
  for (const tensor of ["x", "w"] as const) {
    const broken = brokenEstimator(precision, tensor);
    if (broken !== undefined) refuse(`the estimator of ${tensor}`, broken);
  }
}

function brokenRule(spec: QuantizedOperand, gemm: GemmName, side: Side): string | undefined {
  if (spec.source === "fprop" && (gemm === "fprop" || side === "left")) {
    return 'source "fprop" belongs to what fprop read: x in wgrad, W in dgrad';
  }
  const { scale } = spec;
  if (spec.rounding === "eden") {
    const { type } = scale as QuantizedOperand["scale"];
    if (type !== "e4m3") return `rounding eden corrects E4M3 scales; got ${type}`;
    if (spec.scale.fourOverSix !== undefined) return "rounding eden and fourOverSix exclude each other";
  }
  if (scale.type === "fp32" || scale.type === "delayed") return undefined;
  if (scale.type === "e8m0" && scale.statistic === "std") {
    const { sigmas } = scale;
    return sigmas > 0 && sigmas <= 100 ? undefined : `sigmas must be above 0 and at most 100; got ${sigmas}`;
  }
  const { gain = 1 } = scale;
  if (!(gain >= smallestGain && gain <= 2)) return `gain must be from ${smallestGain} to 2; got ${gain}`;
  if (scale.type === "e8m0") return undefined;
  const { bound = 448, fourOverSix } = scale;
  if (!(bound >= 1 && bound <= 448)) return `bound must be from 1 to 448, E4M3's largest; got ${bound}`;
  if (fourOverSix !== undefined && spec.element !== "e2m1") return `fourOverSix is for e2m1; got ${spec.element}`;
  if (spec.rounding === "eden" && bound > edenBound) {
    return `eden multiplies block scales afterwards, which needs room under 448: give a bound of at most ${edenBound}; got ${bound}`;
  }
  return undefined;
}

function brokenDelay(precision: LinearPrecision, gemm: GemmName, side: Side): string | undefined {
  const spec = precision[gemm][side];
  if (!isDelayed(spec)) return undefined;
  const { historyLength, algorithm, margin } = spec.scale;
  if (precision[gemm].rotation !== "none") return "a delayed scale is of the unrotated tensor";
  if (spec.source === "fprop") return 'a delayed scale is of the value, not of source "fprop"';
  if (!Number.isInteger(historyLength) || historyLength < 1) {
    return `historyLength must be an integer of 1 or more; got ${historyLength}`;
  }
  if (algorithm !== "max" && algorithm !== "most_recent")
    return `algorithm must be max or most_recent; got ${algorithm}`;
  if (!Number.isInteger(margin) || Math.abs(margin) > largestMargin) {
    return `margin must be an integer from -${largestMargin} to ${largestMargin}; got ${margin}`;
  }
  const tensor = tensorAt[gemm][side];
  const other = delayedOperand(precision, tensor)!;
  if (specText([spec.element, spec.scale]) !== specText([other.element, other.scale])) {
    return `${tensor} has one delayed scale, so its operands must have one element and one history`;
  }
  const [first] = linearTensors.flatMap((tensor) => delayedOperand(precision, tensor) ?? []);
  const longest = first!.scale.historyLength;
  if (historyLength === longest) return undefined;
  return `delayed scales of x, W and dy need one historyLength; got ${longest} and ${historyLength}`;
}

/** Below it more than half of a block's range is clipped. */
const smallestGain = 0.5;

/** 2^margin and its reciprocal are then float32 numbers. */
const largestMargin = 126;

/** What a corrected block scale may grow by is far below 448/298 = 1.5. */
const edenBound = 298;

function brokenEstimator(precision: LinearPrecision, tensor: "x" | "w"): string | undefined {
  const { fprop, estimator } = precision;
  const kind = estimator?.[tensor] ?? "ste";
  if (kind === "ste") return undefined;
  const spec = tensor === "x" ? fprop.left : fprop.right;
  if (spec.element === "plain") return `fprop reads ${tensor} as it is; an estimator other than ste needs it rounded`;
  if (fprop.rotation !== "none" && !staysRotated(precision, tensor)) {
    const reader = tensor === "x" ? "W in dgrad" : "x in wgrad";
    return `fprop is rotated, so its derivative is known in rotated space alone: give ${reader} the source "fprop"`;
  }
  if (kind === "clip_mask") return undefined;
  if (spec.element !== "e2m1") return `dge is for e2m1; got ${spec.element}`;
  if (kind.k >= 1 && kind.cap > 0) return undefined;
  return `dge needs k of at least 1 and a cap above 0; got ${kind.k}, ${kind.cap}`;
}

/**
 * Whether the gradient of x or W comes out of its GEMM in the space of fprop's rotation: it does where the other factor is
 * what the rotated fprop read.
 */
export function staysRotated(precision: LinearPrecision, tensor: "x" | "w"): boolean {
  const { right } = precision[tensor === "x" ? "dgrad" : "wgrad"];
  return precision.fprop.rotation !== "none" && right.element !== "plain" && right.source === "fprop";
}

/** Whether stochastic rounding misses the value on average, since elements saturate or a choice follows the outcome. */
export function isBiased(spec: OperandSpec): boolean {
  if (spec.element === "plain" || spec.rounding === "nearest" || spec.rounding === "eden") return false;
  const { scale } = spec;
  switch (scale.type) {
    case "fp32":
      return false;
    case "delayed":
      return true;
    case "e4m3":
      return scale.fourOverSix !== undefined || (scale.gain ?? 1) < unbiasedE4m3Gain;
    case "e8m0":
      return scale.statistic === "std" || (scale.round === "floor" && (scale.gain ?? 1) < floorRange(spec));
  }
}

/** E4M3 rounds a scale down by at most 1/17 of it. */
const unbiasedE4m3Gain = 17 / 16;

/** The power of two above the largest element, over it: OCP's scales leave elements up to there. */
function floorRange({ element }: QuantizedOperand): number {
  const { max } = formats[element];
  return 2 ** (Math.floor(Math.log2(max)) + 1) / max;
}
