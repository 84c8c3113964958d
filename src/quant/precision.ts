/**
 * How a linear layer multiplies, as data: three GEMMs, for each its two operands and how they are rotated. Recipes are
 * values of this type. What cannot run is not expressible: a rotated GEMM has no tiles, since the rotation cancels only if
 * both operands have it, and a rotated tile would differ from its transpose; EDEN has a rotation with fresh signs.
 *
 *     GEMM                left                 right
 *     fprop y = x·Wᵀ      x  [tokens, in]      W [out, in]
 *     dgrad dx = dy·W     dy [tokens, out]     W [out, in]
 *     wgrad dW = dyᵀ·x    dy [tokens, out]     x [tokens, in]
 */
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
/** The elements that share a stored scale; "row" is 1×K, all that one sum reads. */
export type Block = RowBlock | TileBlock | "row" | "tensor";

/** An E4M3 scale for each block under a float32 scale: NVFP4's two levels. */
export interface E4m3Scale {
  readonly type: "e4m3";
  /** What the float32 scale covers: the tensor, a row of the GEMM's operand, or 128 elements of a row. */
  readonly outer: "tensor" | "row" | "1x128";
  /**
   * Divides the elements' range. 1 (default) is the hardware recipe; from 17/16 on no element exceeds the format's largest
   * value whatever the block scale rounds to, so that stochastic rounding has no bias.
   */
  readonly gain?: number;
  /** Largest block scale that the float32 scale aims at; default 448. */
  readonly bound?: number;
  /**
   * Map a block's maximum to 6 or to 4, whichever has the smaller error: the mean of its magnitudes, of its squares, or the
   * largest. Ties take 6. E2M1 only.
   */
  readonly fourOverSix?: "mae" | "mse" | "absmax";
  /** Scales that round to 0 become 2^-9, the smallest: else their blocks decode to 0, which no random rounding makes up for. */
  readonly neverZero?: boolean;
}

/** A power of two for each block (OCP Microscaling). */
export interface E8m0Scale {
  readonly type: "e8m0";
  readonly statistic?: "amax";
  /** up: of amax / largest element, rounded up, so that nothing saturates; floor: of amax's exponent, as OCP has it. */
  readonly round: "up" | "floor";
  /**
   * Divides the elements' range, default 1; what decodes is multiplied by it after the sum, where E8M0 can't hold it. OCP's
   * scales leave elements up to 8, so from 4/3 on stochastic rounding of E2M1 has no bias.
   */
  readonly gain?: number;
}

/** A power of two for each block from the spread of its elements: large elements are clipped so that the others fit better. */
export interface SpreadScale {
  readonly type: "e8m0";
  readonly statistic: "std";
  /** Standard deviations of the block that the largest element stands for, before the scale is cut to a power of two. */
  readonly sigmas: number;
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

/** Each element by itself: to nearest with ties to even, or by random bits. */
export type Rounding = "nearest" | "stochastic" | "stochastic8";

/** What all operands of 4 and 8 bits have. */
export interface NarrowElements {
  readonly element: ElementName;
  /** What is quantized: the high-precision value (default), or the value that fprop's copy decodes to. */
  readonly source?: "value" | "fprop";
}

/** An operand whose elements are rounded to 4 or 8 bits one by one. */
export type RoundedOperand = NarrowElements & {
  /** stochastic draws 16 random bits for an element, stochastic8 the 8 that Blackwell's convert takes. */
  readonly rounding: Rounding;
} & (
    | { readonly block: RowBlock; readonly scale: E4m3Scale | E8m0Scale | SpreadScale | Fp32Scale }
    | { readonly block: TileBlock; readonly scale: (E4m3Scale & { readonly outer: "tensor" }) | E8m0Scale | Fp32Scale }
    | { readonly block: "row"; readonly scale: Fp32Scale }
    | { readonly block: "tensor"; readonly scale: Fp32Scale | DelayedScale }
  );

/**
 * An operand whose elements are rounded to nearest and whose block scales then make up for it: over a rotated group they are
 * multiplied by what keeps its projection on the value, and rounded stochastically (MS-EDEN, eden.ts). With signs drawn
 * afresh this has no bias, at less than half the error of stochastic elements.
 */
export interface EdenOperand<B extends RowBlock = RowBlock> extends NarrowElements {
  readonly rounding: "eden";
  readonly block: B;
  /** With a bound of its own, that leaves room for what block scales are multiplied by. */
  readonly scale: E4m3Scale & { readonly bound: number; readonly fourOverSix?: never };
}

/** An operand rounded to 4 or 8 bits. */
export type QuantizedOperand = RoundedOperand | EdenOperand;

/** An operand as it is, or rounded. */
export type OperandSpec = PlainOperand | QuantizedOperand;

/** Elements of a group that is rotated. */
export type RotationSize = 16 | 32 | 64 | 128;

/** A Hadamard transform with signs that never change: NVIDIA's 16, repeated, or none. */
export interface FixedRotation {
  readonly size: RotationSize;
  readonly signs: "fixed" | "none";
}

/** A Hadamard transform with signs drawn in each step and layer. */
export interface FreshRotation<Size extends RotationSize = RotationSize> {
  readonly size: Size;
  readonly signs: "fresh";
  /** gemm (default): each GEMM draws its own; layer: one vector for all GEMMs of the layer. */
  readonly key?: "gemm" | "layer";
}

/** A random Hadamard transform along the contracting dim: groups of `size`, each multiplied by diag(signs)·H/√size. */
export type Rotation = FixedRotation | FreshRotation;

/** An operand that may be rotated; a delayed scale is of the tensor as it is. */
export type RotatableOperand = RoundedOperand & {
  readonly block: RowBlock | "row" | "tensor";
  readonly scale: E4m3Scale | E8m0Scale | SpreadScale | Fp32Scale;
};

/** The sizes of rotations whose groups are whole blocks. */
export interface SizesOf {
  readonly "1x16": RotationSize;
  readonly "1x32": 32 | 64 | 128;
  readonly "1x64": 64 | 128;
  readonly "1x128": 128;
}

/** The two factors of a GEMM. */
export interface Operands<Operand> {
  readonly left: Operand;
  readonly right: Operand;
}

/** A GEMM of operands as they lie. */
export interface UnrotatedGemm extends Operands<PlainOperand | RoundedOperand> {
  readonly rotation: "none";
}

/** A GEMM whose operands are both rotated. */
export interface RotatedGemm extends Operands<RotatableOperand> {
  readonly rotation: Rotation;
}

/** A GEMM with an operand that is rounded by EDEN. */
export interface EdenGemm<B extends RowBlock> extends Operands<RotatableOperand | EdenOperand<B>> {
  readonly rotation: FreshRotation<SizesOf[B]>;
}

/** How one GEMM reads its operands. */
export type GemmSpec = UnrotatedGemm | RotatedGemm | { [B in RowBlock]: EdenGemm<B> }[RowBlock];

/**
 * What the derivative of fprop's rounding is taken for. ste: one. clip_mask: one where the scaled element is within the
 * format's range, else none. dge: the slope of a smooth step of exponent 1/k in each interval of E2M1's grid, at most `cap`.
 */
export type Estimator = "ste" | "clip_mask" | { readonly type: "dge"; readonly k: number; readonly cap: number };

/** How a linear layer multiplies: its three GEMMs. Recipes are values of this type. */
export interface LinearPrecision extends Readonly<Record<GemmName, GemmSpec>> {
  /** Multiplies the gradient of x, or of W; default: ste. */
  readonly estimator?: { readonly x?: Estimator; readonly w?: Estimator };
  /** "packed": the backward pass gets x and W as the codes that its GEMMs read, in place of plain values. Changes no result. */
  readonly residuals?: "packed";
}

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

/** Whether a step of the layer needs random numbers, for elements, scales or the signs of a rotation. */
export const drawsRandom = (precision: LinearPrecision): boolean =>
  isStochastic(precision) ||
  gemmNames.some((gemm) => {
    const { rotation } = precision[gemm];
    return rotation !== "none" && rotation.signs === "fresh";
  });

/** Whether a block is the same whichever way the matrix is read. */
export const isSymmetric = (block: Block): boolean =>
  block === "tensor" || !(block === "row" || block.startsWith("1x"));

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

/** Elements of a block along the contracting dim; undefined where it takes them all. */
export const blockLength = (block: Block): number | undefined =>
  block === "tensor" || block === "row" ? undefined : Number(block.slice(block.indexOf("x") + 1));

/** Whether two quantized operands of one tensor hold the same values, whichever way a GEMM reads them. */
export function sameValues(a: OperandSpec, b: OperandSpec): boolean {
  if (a.element === "plain" || b.element === "plain") return false;
  return a.rounding === "nearest" && isSymmetric(a.block) && specText(a) === specText(b);
}

/** A part of a precision as text: equal where the parts are, in whatever order their keys stand. */
export const specText = (part: unknown): string =>
  JSON.stringify(part, (_, value: unknown) =>
    typeof value === "object" && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      : value,
  );
