/**
 * How a linear layer multiplies, as data: three GEMMs, for each its two operands and how they are rotated. Recipes are
 * values of this type. What cannot run is not expressible: a rotated GEMM has no tiles, since the rotation cancels only if
 * both operands have it, and a rotated tile would differ from its transpose.
 *
 *     GEMM                left                 right
 *     fprop y = x·Wᵀ      x  [tokens, in]      W [out, in]
 *     dgrad dx = dy·W     dy [tokens, out]     W [out, in]
 *     wgrad dW = dyᵀ·x    dy [tokens, out]     x [tokens, in]
 */
import { UserError } from "../base/errors.ts";
import type { ElementName } from "./formats.ts";

export const gemmNames = ["fprop", "dgrad", "wgrad"] as const;
/** The three GEMMs of a linear layer. */
export type GemmName = (typeof gemmNames)[number];

/** What a linear layer reads: its input, its weight, and the gradient of its result. */
export const linearTensors = ["x", "w", "dy"] as const;
export type LinearTensor = (typeof linearTensors)[number];

export type Side = "left" | "right";

/** The tensor that a GEMM reads on each side. */
export const tensorAt: Readonly<Record<GemmName, Readonly<Record<Side, LinearTensor>>>> = {
  fprop: { left: "x", right: "w" },
  dgrad: { left: "dy", right: "w" },
  wgrad: { left: "dy", right: "x" },
};

/** The operand as it is, in the compute dtype (bfloat16, or float32 where the whole model computes in it). */
export interface PlainOperand {
  readonly element: "plain";
}

/** 1×n along the contracting dim of the GEMM that reads the operand. */
export type RowBlock = "1x16" | "1x32" | "1x64" | "1x128";
/** n×n, the same values for every GEMM that reads the tensor. */
export type TileBlock = "16x16" | "32x32" | "64x64" | "128x128";
/** The elements that share a stored scale. */
export type Block = RowBlock | TileBlock | "tensor";

/** An E4M3 scale for each block under a float32 scale: NVFP4's two levels. */
export interface E4m3Scale {
  readonly type: "e4m3";
  /** What the float32 scale covers: the tensor, or a row of the GEMM's operand. */
  readonly outer: "tensor" | "row";
  /**
   * Divides the elements' range. 1 (default) is the hardware recipe; from 17/16 on no element exceeds the format's largest
   * value whatever the block scale rounds to, so that stochastic rounding has no bias.
   */
  readonly gain?: number;
  /** Largest block scale that the float32 scale aims at; default 448. */
  readonly bound?: number;
  /** Map a block's maximum to 6 or to 4, whichever has the smaller error of this kind; ties take 6. E2M1 only. */
  readonly fourOverSix?: "mae" | "mse";
}

/** A power of two for each block (OCP Microscaling). */
export interface E8m0Scale {
  readonly type: "e8m0";
  /** up: of amax / largest element, rounded up, so that nothing saturates; floor: of amax's exponent, as OCP has it. */
  readonly round: "up" | "floor";
}

/** A float32 scale for each block, or for the tensor. */
export interface Fp32Scale {
  readonly type: "fp32";
  /** Cut to the power of two below. */
  readonly powerOfTwo: boolean;
}

/** One float32 scale for the tensor, from its largest magnitudes in the steps before. */
export interface DelayedScale {
  readonly type: "delayed";
  /** L: steps that the history remembers. */
  readonly historyLength: number;
  /** What of the history counts: its maximum, or the last step's. */
  readonly algorithm: "max" | "most_recent";
  /** Scales are divided by 2^margin. */
  readonly margin: number;
}

/** To nearest with ties to even, or by random bits. */
export type Rounding = "nearest" | "stochastic" | "stochastic8";

/** An operand rounded to 4 or 8 bits. */
export type QuantizedOperand = {
  readonly element: ElementName;
  /** stochastic draws 16 random bits for an element, stochastic8 the 8 that Blackwell's convert takes. */
  readonly rounding: Rounding;
  /** What is quantized: the high-precision value (default), or the value that fprop's copy decodes to. */
  readonly source?: "value" | "fprop";
} & (
  | { readonly block: RowBlock; readonly scale: E4m3Scale | E8m0Scale | Fp32Scale }
  | { readonly block: TileBlock; readonly scale: (E4m3Scale & { readonly outer: "tensor" }) | E8m0Scale | Fp32Scale }
  | { readonly block: "tensor"; readonly scale: Fp32Scale | DelayedScale }
);

/** An operand as it is, or rounded. */
export type OperandSpec = PlainOperand | QuantizedOperand;

/** A random Hadamard transform along the contracting dim: groups of `size`, each multiplied by diag(signs)·H/√size. */
export interface Rotation {
  readonly size: 16 | 32 | 64 | 128;
  /** fixed: NVIDIA's 16 signs, repeated; fresh: drawn for each step, layer and GEMM; none: the plain transform. */
  readonly signs: "fixed" | "fresh" | "none";
}

/** An operand that may be rotated. */
export type RotatableOperand = QuantizedOperand & { readonly block: RowBlock | "tensor" };

/** How one GEMM reads its operands. */
export type GemmSpec =
  | { readonly rotation: "none"; readonly left: OperandSpec; readonly right: OperandSpec }
  | { readonly rotation: Rotation; readonly left: RotatableOperand; readonly right: RotatableOperand };

/** How a linear layer multiplies: its three GEMMs. Recipes are values of this type. */
export type LinearPrecision = Readonly<Record<GemmName, GemmSpec>>;

/** The dim of each operand's matrix that the GEMM sums over. */
export const contractedDim: Readonly<Record<GemmName, Readonly<Record<Side, 0 | 1>>>> = {
  fprop: { left: 1, right: 1 },
  dgrad: { left: 1, right: 0 },
  wgrad: { left: 0, right: 0 },
};

export const isQuantizedGemm = ({ left, right }: GemmSpec): boolean =>
  left.element !== "plain" || right.element !== "plain";

/** What to call the operands' format: "nvfp4", or, where one stays as it is, "nvfp4×plain"; empty where both do. */
export function gemmFormat({ left, right }: GemmSpec): string {
  const name = (operand: OperandSpec) => (operand.element === "plain" ? "plain" : formatName(operand));
  const [a, b] = [name(left), name(right)];
  return a === "plain" && b === "plain" ? "" : a === b ? a : `${a}×${b}`;
}

/** The format by the name it is known by: the elements and their scales together. */
export function formatName({ element, scale }: QuantizedOperand): string {
  if (scale.type === "fp32" || scale.type === "delayed")
    return element === "e4m3" || element === "e5m2" ? "fp8" : element;
  const bits = element === "e4m3" || element === "e5m2" ? "fp8" : element === "e2m1" ? "fp4" : element;
  return `${scale.type === "e4m3" ? "nv" : "mx"}${bits}`;
}

export const isQuantized = (precision: LinearPrecision): boolean =>
  gemmNames.some((gemm) => isQuantizedGemm(precision[gemm]));

export const isStochasticOperand = (spec: OperandSpec): boolean =>
  spec.element !== "plain" && spec.rounding !== "nearest";

export const isStochastic = (precision: LinearPrecision): boolean =>
  gemmNames.some((gemm) => [precision[gemm].left, precision[gemm].right].some(isStochasticOperand));

/** Whether a block is the same whichever way the matrix is read. */
export const isSymmetric = (block: Block): boolean => block === "tensor" || !block.startsWith("1x");

export const isDelayed = (spec: OperandSpec): spec is QuantizedOperand & { readonly scale: DelayedScale } =>
  spec.element !== "plain" && spec.scale.type === "delayed";

/** The operands that read a tensor of the layer, in the order of the GEMMs. */
export function operandsOf(precision: LinearPrecision, tensor: LinearTensor): OperandSpec[] {
  return gemmNames.flatMap((gemm) =>
    (["left", "right"] as const).filter((side) => tensorAt[gemm][side] === tensor).map((side) => precision[gemm][side]),
  );
}

/** A place that reads a tensor quantized. */
export interface QuantizedPlace {
  readonly gemm: GemmName;
  readonly operand: Side;
  readonly spec: QuantizedOperand;
}

/** The first GEMM that reads the tensor quantized: what is told of the tensor is told of this copy. */
export function firstQuantized(precision: LinearPrecision, tensor: LinearTensor): QuantizedPlace | undefined {
  for (const gemm of gemmNames) {
    for (const operand of ["left", "right"] as const) {
      const spec = precision[gemm][operand];
      if (tensorAt[gemm][operand] === tensor && spec.element !== "plain") return { gemm, operand, spec };
    }
  }
  return undefined;
}

/** How a tensor's scale is delayed, if it is. */
export function delayedOperand(precision: LinearPrecision, tensor: LinearTensor) {
  return operandsOf(precision, tensor).find(isDelayed);
}

/** Elements of a block along the contracting dim; undefined for the whole tensor. */
export const blockLength = (block: Block): number | undefined =>
  block === "tensor" ? undefined : Number(block.slice(block.indexOf("x") + 1));

/** Whether two quantized operands of one tensor hold the same values, whichever way a GEMM reads them. */
export function sameValues(a: OperandSpec, b: OperandSpec): boolean {
  if (a.element === "plain" || b.element === "plain") return false;
  return a.rounding === "nearest" && isSymmetric(a.block) && JSON.stringify(a) === JSON.stringify(b);
}

/** Ends the check of an operand. */
type Refuse = (gemm: GemmName, side: Side, rule: string) => never;

function checkDelayedScales(precision: LinearPrecision, refuse: Refuse): void {
  const [first] = linearTensors.flatMap((tensor) => delayedOperand(precision, tensor) ?? []);
  for (const gemm of gemmNames) {
    for (const side of ["left", "right"] as const) {
      const spec = precision[gemm][side];
      if (!isDelayed(spec)) continue;
      const fail = (rule: string): never => refuse(gemm, side, rule);
      const { historyLength, algorithm, margin } = spec.scale;
      if (precision[gemm].rotation !== "none") fail("a delayed scale is of the unrotated tensor");
      if (spec.source === "fprop") fail('a delayed scale is of the value, not of source "fprop"');
      if (!Number.isInteger(historyLength) || historyLength < 1)
        fail(`historyLength must be an integer of 1 or more; got ${historyLength}`);
      if (algorithm !== "max" && algorithm !== "most_recent")
        fail(`algorithm must be max or most_recent; got ${algorithm}`);
      if (!Number.isInteger(margin) || Math.abs(margin) > largestMargin)
        fail(`margin must be an integer from -${largestMargin} to ${largestMargin}; got ${margin}`);
      const tensor = tensorAt[gemm][side];
      const other = delayedOperand(precision, tensor)!;
      if (JSON.stringify([spec.element, spec.scale]) !== JSON.stringify([other.element, other.scale]))
        fail(`${tensor} has one delayed scale, so its operands must have one element and one history`);
      if (historyLength !== first!.scale.historyLength)
        fail(
          `delayed scales of x, W and dy need one historyLength; got ${first!.scale.historyLength} and ${historyLength}`,
        );
    }
  }
}

/** 2^margin and its reciprocal are then float32 numbers. */
const largestMargin = 126;

/**
 * @param place whose precision it is, for the message
 * @throws UserError for what the types can't exclude: a source that does not exist, numbers out of range
 */
export function checkPrecision(precision: LinearPrecision, place?: string): void {
  const refuse: Refuse = (gemm, side, rule) => {
    const where = place === undefined ? "" : `${place}: `;
    throw new UserError("E_PRECISION", `${where}the ${side} operand of ${gemm}: ${rule}`);
  };
  checkDelayedScales(precision, refuse);
  for (const gemm of gemmNames) {
    for (const side of ["left", "right"] as const) {
      const spec = precision[gemm][side];
      const fail = (rule: string): never => refuse(gemm, side, rule);
      if (spec.element === "plain") continue;
      if (spec.source === "fprop") {
        if (gemm === "fprop" || side === "left")
          fail('source "fprop" belongs to what fprop read: x in wgrad, W in dgrad');
        if (precision.fprop.rotation !== "none") fail('source "fprop" needs an unrotated fprop');
      }
      if (spec.scale.type !== "e4m3") continue;
      const { gain = 1, bound = 448, fourOverSix } = spec.scale;
      if (!(gain > 0 && gain <= 2)) fail(`gain must be above 0 and at most 2; got ${gain}`);
      if (!(bound > 0 && bound <= 448)) fail(`bound must be above 0 and at most 448, E4M3's largest; got ${bound}`);
      if (fourOverSix !== undefined && spec.element !== "e2m1") fail(`fourOverSix is for e2m1; got ${spec.element}`);
    }
  }
}
