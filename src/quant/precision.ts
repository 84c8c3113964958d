/**
 * How a linear layer multiplies, as data: three GEMMs, for each its two operands and whether they are rotated. Recipes are
 * values of this type. What cannot run is not expressible: a rotated GEMM has two operands in 1×16 blocks, since the
 * rotation cancels only if both have it, and a rotated weight tile would differ from its transpose.
 *
 *     GEMM                left                 right
 *     fprop y = x·Wᵀ      x  [tokens, in]      W [out, in]
 *     dgrad dx = dy·W     dy [tokens, out]     W [out, in]
 *     wgrad dW = dyᵀ·x    dy [tokens, out]     x [tokens, in]
 */
export const gemmNames = ["fprop", "dgrad", "wgrad"] as const;
export type GemmName = (typeof gemmNames)[number];

/** The operand as it is, in the compute dtype (bfloat16, or float32 where the whole model computes in it). */
export interface PlainOperand {
  readonly element: "plain";
}

/** How values near each other share a scale. */
export interface ScaleSpec {
  /** Format of the stored scale of a block; rounded to nearest. */
  readonly type: "e4m3";
  /** What the second, float32 scale covers. */
  readonly outer: "tensor";
}

/** An operand rounded to 4 bits, always from its high-precision value. */
export interface QuantizedOperand {
  readonly element: "e2m1";
  /** 1×16 along the contracting dim of the GEMM, or tiles that are the same for every GEMM that reads the tensor. */
  readonly block: "1x16" | "16x16";
  readonly scale: ScaleSpec;
  readonly rounding: "nearest" | "stochastic";
}

export type OperandSpec = PlainOperand | QuantizedOperand;

export type GemmSpec =
  | { readonly rotation: "none"; readonly left: OperandSpec; readonly right: OperandSpec }
  | {
      /** The random Hadamard transform of 16, with fixed signs, along the contracting dim. */
      readonly rotation: "hadamard16";
      readonly left: QuantizedOperand & { readonly block: "1x16" };
      readonly right: QuantizedOperand & { readonly block: "1x16" };
    };

export type LinearPrecision = Readonly<Record<GemmName, GemmSpec>>;

export const isQuantizedGemm = ({ left, right }: GemmSpec): boolean =>
  left.element !== "plain" || right.element !== "plain";

/** What to call the operands' format: "nvfp4", or, where one stays as it is, "nvfp4×plain"; empty where both do. */
export function gemmFormat({ left, right }: GemmSpec): string {
  const name = (operand: OperandSpec) => (operand.element === "plain" ? "plain" : "nvfp4");
  const [a, b] = [name(left), name(right)];
  return a === "plain" && b === "plain" ? "" : a === b ? a : `${a}×${b}`;
}

export const isQuantized = (precision: LinearPrecision): boolean =>
  gemmNames.some((gemm) => isQuantizedGemm(precision[gemm]));

export const isStochastic = (precision: LinearPrecision): boolean =>
  gemmNames.some((gemm) =>
    [precision[gemm].left, precision[gemm].right].some((o) => o.element !== "plain" && o.rounding === "stochastic"),
  );

/** Whether two quantized operands of one tensor hold the same values, whichever way a GEMM reads them. */
export function sameValues(a: OperandSpec, b: OperandSpec): boolean {
  if (a.element === "plain" || b.element === "plain") return false;
  return (
    a.block === "16x16" &&
    b.block === "16x16" &&
    a.rounding === "nearest" &&
    b.rounding === "nearest" &&
    a.scale.type === b.scale.type &&
    a.scale.outer === b.scale.outer
  );
}
