/**
 * Rounding of float32 to a narrow format's grid, element by element, exact and cheap: the value is scaled by a power of
 * two so that the grid's step becomes 1, rounded to an integer, and scaled back. No number is ever added to push bits
 * out: XLA fuses a product that feeds an add, and the fused result rounds elsewhere.
 */
import { full, type Tensor } from "../core/index.ts";
import { e2m1, e4m3, type NarrowFormat } from "./formats.ts";

const exponentMask = 0x7f800000;
const signMask = 0x80000000;
/** Weight of one step of the exponent in the bits of a float32. */
const oneExponent = 2 ** 23;

interface GridSteps {
  /** 2^scaleBits / step at each element. */
  readonly toGrid: Tensor;
  /** The distance between neighbouring values of the format at each element. */
  readonly step: Tensor;
}

/** The grid around each element of `magnitude` (float32, at most the format's largest value), from its exponent bits. */
function gridSteps(magnitude: Tensor, { minExponent, mantissaBits }: NarrowFormat, scaleBits: number): GridSteps {
  const binade = magnitude
    .max(2 ** minExponent)
    .bitcast("uint32")
    .and(exponentMask);
  const bias = full(binade.shape, (254 + mantissaBits + scaleBits) * oneExponent, "uint32");
  return {
    toGrid: bias.sub(binade).bitcast("float32"),
    step: binade.sub(mantissaBits * oneExponent).bitcast("float32"),
  };
}

/** x (float32) to the nearest value of the format, ties to even, saturating. Zeros keep their sign; NaN stays NaN. */
export function roundNearest(x: Tensor, format: NarrowFormat): Tensor {
  const limited = x.max(-format.max).min(format.max);
  const { toGrid, step } = gridSteps(limited.abs(), format, 0);
  return limited.mul(toGrid).roundEven().mul(step);
}

/** Random bits that one stochastic rounding consumes, unless it is asked to take fewer. */
export const stochasticBits = 16;

/**
 * x (float32) to one of the two values of the format around it. With t = |x| / step, k = floor(frac(t) · 2^bits) and the
 * random integer u below 2^bits, it goes up where k + u ≥ 2^bits. `random`: uint32, values below 2^16, of which the upper
 * `bits` are used; x's shape.
 */
export function roundStochastic(x: Tensor, format: NarrowFormat, random: Tensor, bits = stochasticBits): Tensor {
  const magnitude = x.abs().min(format.max);
  const { toGrid, step } = gridSteps(magnitude, format, bits);
  const used = bits === stochasticBits ? random : random.shiftRight(stochasticBits - bits);
  // Integers below 2^21 in float32, so the sum is exact. int32: XLA's CPU code converts it faster than uint32.
  const u = used.bitcast("int32").astype("float32");
  const scaled = magnitude.mul(toGrid).floor().add(u);
  const rounded = scaled
    .mul(2 ** -bits)
    .floor()
    .mul(step);
  return rounded.bitcast("uint32").or(x.bitcast("uint32").and(signMask)).bitcast("float32");
}

/** x (float32) to E2M1, nearest with ties to even, saturating at 6. */
export const roundE2M1 = (x: Tensor): Tensor => roundNearest(x, e2m1);

/** x (float32) to E4M3, nearest with ties to even, saturating at 448, subnormals included. */
export const roundE4M3 = (x: Tensor): Tensor => roundNearest(x, e4m3);
