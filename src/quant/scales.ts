/**
 * Scales of blocks from their largest magnitudes, rule by rule. All in float32, every operation rounded on its own.
 *
 *     e4m3   C = max·bound/gain          S = min(C / A, FLT_MAX), 1 where A is 0 or not finite
 *            s = E4M3(min(a · (S · (gain/max)), 448))      e = min(1 / (s · (1/S)), FLT_MAX)
 *     e8m0   up: s = 2^⌈log2(a · (1/max))⌉     floor: s = 2^(⌊log2 a⌋ − ⌊log2 max⌋)     e = (1/s) · (1/gain)
 *     std    s = 2^⌊log2(σ · (sigmas/max) + 1e-8)⌋, σ² the mean of (x − mean)² over the block, sums left to right     e = 1/s
 *     fp32   e = max / a, at most the largest number, 1 where a is 0 or not finite, perhaps cut to a power of two     s = 1/e
 *
 * a: the block's max|x|; A: that of what the outer scale covers; max: the format's largest value; s: the stored scale, which
 * decodes; e: what elements are multiplied by before they are rounded. E8M0 can't hold a gain, so it decodes as a factor.
 */
import { type DType, full, optimizationBarrier, type Tensor, where } from "../core/index.ts";
import { type BlockSize, blockSums, perBlock } from "./blocks.ts";
import { e4m3, type NarrowFormat } from "./formats.ts";
import type { E4m3Scale, E8m0Scale, Fp32Scale, SpreadScale } from "./precision.ts";
import { roundNearest } from "./rounding.ts";

export interface BlockScales {
  /** The value of the stored scale of each block, float32. */
  readonly stored: Tensor;
  /** The factor of each block's elements before rounding, float32. */
  readonly encode: Tensor;
}

const maxFloat32 = 3.4028234663852886e38;
const maxBfloat16 = 3.3895313892515355e38;

/** C: the largest element times the largest block scale that the outer scale aims at, float32. */
export const codeRange = ({ gain = 1, bound = e4m3.max }: E4m3Scale, { max }: NarrowFormat): number =>
  Math.fround((max * bound) / gain);

/** S: encode scale of what the outer scale covers, whose largest magnitude is `amax`. */
export function outerScale(amax: Tensor, range: number): Tensor {
  const usable = amax.gt(0).and(amax.isFinite());
  return where(usable, full(amax.shape, range, "float32").div(amax).min(maxFloat32), full(amax.shape, 1, "float32"));
}

/** e: encode scales of blocks from their stored scales and S. */
export const encodeScale = (stored: Tensor, outer: Tensor): Tensor =>
  full(stored.shape, 1, "float32")
    .div(stored.mul(full(outer.shape, 1, "float32").div(outer)))
    .min(maxFloat32);

/** Values to E4M3, at most its largest; `zero`, where it is given, in place of 0. */
export function storedE4m3(x: Tensor, zero?: number): Tensor {
  const stored = roundNearest(x.min(e4m3.max), e4m3);
  return zero === undefined ? stored : where(stored.eq(0), full(stored.shape, zero, "float32"), stored);
}

/** What a block scale becomes that rounds to 0, if that is something else. */
export const zeroScale = ({ neverZero = false }: E4m3Scale): number | undefined => (neverZero ? 2 ** -9 : undefined);

/**
 * @param amax scalar, or one for each row or block in a shape that broadcasts against `ofBlocks`
 * @param zero in place of scales that round to 0
 */
export function e4m3Scales(
  ofBlocks: Tensor,
  amax: Tensor,
  scale: E4m3Scale,
  format: NarrowFormat,
  zero = zeroScale(scale),
): BlockScales {
  const S = outerScale(amax, codeRange(scale, format));
  // A flat array is one loop; with one S a row, the blocks keep their rows.
  const blocks = amax.rank === 0 ? ofBlocks.reshape([-1]) : ofBlocks;
  const stored = storedE4m3(blocks.mul(S.mul((scale.gain ?? 1) / format.max)), zero);
  return materialised({ stored, encode: encodeScale(stored, S) }, ofBlocks);
}

const mantissaBits = 23;
const mantissaMask = 0x7fffff;
const exponentMask = 0x7f800000;
/** Magnitudes up to 2^-127, the smallest scale, whose float32 is a denormal. */
const smallestScale = 0x400000;

/** Scales are powers of two; the byte of E8M0 is the exponent field of their float32. */
export function e8m0Scales(ofBlocks: Tensor, { round, gain = 1 }: E8m0Scale, format: NarrowFormat): BlockScales {
  const blocks = ofBlocks.reshape([-1]);
  const field = (bits: Tensor) => bits.shiftRight(mantissaBits).bitcast("int32");
  let exponent: Tensor;
  if (round === "floor") {
    const largest = Math.floor(Math.log2(format.max));
    exponent = field(blocks.bitcast("uint32")).sub(largest).max(0);
  } else {
    const bits = blocks.mul(1 / format.max).bitcast("uint32");
    const exact = bits.and(mantissaMask).eq(0).or(bits.le(smallestScale));
    exponent = field(bits).add(where(exact, full(bits.shape, 0, "int32"), full(bits.shape, 1, "int32")));
  }
  const { stored, encode } = powersOfTwo(exponent.min(254));
  return materialised({ stored, encode: gain === 1 ? encode : encode.mul(1 / gain) }, ofBlocks);
}

/** Scales from their biased exponents (int32, 0 to 254). */
function powersOfTwo(exponent: Tensor): BlockScales {
  const normal = exponent.shiftLeft(mantissaBits).bitcast("float32");
  const denormal = full([], smallestScale, "uint32").bitcast("float32");
  const stored = where(exponent.gt(0), normal, denormal.broadcastTo(normal.shape));
  const encode = full(exponent.shape, 254, "int32").sub(exponent).shiftLeft(mantissaBits).bitcast("float32");
  return { stored, encode };
}

/** Scales are powers of two from the spread of each block's elements; zeros of the padding count among them. */
export function spreadScales(
  view: Tensor,
  size: BlockSize,
  { sigmas }: SpreadScale,
  { max }: NarrowFormat,
): BlockScales {
  // Behind barriers: a product that feeds an add would be fused with it and rounded once.
  const rounded = (t: Tensor): Tensor => optimizationBarrier([t])[0]!;
  const perElement = 1 / (size.rows * size.columns);
  const off = rounded(view.sub(perBlock(rounded(blockSums(view, size).mul(perElement)), size)));
  const sigma = blockSums(rounded(off.mul(off)), size)
    .mul(perElement)
    .sqrt();
  const target = rounded(sigma.mul(sigmas / max)).add(1e-8);
  const exponent = target.min(maxFloat32).bitcast("uint32").shiftRight(mantissaBits).bitcast("int32").min(254);
  return materialised(powersOfTwo(exponent), target);
}

/**
 * One scale for each element of `ofBlocks`, a scalar for a whole tensor. Where the quotient overflows, a block's scale is
 * the largest number of the input's dtype, a tensor's that of float32.
 */
export function fp32Scales(
  ofBlocks: Tensor,
  { powerOfTwo }: Fp32Scale,
  { max }: NarrowFormat,
  dtype: DType,
): BlockScales {
  const largest = ofBlocks.rank > 0 && dtype === "bfloat16" ? maxBfloat16 : maxFloat32;
  const whole = outerScale(ofBlocks, max).min(largest);
  const encode = powerOfTwo ? whole.bitcast("uint32").and(exponentMask).bitcast("float32") : whole;
  const stored = full(encode.shape, 1, "float32").div(encode);
  return ofBlocks.rank === 0 ? { stored, encode } : materialised({ stored, encode }, ofBlocks);
}

/** Behind a barrier, or XLA would compute them again for each element; in the shape of `like`. */
function materialised({ stored, encode }: BlockScales, like: Tensor): BlockScales {
  const [s, e] = optimizationBarrier([stored, encode]) as [Tensor, Tensor];
  return { stored: s.reshape(like.shape), encode: e.reshape(like.shape) };
}

/** A / C, by which sums of products are multiplied. IEEE division, not a product by 1/C. */
export function outerFactor(amax: Tensor, range: number): Tensor {
  const [divisor] = optimizationBarrier([full([], range, "float32")]) as [Tensor];
  return amax.div(divisor);
}

/** `value` where `amax` is finite, else NaN: narrow formats would hide infinities and NaN from what follows. */
export const poisoned = (value: Tensor, amax: Tensor): Tensor =>
  where(amax.isFinite(), value, full(value.shape, Number.NaN, "float32"));
