/**
 * The quantizer: a matrix rounded to a narrow format in blocks that share a scale, as its description says (precision.ts).
 * Scales come from scales.ts; elements are x · e rounded to the format, and x ≈ element · stored scale · outer scale.
 */
import { ShapeError } from "../base/errors.ts";
import { full, showSpec, type Tensor, where } from "../core/index.ts";
import { type DrawStream, randomBits16 } from "../core/random.ts";
import {
  type BlockSize,
  blockStrides,
  blockView,
  largestMagnitude,
  largestMagnitudes,
  padToBlocks,
  perBlock,
} from "./blocks.ts";
import { formats, type NarrowFormat } from "./formats.ts";
import { chooseFourOrSix } from "./fourOverSix.ts";
import { blockLength, type E4m3Scale, isSymmetric, type QuantizedOperand } from "./precision.ts";
import { elementNumbers } from "./random.ts";
import { type RotationMatrix, rotate } from "./rotation.ts";
import { roundNearest, roundStochastic, stochasticBits } from "./rounding.ts";
import { type BlockScales, codeRange, e4m3Scales, e8m0Scales, fp32Scales, outerFactor, poisoned } from "./scales.ts";

/** Along which dim a matrix is quantized, and what is drawn. */
export interface QuantizeOptions {
  /** The dim that the GEMM sums over: "row" is dim 1, whose neighbours lie in a row; "col" is dim 0. */
  readonly axis: "row" | "col";
  /** Applied to groups along that dim first. */
  readonly rotation?: RotationMatrix;
  /** Needed for stochastic rounding. */
  readonly draws?: DrawStream;
  /** Needed where scales are delayed: the scale in force, a float32 scalar. */
  readonly inForce?: Tensor;
}

/** A quantized matrix as the emulated product reads it: x ≈ values · factor, or, in parts, values · its block's scale. */
export interface Quantized {
  /** bfloat16 and exact. x's shape; rotated, the contracted dim is rounded up to whole groups. */
  readonly values: Tensor;
  /** Multiplies the product: a float32 scalar, or one number for each index of the dim that stays. Absent: 1. */
  readonly factor?: Tensor;
  /** Scales that no bfloat16 can hold multiply parts of the sum. */
  readonly parts?: PartScales;
  /** The largest magnitudes that the outer or only float32 scales come from, as far as there are such. */
  readonly amax: Tensor | undefined;
  /** What was rounded: x, perhaps rotated. */
  readonly source: Tensor;
  /** The rounded elements: float32 on the format's grid, in the shape of `values`. */
  readonly elements: Tensor;
  /** The stored scales' values, float32, one a block (of the padded matrix); a scalar for a whole tensor. */
  readonly scales: Tensor;
  readonly block: BlockSize;
}

/** Scales of blocks that multiply parts of a sum. */
export interface PartScales {
  /** float32, one a block. */
  readonly scales: Tensor;
  readonly block: BlockSize;
}

/** The extent of a block in a matrix whose dim `axis` is summed over; 1×1 stands for the whole tensor. */
export function blockSize({ block }: QuantizedOperand, axis: "row" | "col"): BlockSize {
  const length = blockLength(block) ?? 1;
  if (isSymmetric(block)) return { rows: length, columns: length };
  return axis === "row" ? { rows: 1, columns: length } : { rows: length, columns: 1 };
}

/**
 * Quantizes x [M, N] (bfloat16 or float32). Dims that are no multiple of a block are padded with zeros inside. A NaN or
 * infinity in x makes `factor` or what it touches in `values` not finite. @throws ShapeError
 */
export function quantize(x: Tensor, operand: QuantizedOperand, options: QuantizeOptions): Quantized {
  const { axis, rotation, draws, inForce } = options;
  if (x.rank !== 2 || (x.dtype !== "bfloat16" && x.dtype !== "float32")) {
    throw new ShapeError(`quantize takes a bfloat16 or float32 matrix; got ${showSpec(x)}`);
  }
  const format = formats[operand.element];
  const size = blockSize(operand, axis);
  const source = rotation ? rotate(x, rotation, axis) : x;
  const padded = padToBlocks(source, size);
  const view = blockView(padded, size).astype("float32");
  const toMatrix = (blocks: Tensor) => blocks.reshape(padded.shape).slice([0, 0], source.shape);
  const round = (scaled: Tensor): Tensor => {
    if (operand.rounding === "nearest") return roundNearest(scaled, format);
    if (draws === undefined) throw new ShapeError("quantize: stochastic rounding needs `draws`");
    const bits = operand.rounding === "stochastic8" ? 8 : stochasticBits;
    const counters = elementNumbers(scaled.shape, blockStrides(source.shape[1]!, size));
    return roundStochastic(scaled, format, randomBits16(draws, counters), bits);
  };
  const { stored, decode, elements, ...outer } = scaleAndRound({
    ...{ operand, format, padded, size, view, axis, round },
    ...(inForce && { inForce }),
  });
  const values = decode === undefined ? elements : elements.mul(perBlock(decode, size));
  return {
    ...outer,
    source,
    values: toMatrix(exactBfloat16(values)),
    elements: toMatrix(elements),
    scales: stored,
    block: size,
  };
}

interface Scaling {
  readonly operand: QuantizedOperand;
  readonly format: NarrowFormat;
  /** x, perhaps rotated, padded to whole blocks. */
  readonly padded: Tensor;
  readonly size: BlockSize;
  /** `padded` cut into blocks, float32. */
  readonly view: Tensor;
  readonly axis: "row" | "col";
  readonly round: (scaled: Tensor) => Tensor;
  readonly inForce?: Tensor;
}

interface Scaled extends Pick<Quantized, "factor" | "parts" | "amax" | "elements"> {
  readonly stored: Tensor;
  /** What elements are multiplied by to give `values`; absent: 1. */
  readonly decode?: Tensor;
}

function scaleAndRound(scaling: Scaling): Scaled {
  const { operand, format, padded, size, view, axis, round } = scaling;
  const { scale, block } = operand;
  const elementsOf = ({ encode }: BlockScales) => round(view.mul(perBlock(encode, size)));
  if (block === "tensor") {
    const amax = largestMagnitude(padded);
    const scales =
      operand.scale.type === "delayed" ? scalesInForce(scaling) : fp32Scales(amax, operand.scale, format, padded.dtype);
    const elements = round(view.mul(scales.encode));
    return { amax, stored: scales.stored, factor: poisoned(scales.stored, amax), elements };
  }
  const { ofBlocks, ofMatrix } = largestMagnitudes(padded, size);
  switch (scale.type) {
    case "e4m3": {
      const amax = scale.outer === "tensor" ? ofMatrix : largestOfRows(ofBlocks, axis);
      const spread = scale.outer === "tensor" || axis === "col" ? amax : amax.reshape([-1, 1]);
      const factor = outerFactor(amax, codeRange(scale, format));
      if (scale.fourOverSix !== undefined) {
        const { stored, elements } = chooseFourOrSix({ view, ofBlocks, amax: spread, size, scale, format, round });
        return { amax, factor, stored, decode: stored, elements };
      }
      const scales = e4m3Scales(ofBlocks, spread, scale, format);
      return { amax, factor, stored: scales.stored, decode: scales.stored, elements: elementsOf(scales) };
    }
    case "e8m0": {
      const scales = e8m0Scales(ofBlocks, scale, format);
      const { stored } = scales;
      return { amax: undefined, stored, decode: poisoned(stored, ofBlocks), elements: elementsOf(scales) };
    }
    case "fp32": {
      const scales = fp32Scales(ofBlocks, scale, format, padded.dtype);
      const decode = poisoned(scales.stored, ofBlocks);
      const common = { amax: ofBlocks, stored: scales.stored, elements: elementsOf(scales) };
      return scale.powerOfTwo ? { ...common, decode } : { ...common, parts: { scales: decode, block: size } };
    }
  }
}

function scalesInForce({ inForce }: Scaling): BlockScales {
  if (inForce === undefined) throw new ShapeError("quantize: a delayed scale needs `inForce`");
  return { encode: inForce, stored: full([], 1, "float32").div(inForce) };
}

/** Of blocks [M / rows, N / columns], the largest along the contracted dim. */
const largestOfRows = (ofBlocks: Tensor, axis: "row" | "col"): Tensor => ofBlocks.maxOver(axis === "row" ? 1 : 0);

/** A float32 that bfloat16 holds exactly, converted by cutting its low bits: a quarter of the work of rounding. */
function exactBfloat16(x: Tensor): Tensor {
  return x.bitcast("uint32").shiftRight(16).astype("uint16").bitcast("bfloat16");
}

/** x̂ in float32, in the shape of `values`: the order of operations of decoders, q · (s · A / C). */
export function dequantize(quantized: Quantized, { element, scale }: QuantizedOperand): Tensor {
  const { elements, scales, amax, block } = quantized;
  const padded = padToBlocks(elements, block);
  const decode = scale.type === "e4m3" ? outerDecode(scales, amax!, scale, formats[element]) : scales;
  const decoded = blockView(padded, block).mul(perBlock(decode, block));
  return decoded.reshape(padded.shape).slice([0, 0], elements.shape);
}

function outerDecode(scales: Tensor, amax: Tensor, scale: E4m3Scale, format: NarrowFormat): Tensor {
  // One maximum a row of blocks: the dim of `scales` that has as many.
  const rows = amax.rank === 1 && scales.shape[0] === amax.shape[0] ? amax.reshape([-1, 1]) : amax;
  // A scale times a large maximum would overflow, though what is decoded does not: those are taken 2^-12 times, exactly.
  const isLarge = rows.gt(2 ** 100);
  const either = (large: number) => where(isLarge, full(rows.shape, large, "float32"), full(rows.shape, 1, "float32"));
  return scales
    .mul(rows.mul(either(2 ** -12)))
    .mul(1 / codeRange(scale, format))
    .mul(either(2 ** 12));
}
