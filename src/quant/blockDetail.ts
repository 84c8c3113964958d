/**
 * One block of a quantized matrix, number by number, in plain arithmetic: how its scale came about, and what became of each
 * element. For people who want to see a recipe at work; the quantizer itself is quantize.ts, and what is told here is its result.
 */
import { encode } from "../core/codecs.ts";
import { full, stack, type Tensor } from "../core/index.ts";
import type { BlockSize } from "./blocks.ts";
import { formats, type NarrowFormat } from "./formats.ts";
import { type OperandPlace, quantizedAt } from "./operands.ts";
import { contractedDim, isDelayed, type QuantizedOperand } from "./precision.ts";
import { amaxOfBlocks, blockSize, dequantize } from "./quantize.ts";
import { codeRange } from "./scales.ts";

/** A quantized matrix on the host; see `Quantized`. */
export interface QuantizedValues {
  readonly shape: readonly [rows: number, columns: number];
  readonly source: Float32Array;
  /** What was rounded to `elements`. */
  readonly scaled: Float32Array;
  readonly elements: Float32Array;
  readonly decoded: Float32Array;
  /** One a block of the padded matrix, row-major; one alone for a whole tensor; one for each index of the dim that stays. */
  readonly scales: Float32Array;
  /** A of each block, where there is an outer scale. */
  readonly outerAmax: Float32Array | undefined;
  readonly block: BlockSize;
}

/** An element on its way. */
export interface ElementDetail {
  readonly row: number;
  readonly column: number;
  /** x, rotated where the GEMM is. */
  readonly value: number;
  /** x · e, before rounding. */
  readonly scaled: number;
  /** The format's neighbours of `scaled`, its largest value at most. */
  readonly below: number;
  readonly above: number;
  /** Chance of the one farther from 0, where rounding is stochastic. */
  readonly chanceAway?: number;
  /** What it was rounded to. */
  readonly rounded: number;
  /** The code's bits; absent for formats that no dtype has. */
  readonly code?: number;
  readonly decoded: number;
  /** decoded − value */
  readonly error: number;
}

/** What a block's scale came from, and its elements. */
export interface BlockDetail {
  /** The block's place among the blocks. */
  readonly row: number;
  readonly column: number;
  readonly size: BlockSize;
  /** a: largest magnitude of the block. */
  readonly blockAmax: number;
  /** A: largest magnitude of what the outer scale covers, where there is one. */
  readonly outerAmax?: number;
  /** S: encode scale of what A is of. */
  readonly outerScale?: number;
  /** The block's scale before it was rounded to its format; absent where it is not rounded, or chosen of two. */
  readonly scaleBefore?: number;
  /** The stored scale. */
  readonly scale: number;
  /** Its bits: of a byte for E4M3 and E8M0, of a float32. */
  readonly scaleBits: number;
  readonly scaleDType: "float8_e4m3fn" | "float8_e8m0fnu" | "float32";
  /** e: what elements are multiplied by before they are rounded. */
  readonly encodeScale?: number;
  readonly elements: readonly ElementDetail[];
  /** 10·log10(Σ x² / Σ error²), dB. */
  readonly snrDb: number;
}

/** What `QuantizedValues` hold, as Tensors: x quantized at its place. @param scaleInForce where it is delayed */
export function quantizedTensors(x: Tensor, operand: QuantizedOperand, place: OperandPlace, scaleInForce = 1) {
  const inForce = isDelayed(operand) ? full([], scaleInForce, "float32") : undefined;
  const site = { ...place.site, ...(inForce && { taps: { scales: stack([inForce, inForce, inForce], 0) } }) };
  const quantized = quantizedAt(x, operand, { ...place, site });
  const { source, elements, scales } = quantized;
  return {
    source: source.astype("float32"),
    elements,
    scaled: quantized.scaled(),
    decoded: dequantize(quantized, operand),
    scales,
    outerAmax:
      operand.scale.type === "e4m3" ? amaxOfBlocks(quantized).broadcastTo(scales.shape) : full([], 0, "float32"),
  };
}

/** The dim that the GEMM sums over, and the blocks of an operand along it. */
export function blocksAt(operand: QuantizedOperand, { gemm, operand: side }: Pick<OperandPlace, "gemm" | "operand">) {
  const axis = contractedDim[gemm][side] === 1 ? ("row" as const) : ("col" as const);
  return { axis, block: blockSize(operand, axis) };
}

const f = Math.fround;
const maxFloat32 = 3.4028234663852886e38;
/** Elements shown together where one scale is that of the whole tensor. */
const wholeTensorWindow = 16;

/** Numbers of blocks along both dims; of a whole tensor's scale, of windows along the dim that the GEMM sums over. */
export function blockGrid({ shape, block }: Pick<QuantizedValues, "shape" | "block">, axis: "row" | "col") {
  const size = shownSize(block, axis);
  return { size, rows: Math.ceil(shape[0] / size.rows), columns: Math.ceil(shape[1] / size.columns) };
}

function shownSize(block: BlockSize, axis: "row" | "col"): BlockSize {
  if (block.rows * block.columns > 1) return block;
  return axis === "row" ? { rows: 1, columns: wholeTensorWindow } : { rows: wholeTensorWindow, columns: 1 };
}

/** @param place which block; within the grid */
export function blockDetail(
  quantized: QuantizedValues,
  operand: QuantizedOperand,
  place: { readonly row: number; readonly column: number; readonly axis: "row" | "col" },
): BlockDetail {
  const { shape, source, scaled, elements, decoded, scales, outerAmax } = quantized;
  const format = formats[operand.element];
  const { size, columns } = blockGrid(quantized, place.axis);
  const cells: { row: number; column: number; at: number }[] = [];
  const end = {
    row: Math.min(shape[0], (place.row + 1) * size.rows),
    column: Math.min(shape[1], (place.column + 1) * size.columns),
  };
  for (let row = place.row * size.rows; row < end.row; row++) {
    for (let column = place.column * size.columns; column < end.column; column++) {
      cells.push({ row, column, at: row * shape[1] + column });
    }
  }
  const at = scaleIndex(operand, place, columns);
  const scale = scales[at]!;
  const blockAmax = largest(cells.map((cell) => source[cell.at]!));
  const scaledBy = operand.block === "tensor" ? largest(source) : operand.block === "row" ? undefined : blockAmax;
  const outer = outerOf(operand, outerAmax?.[at]);
  const details = cells.map(({ row, column, at }): ElementDetail => {
    const [value, rounded] = [source[at]!, elements[at]!];
    return {
      row,
      column,
      value,
      scaled: scaled[at]!,
      ...neighbours(scaled[at]!, format, operand.rounding),
      rounded,
      ...(format.dtype !== undefined && { code: encode(format.dtype, rounded) }),
      decoded: decoded[at]!,
      error: decoded[at]! - value,
    };
  });
  return {
    row: place.row,
    column: place.column,
    size,
    blockAmax,
    ...outer,
    ...storedBits(operand, scale),
    ...scaling(operand, { scale, blockAmax: scaledBy, ...outer }),
    scale,
    elements: details,
    snrDb: snrOf(
      details.map(({ value }) => value),
      details.map(({ decoded }) => decoded),
    ),
  };
}

const largest = (values: ArrayLike<number>): number => {
  let most = 0;
  for (let i = 0; i < values.length; i++) {
    const size = Math.abs(values[i]!);
    if (Number.isNaN(size)) return size;
    if (size > most) most = size;
  }
  return most;
};

/** Where the stored scale of a block lies. */
function scaleIndex(
  { block }: QuantizedOperand,
  place: { row: number; column: number; axis: "row" | "col" },
  columns: number,
) {
  if (block === "tensor") return 0;
  if (block === "row") return place.axis === "row" ? place.row : place.column;
  return place.row * columns + place.column;
}

function outerOf({ scale, element }: QuantizedOperand, amax: number | undefined) {
  if (scale.type !== "e4m3" || amax === undefined) return {};
  const usable = amax > 0 && Number.isFinite(amax);
  return {
    outerAmax: amax,
    outerScale: usable ? Math.min(f(codeRange(scale, formats[element]) / amax), maxFloat32) : 1,
  };
}

function storedBits(
  { scale: { type } }: QuantizedOperand,
  scale: number,
): Pick<BlockDetail, "scaleBits" | "scaleDType"> {
  const dtype = type === "e4m3" ? "float8_e4m3fn" : type === "e8m0" ? "float8_e8m0fnu" : "float32";
  const scaleBits = dtype === "float32" ? new Uint32Array(Float32Array.of(scale).buffer)[0]! : encode(dtype, scale);
  return { scaleBits, scaleDType: dtype };
}

interface ScaleInput {
  readonly scale: number;
  readonly blockAmax: number | undefined;
  readonly outerScale?: number;
}

/** The formulas of scales.ts for one block, every operation rounded to float32; nothing where the scale is chosen otherwise. */
function scaling(operand: QuantizedOperand, { scale, blockAmax: a, outerScale: S }: ScaleInput) {
  const { scale: spec, element, rounding } = operand;
  const { max } = formats[element];
  if (a === undefined || rounding === "eden") return {};
  if (spec.type === "e4m3") {
    const before = spec.fourOverSix === undefined ? { scaleBefore: f(a * f(S! * f((spec.gain ?? 1) / max))) } : {};
    return { ...before, encodeScale: Math.min(f(1 / f(scale * f(1 / S!))), maxFloat32) };
  }
  if (spec.type === "e8m0") {
    const isPlain = spec.statistic !== "std" && (spec.gain ?? 1) === 1;
    const before = isPlain
      ? { scaleBefore: spec.round === "up" ? f(a * f(1 / max)) : a / 2 ** Math.floor(Math.log2(max)) }
      : {};
    return { ...before, encodeScale: 1 / scale };
  }
  const usable = a > 0 && Number.isFinite(a);
  return spec.type === "fp32" && !spec.powerOfTwo && usable
    ? { encodeScale: Math.min(f(max / a), maxFloat32) }
    : { encodeScale: f(1 / scale) };
}

/** The values of the format around a scaled one, at most the largest. */
function neighbours(scaled: number, format: NarrowFormat, rounding: QuantizedOperand["rounding"]) {
  const { minExponent, mantissaBits, max } = format;
  const size = Math.abs(scaled);
  if (Number.isNaN(size)) return { below: Number.NaN, above: Number.NaN };
  const limited = Math.min(size, max);
  const exponent = Math.max(minExponent, limited === 0 ? minExponent : Math.floor(Math.log2(limited)));
  const step = 2 ** (exponent - mantissaBits);
  const toZero = Math.floor(limited / step) * step;
  const away = toZero === limited ? toZero : Math.min(max, toZero + step);
  const bits = rounding === "stochastic8" ? 8 : 16;
  const chance = toZero === away ? 0 : Math.floor(((limited - toZero) / step) * 2 ** bits) / 2 ** bits;
  const [below, above] = scaled < 0 ? [-away, -toZero] : [toZero, away];
  return { below, above, ...(rounding.startsWith("stochastic") && { chanceAway: chance }) };
}

/** Signal to noise in dB; infinite without noise, NaN without signal too and where a value is not finite. */
export function snrOf(values: ArrayLike<number>, decoded: ArrayLike<number>): number {
  let [signal, noise] = [0, 0];
  for (let i = 0; i < values.length; i++) {
    signal += values[i]! ** 2;
    noise += (decoded[i]! - values[i]!) ** 2;
  }
  return 10 * Math.log10(signal / noise);
}
