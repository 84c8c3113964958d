/** Products of prepared operands. Quantized ones are emulated: exact bfloat16 values, float32 sums, scales afterwards. */
import { type DType, dot, type Tensor } from "../core/index.ts";
import { type Quantized, tensorFactor } from "./nvfp4.ts";

/** What a product reads: plain values, or quantized values with the maximum that their tensor scale comes from. */
export type Prepared = Pick<Quantized, "values"> & Partial<Pick<Quantized, "amax">>;

export interface ProductOptions {
  /** The contracted dim of left and of right. */
  readonly contract: readonly [number, number];
  readonly out: DType;
}

/**
 * left × right over one dim of each. The tensor scales multiply after the sum, one after the other (their product could
 * underflow), before the one rounding to `out`.
 */
export function product(left: Prepared, right: Prepared, { contract, out }: ProductOptions): Tensor {
  const dims = [[contract[0]], [contract[1]]] as const;
  const factors = [left.amax, right.amax].flatMap((amax) => (amax === undefined ? [] : [tensorFactor(amax)]));
  // A plain float32 operand takes the other, exactly, to float32.
  const dtype = left.values.dtype === right.values.dtype ? left.values.dtype : "float32";
  const [a, b] = [left.values.astype(dtype), right.values.astype(dtype)];
  if (factors.length === 0) return dot(a, b, { contract: dims, out });
  const sum = dot(a, b, { contract: dims, out: "float32" });
  return factors.reduce((y, factor) => y.mul(factor), sum).astype(out);
}
