/** What quantization does to a tensor, in numbers: how much of it vanishes, saturates, and is left as noise. */
import { full, stack, type Tensor } from "../core/index.ts";
import { largestMagnitude, largestMagnitudes, largestMagnitudesAlong, padToBlocks } from "./blocks.ts";
import { formats } from "./formats.ts";
import type { QuantizedOperand } from "./precision.ts";
import { dequantize, type Quantized } from "./quantize.ts";
import { codeRange, outerScale } from "./scales.ts";

/** The numbers, in the order in which `quantizationStatistics` gives them. */
export const statisticNames = [
  /** Largest magnitude of the tensor. */
  "amax",
  /** Encode scale of the whole tensor; NaN where it has none. */
  "tensorScale",
  /** Fraction of the elements that are not 0 and become 0. */
  "underflow",
  /** Fraction of the elements beyond the largest value that their scale reaches. */
  "saturated",
  /** Fraction of the blocks that hold zeros alone. */
  "zeroBlocks",
  /** Fraction of the blocks that hold other numbers and decode to zeros alone: their scale is too small, or too large. */
  "scaleUnderflow",
  /** Σ x² */
  "signal",
  /** Σ (x̂ − x)² */
  "noise",
] as const;

export type StatisticName = (typeof statisticNames)[number];

/** float32 [statisticNames.length] of a matrix quantized as `operand` says; of a rotated one, in the rotated space. */
export function quantizationStatistics(quantized: Quantized, operand: QuantizedOperand): Tensor {
  const { source, elements } = quantized;
  const x = source.astype("float32");
  const magnitude = x.abs();
  const decoded = dequantize(quantized, operand);
  const amax = largestMagnitude(source);
  const ofBlocks = largestOfBlocks(source, quantized, operand);
  const lost = largestOfBlocks(decoded, quantized, operand).eq(0);
  const atLimit = elements.abs().eq(formats[operand.element].max);
  const off = decoded.sub(x);
  return stack(
    [
      amax,
      tensorScale(quantized, operand),
      share(magnitude.gt(0).and(decoded.eq(0))),
      share(atLimit.and(decoded.ne(0)).and(magnitude.gt(decoded.abs()))),
      share(ofBlocks.eq(0)),
      share(ofBlocks.gt(0).and(lost)),
      x.mul(x).sum(),
      off.mul(off).sum(),
    ],
    0,
  );
}

/** The largest magnitude in x of what each stored scale is for. */
function largestOfBlocks(x: Tensor, { block, scales }: Quantized, operand: QuantizedOperand): Tensor {
  if (operand.block === "tensor") return largestMagnitude(x);
  // One scale for each row, [M, 1], or for each column, [1, N].
  if (operand.block === "row") return largestMagnitudesAlong(x, scales.shape[0] === x.shape[0] ? 1 : 0);
  return largestMagnitudes(padToBlocks(x, block), block).ofBlocks;
}

/** The same of a matrix that no GEMM quantizes: its magnitude and signal; no scale, no noise. */
export function plainStatistics(x: Tensor): Tensor {
  const wide = x.astype("float32");
  const zero = full([], 0, "float32");
  const noScale = full([], Number.NaN, "float32");
  return stack([largestMagnitude(wide), noScale, zero, zero, zero, zero, wide.mul(wide).sum(), zero], 0);
}

const share = (mask: Tensor): Tensor => mask.astype("float32").mean();

/** The scale of the whole tensor by which elements were multiplied; of row scales the smallest. */
function tensorScale({ scales, amax }: Quantized, { scale, element }: QuantizedOperand): Tensor {
  if (scale.type === "e4m3") return outerScale(amax!.maxOver(), codeRange(scale, formats[element]));
  if (scales.rank > 0) return full([], Number.NaN, "float32");
  return full([], 1, "float32").div(scales);
}
