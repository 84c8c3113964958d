/** Llama 3.1's rotary scaling found again from the factors that a GGUF file stores in its place. */
import { type Llama3RopeScaling, ropeFrequencies } from "../nn/rope.ts";

/** The other numbers of the scaling: those of every Llama from 3.1 to 3.3. */
const published = { kind: "llama3", lowFreqFactor: 1, highFreqFactor: 4, originalMaxPosition: 8192 } as const;

/**
 * @param factors by how much each of the H/2 frequencies is slower
 * @returns undefined where they are those of no such scaling
 */
export function llama3Frequencies(
  factors: Float32Array,
  { headDim, ropeTheta: theta }: { readonly headDim: number; readonly ropeTheta: number },
): Llama3RopeScaling | undefined {
  const scaling: Llama3RopeScaling = { ...published, factor: factors.reduce((a, b) => Math.max(a, b), 0) };
  if (factors.length !== headDim / 2 || !(scaling.factor >= 1)) return undefined;
  const [plain, slower] = [ropeFrequencies({ headDim, theta }), ropeFrequencies({ headDim, theta, scaling })];
  const fits = factors.every((factor, i) => Math.abs((slower[i]! * factor) / plain[i]! - 1) < 1e-5);
  return fits ? scaling : undefined;
}
