/**
 * The quantizer: a matrix rounded to a narrow format in blocks that share a scale, as its description says (precision.ts).
 * Scales come from scales.ts; elements are x · e rounded to the format, and x ≈ element · stored scale · outer scale.
 */
import { ShapeError } from "../base/errors.ts";
import { full, showSpec, type Tensor, where } from "../core/index.ts";
import { type DrawStream, randomBits16 } from "../core/random.ts";
import { largestOfGroups, perBlockOfGroups } from "./blockGroups.ts";
import {
  type BlockSize,
  blockStrides,
  blockView,
  largestMagnitude,
  largestMagnitudes,
  largestMagnitudesAlong,
  padToBlocks,
  perBlock,
} from "./blocks.ts";
import { edenRound } from "./eden.ts";
import { formats, type NarrowFormat } from "./formats.ts";
import { chooseFourOrSix } from "./fourOverSix.ts";
import { blockLength, type E4m3Scale, isSymmetric, type QuantizedOperand } from "./precision.ts";
import { elementNumbers } from "./random.ts";
import { type RotationMatrix, rotate } from "./rotation.ts";
import { roundNearest, roundStochastic, stochasticBits } from "./rounding.ts";
import {
  type BlockScales,
  codeRange,
  e4m3Scales,
  e8m0Scales,
  fp32Scales,
  outerFactor,
  poisoned,
  spreadScales,
} from "./scales.ts";

/** Along which dim a matrix is quantized, and what is drawn. */
export interface QuantizeOptions {
  /** The dim that the GEMM sums over: "row" is dim 1, whose neighbours lie in a row; "col" is dim 0. */
  readonly axis: "row" | "col";
  /** Applied to groups along that dim first. EDEN needs it. */
  readonly rotation?: RotationMatrix;
  /** Needed for stochastic rounding, of elements or of scales. */
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
  /** What was rounded to them: x times its block's encode scale. */
  readonly scaled: () => Tensor;
  /**
   * The stored scales' values, float32, one a block (of the padded matrix); a scalar for a whole tensor, [M, 1] or [1, N]
   * for rows.
   */
  readonly scales: Tensor;
  /** What `elements` were multiplied by to give `values`, float32, one a block; absent: nothing. */
  readonly decode?: Tensor;
  readonly block: BlockSize;
}

/** Scales of blocks that multiply parts of a sum. */
export interface PartScales {
  /** float32, one a block. */
  readonly scales: Tensor;
  readonly block: BlockSize;
}

/** The extent of a block in a matrix whose dim `axis` is summed over; 1×1 stands for the whole row or tensor. */
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
  const needed = (): DrawStream => {
    if (draws === undefined) throw new ShapeError(`quantize: ${operand.rounding} rounding needs \`draws\``);
    return draws;
  };
  const round = (scaled: Tensor): Tensor => {
    if (operand.rounding === "nearest") return roundNearest(scaled, format);
    const bits = operand.rounding === "stochastic8" ? 8 : stochasticBits;
    const counters = elementNumbers(scaled.shape, blockStrides(source.shape[1]!, size));
    return roundStochastic(scaled, format, randomBits16(needed(), counters), bits);
  };
  const correct = (scales: BlockScales): RoundedBlocks => {
    if (rotation === undefined) throw new ShapeError("quantize: eden needs a rotation");
    return edenRound({ view, size, scales, format, group: rotation.size, draws: needed() });
  };
  const scaling = { operand, format, padded, size, view, axis, round, correct, ...(inForce && { inForce }) };
  const { stored, decode, elements, scaled, ...outer } = scaleAndRound(scaling);
  const values = decode === undefined ? elements : elements.mul(perBlock(decode, size));
  return {
    ...outer,
    ...(decode && { decode }),
    source,
    values: toMatrix(exactBfloat16(values)),
    elements: toMatrix(elements),
    scaled: () => toMatrix(scaled),
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
  /** Rounds elements one by one. */
  readonly round: (scaled: Tensor) => Tensor;
  readonly inForce?: Tensor;
  /** Rounds elements to nearest and corrects the scales. */
  readonly correct: (scales: BlockScales) => RoundedBlocks;
}

/** Elements in blocks, before and after rounding, and the scales that are stored. */
interface RoundedBlocks {
  readonly stored: Tensor;
  readonly scaled: Tensor;
  readonly elements: Tensor;
}

interface Scaled extends Pick<Quantized, "factor" | "parts" | "amax">, RoundedBlocks {
  /** What elements are multiplied by to give `values`; absent: 1. */
  readonly decode?: Tensor;
}

function scaleAndRound(scaling: Scaling): Scaled {
  const { operand, format, padded, size, view, axis, round } = scaling;
  const { scale, block } = operand;
  const rounded = ({ stored, encode }: BlockScales): RoundedBlocks => {
    const scaled = view.mul(perBlock(encode, size));
    return { stored, scaled, elements: round(scaled) };
  };
  if (block === "tensor") {
    const amax = largestMagnitude(padded);
    const scales =
      operand.scale.type === "delayed" ? scalesInForce(scaling) : fp32Scales(amax, operand.scale, format, padded.dtype);
    return { amax, factor: poisoned(scales.stored, amax), ...rounded(scales) };
  }
  if (block === "row") {
    const amax = largestMagnitudesAlong(padded, axis === "row" ? 1 : 0);
    const { stored, encode } = fp32Scales(amax, operand.scale, format, padded.dtype);
    const spread = (ofRows: Tensor) => (axis === "row" ? ofRows.expandDims(1) : ofRows.expandDims(0));
    const scales = { stored: spread(stored), encode: spread(encode) };
    return { amax, factor: poisoned(stored, amax), ...rounded(scales) };
  }
  const { ofBlocks, ofMatrix } = largestMagnitudes(padded, size);
  switch (scale.type) {
    case "e4m3": {
      const { spread, ...outer } = outerScales(scale, { ofBlocks, ofMatrix, size, axis, format });
      if (operand.rounding === "eden") {
        // A block that is nothing beside the tensor's largest value counts nothing in its group either.
        const corrected = scaling.correct(e4m3Scales(ofBlocks, spread, scale, format, 1));
        return { ...outer, ...corrected, decode: corrected.stored };
      }
      const blocks =
        scale.fourOverSix === undefined
          ? rounded(e4m3Scales(ofBlocks, spread, scale, format))
          : chooseFourOrSix({ view, ofBlocks, amax: spread, size, scale, format, round });
      return { ...outer, ...blocks, decode: blocks.stored };
    }
    case "e8m0": {
      const isSpread = scale.statistic === "std";
      const blocks = rounded(isSpread ? spreadScales(view, size, scale, format) : e8m0Scales(ofBlocks, scale, format));
      const gain = isSpread ? 1 : (scale.gain ?? 1);
      const factor = gain === 1 ? {} : { factor: full([], gain, "float32") };
      return { amax: undefined, ...factor, ...blocks, decode: poisoned(blocks.stored, ofBlocks) };
    }
    case "fp32": {
      const blocks = rounded(fp32Scales(ofBlocks, scale, format, padded.dtype));
      const decode = poisoned(blocks.stored, ofBlocks);
      const common = { amax: ofBlocks, ...blocks };
      return scale.powerOfTwo ? { ...common, decode } : { ...common, parts: { scales: decode, block: size } };
    }
  }
}

function scalesInForce({ inForce }: Scaling): BlockScales {
  if (inForce === undefined) throw new ShapeError("quantize: a delayed scale needs `inForce`");
  return { encode: inForce, stored: full([], 1, "float32").div(inForce) };
}

interface OuterInput {
  readonly ofBlocks: Tensor;
  readonly ofMatrix: Tensor;
  readonly size: BlockSize;
  readonly axis: "row" | "col";
  readonly format: NarrowFormat;
}

interface OuterScales extends Pick<Quantized, "factor" | "parts"> {
  /** The largest magnitude of all that an outer scale covers. */
  readonly amax: Tensor;
  /** `amax` in a shape that broadcasts against the blocks. */
  readonly spread: Tensor;
}

/** Elements that a group's outer scale covers. */
const groupLength = 128;

/** The float32 scales above the blocks': a factor of the product, or, where they change along the sum, of its parts. */
function outerScales(scale: E4m3Scale, { ofBlocks, ofMatrix, size, axis, format }: OuterInput): OuterScales {
  const range = codeRange(scale, format);
  if (scale.outer === "1x128") {
    const count = groupLength / Math.max(size.rows, size.columns);
    const amax = largestOfGroups(ofBlocks, size, count);
    const block = axis === "row" ? { rows: 1, columns: groupLength } : { rows: groupLength, columns: 1 };
    const spread = perBlockOfGroups(amax, size, count, ofBlocks.shape[axis === "row" ? 1 : 0]!);
    return { amax, spread, parts: { scales: outerFactor(amax, range), block } };
  }
  const amax = scale.outer === "tensor" ? ofMatrix : largestOfRows(ofBlocks, axis);
  const spread = scale.outer === "tensor" || axis === "col" ? amax : amax.reshape([-1, 1]);
  return { amax, spread, factor: outerFactor(amax, range) };
}

/** Of blocks [M / rows, N / columns], the largest along the contracted dim. */
const largestOfRows = (ofBlocks: Tensor, axis: "row" | "col"): Tensor => ofBlocks.maxOver(axis === "row" ? 1 : 0);

/** A float32 that bfloat16 holds exactly, converted by cutting its low bits: a quarter of the work of rounding. */
export function exactBfloat16(x: Tensor): Tensor {
  return x.bitcast("uint32").shiftRight(16).astype("uint16").bitcast("bfloat16");
}

/** x̂ in float32, in the shape of `values`: the order of operations of decoders, q · (s · A / C). */
export function dequantize(quantized: Quantized, { element, scale }: QuantizedOperand): Tensor {
  const { elements, scales, factor, block } = quantized;
  const padded = padToBlocks(elements, block);
  let decode = scales;
  if (scale.type === "e4m3") decode = outerDecode(quantized, codeRange(scale, formats[element]));
  else if (scale.type === "e8m0" && factor !== undefined) decode = scales.mul(factor);
  const decoded = blockView(padded, block).mul(perBlock(decode, block));
  return decoded.reshape(padded.shape).slice([0, 0], elements.shape);
}

function outerDecode(quantized: Quantized, range: number): Tensor {
  const amax = amaxOfBlocks(quantized);
  // A scale times a large maximum would overflow, though what is decoded does not: those are taken 2^-12 times, exactly.
  const isLarge = amax.gt(2 ** 100);
  const either = (large: number) => where(isLarge, full(amax.shape, large, "float32"), full(amax.shape, 1, "float32"));
  return quantized.scales
    .mul(amax.mul(either(2 ** -12)))
    .mul(1 / range)
    .mul(either(2 ** 12));
}

/** The largest magnitudes behind outer scales, in a shape that broadcasts against the scales of blocks. */
export function amaxOfBlocks({ amax, scales, parts, block }: Quantized): Tensor {
  const [rows, columns] = scales.shape as [number, number];
  if (parts !== undefined) {
    const along = block.columns === 1 ? "rows" : "columns";
    return perBlockOfGroups(amax!, block, parts.block[along] / block[along], along === "rows" ? rows : columns);
  }
  // One maximum a row of blocks: the dim of `scales` that has as many.
  return amax!.rank === 1 && rows === amax!.shape[0] ? amax!.reshape([-1, 1]) : amax!;
}
