/** Rotary position embedding (Su et al. 2021) in Hugging Face's order: dim i is paired with dim i + H/2. */
import { UserError } from "../base/errors.ts";
import { concat, constant, hostArray, iota, optimizationBarrier, type Tensor } from "../core/index.ts";

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

/** Factors of rotary positions: cosines and sines of the angles, [T, 1, H/2], or [B, T, 1, H/2] where rows differ. */
export interface RopeTables {
  readonly cos: Tensor;
  readonly sin: Tensor;
}

/** Tables for positions 0 … T−1, or for positions int32 [B, T]. */
export function ropeTables(positions: number | Tensor, options: RopeOptions): RopeTables {
  const half = options.headDim / 2;
  const frequencies = constant(hostArray([1, half], "float32", ropeFrequencies(options)));
  const angles =
    typeof positions === "number"
      ? iota([positions, half], 0, "float32").mul(frequencies).expandDims(1)
      : positions
          .astype("float32")
          .reshape([...positions.shape, 1, 1])
          .mul(frequencies);
  // Behind a barrier: XLA would otherwise compute them again in every loop that turns something by them.
  const [cos, sin] = optimizationBarrier([angles.cos(), angles.sin()]) as [Tensor, Tensor];
  return { cos, sin };
}

/**
 * Rotates x [B, T, N, H] by its positions, in float32, and rounds once. Half by half and joined: XLA's CPU loops take the
 * halves in vectors, where a reversed or gathered pair makes them take element by element.
 */
export function rope(x: Tensor, { cos, sin }: RopeTables): Tensor {
  const half = x.shape[3]! / 2;
  const wide = x.astype("float32");
  const [first, second] = [wide.narrow(3, 0, half), wide.narrow(3, half, half)];
  const turned = [first.mul(cos).sub(second.mul(sin)), second.mul(cos).add(first.mul(sin))];
  return concat(
    turned.map((part) => part.astype(x.dtype)),
    3,
  );
}
