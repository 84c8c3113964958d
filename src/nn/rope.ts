/** Rotary position embedding (Su et al. 2021) in Hugging Face's order: dim i is paired with dim i + H/2. */
import { UserError } from "../base/errors.ts";
import { concat, constant, hostArray, iota, type Tensor } from "../core/index.ts";

/** Llama 3's stretching of low frequencies (its config's `rope_scaling`). */
export interface Llama3RopeScaling {
  readonly kind: "llama3";
  readonly factor: number;
  readonly lowFreqFactor: number;
  readonly highFreqFactor: number;
  readonly originalMaxPosition: number;
}

/** Base frequency and scaling of rotary positions. */
export interface RopeOptions {
  readonly headDim: number;
  readonly theta: number;
  readonly scaling?: Llama3RopeScaling;
}

/** Radians per position for each of the H/2 pairs, in float32 as the reference implementations keep them. */
export function ropeFrequencies({ headDim, theta, scaling }: RopeOptions): Float32Array {
  if (headDim % 2 !== 0) throw new UserError("E_ROPE", `head_dim must be even for rotary embeddings; got ${headDim}`);
  return Float32Array.from({ length: headDim / 2 }, (_, i) => {
    const frequency = Math.fround(1 / theta ** ((2 * i) / headDim));
    if (scaling === undefined) return frequency;
    // Long wavelengths are slowed by `factor`, short ones kept, those between are blended linearly.
    const { factor, lowFreqFactor, highFreqFactor, originalMaxPosition } = scaling;
    const turns = (originalMaxPosition * frequency) / (2 * Math.PI);
    const blend = Math.min(1, Math.max(0, (turns - lowFreqFactor) / (highFreqFactor - lowFreqFactor)));
    return (1 - blend) * (frequency / factor) + blend * frequency;
  });
}

/** Factors of rotary positions. */
export interface RopeTables {
  /** Cosines, [T, 1, H]; `sin` has sines of the same shape, the first half negated. */
  readonly cos: Tensor;
  readonly sin: Tensor;
}

/** Tables for positions 0 … T−1. */
export function ropeTables(length: number, options: RopeOptions): RopeTables {
  const half = options.headDim / 2;
  const frequencies = constant(hostArray([1, half], "float32", ropeFrequencies(options)));
  const angles = iota([length, half], 0, "float32").mul(frequencies);
  const [cos, sin] = [angles.cos(), angles.sin()];
  const table = (a: Tensor, b: Tensor) => concat([a, b], 1).expandDims(1);
  return { cos: table(cos, cos), sin: table(sin.neg(), sin) };
}

/** Rotates x [B, T, N, H] by its positions, in float32, and rounds once. */
export function rope(x: Tensor, { cos, sin }: RopeTables): Tensor {
  const [B, T, N, H] = x.shape as [number, number, number, number];
  const wide = x.astype("float32");
  // The pair's other half by reversing a [2, H/2] view, which needs no concatenation.
  const swapped = wide
    .reshape([B, T, N, 2, H / 2])
    .reverse([3])
    .reshape(x.shape);
  return wide.mul(cos).add(swapped.mul(sin)).astype(x.dtype);
}
