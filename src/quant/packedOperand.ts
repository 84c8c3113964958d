/**
 * Quantized operands as memory would hold them between forward and backward pass: codes of the elements, two a byte where
 * they have four bits, paired along the dim that the GEMM sums over; a byte for each block's scale; float32 for the rest.
 * What is unpacked has the bits of what was packed.
 */
import { checkpointName, concat, optimizationBarrier, type Tensor, zeros } from "../core/index.ts";
import { type BlockSize, blockView, padToBlocks, perBlock } from "./blocks.ts";
import { fromCodes, fromExponents, packPairs, toCodes, toExponents, unpackPairs } from "./codes.ts";
import { type ElementName, e4m3, formats } from "./formats.ts";
import type { Prepared } from "./gemm.ts";
import type { OperandSpec, QuantizedOperand } from "./precision.ts";
import { exactBfloat16, type PartScales, type Quantized } from "./quantize.ts";

/** A packed operand: Tensors, with what is known beside them. */
export interface PackedOperand {
  readonly element: ElementName;
  /** What scales are stored as. */
  readonly scaleFormat: "e4m3" | "e8m0" | "fp32";
  /** uint8. */
  readonly codes: Tensor;
  /** Scales of blocks that the values hold: bytes, or float32. */
  readonly scales?: Tensor;
  readonly factor?: Tensor;
  readonly parts?: PartScales;
  /** Size of the values along `dim`, which pairs may round up. */
  readonly size: number;
  /** The dim that the GEMM sums over. */
  readonly dim: 0 | 1;
  readonly block: BlockSize;
}

const isFourBit = (element: ElementName): boolean => element === "e2m1" || element === "int4";

/** Scales that are bytes in memory; those of EDEN, which corrects them, stay float32 here. */
function scaleFormatOf({ scale, rounding }: QuantizedOperand): PackedOperand["scaleFormat"] {
  return rounding !== "eden" && (scale.type === "e4m3" || scale.type === "e8m0") ? scale.type : "fp32";
}

export interface PackOptions {
  /** The dim that the GEMM sums over. */
  readonly dim: 0 | 1;
  /** By which remat policies keep the packed operand. */
  readonly name?: string;
}

const packedOf = new WeakMap<Quantized, Partial<Record<0 | 1, PackedOperand>>>();

const isQuantized = (prepared: Prepared): prepared is Quantized => "elements" in prepared;

/** Packs an operand, once for all layers that read it; undefined for one that is not quantized. */
export function packOperand(
  prepared: Prepared,
  spec: OperandSpec,
  { dim, name }: PackOptions,
): PackedOperand | undefined {
  if (spec.element === "plain" || !isQuantized(prepared)) return undefined;
  const { elements, decode, factor, parts, block } = prepared;
  const known = packedOf.get(prepared)?.[dim];
  if (known !== undefined) return known;
  const { element } = spec;
  const scaleFormat = scaleFormatOf(spec);
  const codes = toCodes(elements, formats[element]);
  const scales = decode && packScales(decode, scaleFormat);
  // Behind a barrier, or packing and unpacking would become one loop over what is packed.
  const [kept, keptScales] = optimizationBarrier([
    isFourBit(element) ? packPairs(evenAlong(codes, dim), dim) : codes,
    ...(scales ? [scales] : []),
  ]) as [Tensor, Tensor?];
  const named = (x: Tensor) => (name === undefined ? x : checkpointName(x, name));
  const packed: PackedOperand = {
    element,
    scaleFormat,
    codes: named(kept),
    ...(keptScales && { scales: named(keptScales) }),
    ...(factor && { factor }),
    ...(parts && { parts }),
    size: codes.shape[dim]!,
    dim,
    block,
  };
  packedOf.set(prepared, { ...packedOf.get(prepared), [dim]: packed });
  return packed;
}

/** Codes with one more 0 along a dim of odd size. */
function evenAlong(codes: Tensor, dim: 0 | 1): Tensor {
  if (codes.shape[dim]! % 2 === 0) return codes;
  const one = codes.shape.map((size, d) => (d === dim ? 1 : size));
  return concat([codes, zeros(one, codes.dtype)], dim);
}

/** A block that holds a NaN or an infinity has a scale that is none: E8M0's byte 255, which no file gets. */
function packScales(decode: Tensor, format: PackedOperand["scaleFormat"]): Tensor {
  if (format === "e4m3") return toCodes(decode, e4m3);
  return format === "e8m0" ? toExponents(decode) : decode;
}

function unpackScales(scales: Tensor, format: PackedOperand["scaleFormat"]): Tensor {
  if (format === "e4m3") return fromCodes(scales, e4m3);
  return format === "e8m0" ? fromExponents(scales) : scales;
}

const unpackedOf = new WeakMap<Tensor, Prepared>();

/** Zeros of the bits of x's first element, in uint8: a value that programs can't know before x is there. */
function zeroAfter(x: Tensor): Tensor {
  const first = x.slice([0, 0], [1, 1]).reshape([]);
  const bits = first.dtype === "float32" ? first.bitcast("uint32") : first.bitcast("uint16").astype("uint32");
  return bits.and(0xff).shiftRight(8).astype("uint8");
}

/**
 * The operand as its GEMM reads it, unpacked once for all layers that read it, and not before `dy` is there: else a program could
 * unpack it in the forward pass.
 */
export function unpackOperand(packed: PackedOperand, dy: Tensor): Prepared {
  const known = unpackedOf.get(packed.codes);
  if (known !== undefined) return known;
  const { element, scaleFormat, scales, factor, parts, size, dim, block } = packed;
  const codes = packed.codes.or(zeroAfter(dy));
  const whole = isFourBit(element) ? unpackPairs(codes, dim).narrow(dim, 0, size) : codes;
  let elements = fromCodes(whole, formats[element]);
  if (scales !== undefined) {
    const padded = padToBlocks(elements, block);
    const decoded = blockView(padded, block).mul(perBlock(unpackScales(scales, scaleFormat), block));
    elements = decoded.reshape(padded.shape).slice([0, 0], whole.shape);
  }
  const prepared = { values: exactBfloat16(elements), ...(factor && { factor }), ...(parts && { parts }) };
  unpackedOf.set(packed.codes, prepared);
  return prepared;
}
