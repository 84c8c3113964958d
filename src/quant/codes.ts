/**
 * Values on a format's grid as the bits that memory holds: sign, exponent, mantissa. By integer arithmetic, since the
 * converts of XLA's CPU code to 8 and 4 bits are several times slower.
 */
import { full, iota, type Tensor, where } from "../core/index.ts";
import type { NarrowFormat } from "./formats.ts";

const float32Mantissa = 23;
const float32Bias = 127;
/** 2^-127, the value of E8M0's byte 0, as a float32. */
const smallestPower = 0x400000;

/** Bits of a code without its sign: 3 for E2M1, 7 for E4M3 and E5M2. */
const magnitudeBits = ({ name }: NarrowFormat): number => (name === "e2m1" || name === "int4" ? 3 : 7);

/** What the bits of a float32, cut to the format's mantissa, exceed its code by, where the value is normal. */
const codeBias = ({ minExponent, mantissaBits }: NarrowFormat): number =>
  (float32Bias + minExponent - 1) << mantissaBits;

/** Codes, uint8 of x's shape, of float32 values that the format has. Not for NaN: narrow formats hide or lack it. */
export function toCodes(x: Tensor, format: NarrowFormat): Tensor {
  const { minExponent, mantissaBits } = format;
  const bits = x.bitcast("uint32");
  const magnitude = bits.and(0x7fffffff);
  const normal = magnitude
    .shiftRight(float32Mantissa - mantissaBits)
    .bitcast("int32")
    .sub(codeBias(format));
  const subnormal = x
    .abs()
    .mul(2 ** (mantissaBits - minExponent))
    .astype("int32");
  const code = where(x.abs().ge(2 ** minExponent), normal, subnormal);
  const sign = bits.shiftRight(31).shiftLeft(magnitudeBits(format)).bitcast("int32");
  return code.or(sign).astype("uint8");
}

/** The float32 values of codes (uint8). The inverse of `toCodes`. */
export function fromCodes(codes: Tensor, format: NarrowFormat): Tensor {
  const { minExponent, mantissaBits } = format;
  const signBit = magnitudeBits(format);
  const wide = codes.astype("uint32");
  const magnitude = wide.and(2 ** signBit - 1);
  const normal = magnitude
    .add(codeBias(format))
    .shiftLeft(float32Mantissa - mantissaBits)
    .bitcast("float32");
  const subnormal = magnitude
    .bitcast("int32")
    .astype("float32")
    .mul(2 ** (minExponent - mantissaBits));
  const value = where(magnitude.ge(2 ** mantissaBits), normal, subnormal);
  return value.bitcast("uint32").or(wide.shiftRight(signBit).shiftLeft(31)).bitcast("float32");
}

/** Pairs of 4-bit codes along a dim of even size as one byte each, the even index in the low four bits. */
export function packPairs(codes: Tensor, dim: number): Tensor {
  const pairs = codes.reshape(codes.shape.flatMap((size, d) => (d === dim ? [size / 2, 2] : [size])));
  return pairs.at(dim + 1, 0).or(pairs.at(dim + 1, 1).shiftLeft(4));
}

/** The inverse of `packPairs`. */
export function unpackPairs(packed: Tensor, dim: number): Tensor {
  const pair = [...packed.shape.slice(0, dim + 1), 2, ...packed.shape.slice(dim + 1)];
  const shifts = iota(pair, dim + 1, "uint8").shiftLeft(2);
  return packed
    .expandDims(dim + 1)
    .broadcastTo(pair)
    .shiftRight(shifts)
    .and(15)
    .reshape(packed.shape.map((size, d) => (d === dim ? 2 * size : size)));
}

/** E8M0 bytes of powers of two (float32, 2^-127 a denormal): their exponent field. Never 255, which would be NaN. */
export const toExponents = (x: Tensor): Tensor => x.bitcast("uint32").shiftRight(float32Mantissa).astype("uint8");

/** The inverse of `toExponents`. */
export function fromExponents(bytes: Tensor): Tensor {
  const bits = bytes.astype("uint32").shiftLeft(float32Mantissa);
  return where(bits.gt(0), bits, full(bits.shape, smallestPower, "uint32")).bitcast("float32");
}
