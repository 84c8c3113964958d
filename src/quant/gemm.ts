/** Products of prepared operands. Quantized ones are emulated: exact bfloat16 values, float32 sums, scales afterwards. */
import { type DType, dot, type Tensor } from "../core/index.ts";
import type { PartScales, Quantized } from "./quantize.ts";

/** What a product reads: plain values, or quantized ones with the scales that multiply sums. */
export type Prepared = Pick<Quantized, "values" | "factor" | "parts">;

export interface ProductOptions {
  /** The contracted dim of left and of right. */
  readonly contract: readonly [0 | 1, 0 | 1];
  readonly out: DType;
}

/**
 * left × right over one dim of each. Outer scales multiply after the sum, one after the other (their product could
 * underflow), before the one rounding to `out`; scales of parts multiply the sum over each part.
 */
export function product(left: Prepared, right: Prepared, { contract, out }: ProductOptions): Tensor {
  // A plain float32 operand takes the other, exactly, to float32.
  const dtype = left.values.dtype === right.values.dtype ? left.values.dtype : "float32";
  const [a, b] = [left.values.astype(dtype), right.values.astype(dtype)];
  const factors = [left.factor && asColumn(left.factor), right.factor].filter((factor) => factor !== undefined);
  const parts = { left: left.parts, right: right.parts };
  if (parts.left || parts.right) return scaleSums(sumOfParts(a, b, contract, parts), factors).astype(out);
  const dims = [[contract[0]], [contract[1]]] as const;
  if (factors.length === 0) return dot(a, b, { contract: dims, out });
  return scaleSums(dot(a, b, { contract: dims, out: "float32" }), factors).astype(out);
}

const scaleSums = (sums: Tensor, factors: readonly Tensor[]): Tensor => factors.reduce((y, f) => y.mul(f), sums);

/** One number for each row of the product. */
const asColumn = (factor: Tensor): Tensor => (factor.rank === 0 ? factor : factor.reshape([-1, 1]));

/** float32 Σ over parts of (product of the part) · scale of left · scale of right. */
function sumOfParts(
  a: Tensor,
  b: Tensor,
  [p, q]: readonly [0 | 1, 0 | 1],
  { left, right }: { readonly left: PartScales | undefined; readonly right: PartScales | undefined },
): Tensor {
  const inner = a.shape[p]!;
  const length = Math.min(left ? partLength(left, p) : inner, right ? partLength(right, q) : inner);
  const partAt = (start: number): Tensor => {
    const size = Math.min(length, inner - start);
    const sum = dot(a.narrow(p, start, size), b.narrow(q, start, size), { contract: [[p], [q]], out: "float32" });
    const ofLeft = left && asColumn(scalesAt(left, p, start, a.shape[1 - p]!));
    const ofRight = right && scalesAt(right, q, start, b.shape[1 - q]!);
    return scaleSums(
      sum,
      [ofLeft, ofRight].filter((scales) => scales !== undefined),
    );
  };
  return Array.from({ length: Math.ceil(inner / length) }, (_, i) => partAt(i * length)).reduce((sum, part) =>
    sum.add(part),
  );
}

const partLength = ({ block }: PartScales, contracted: 0 | 1): number =>
  contracted === 1 ? block.columns : block.rows;

/** Scales of the blocks at `start` of the contracted dim: one for each of the `size` indices of the other, tiles' repeated. */
function scalesAt(parts: PartScales, contracted: 0 | 1, start: number, size: number): Tensor {
  const ofBlocks = parts.scales.at(contracted, Math.floor(start / partLength(parts, contracted)));
  const repeats = contracted === 1 ? parts.block.rows : parts.block.columns;
  if (repeats === 1) return ofBlocks;
  return ofBlocks.expandDims(1).broadcastTo([ofBlocks.shape[0]!, repeats]).reshape([-1]).narrow(0, 0, size);
}
