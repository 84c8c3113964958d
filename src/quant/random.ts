/**
 * The random bits of stochastic rounding on the graph. Every draw is a function of (seed, step, micro-batch, module, layer,
 * GEMM, operand, element) and of nothing else.
 */
import { iota, type Shape, type Tensor } from "../core/index.ts";
import { asWord, type DrawStream, type Key, randomKey, streamOfKey, type Word } from "../core/random.ts";
import { hashName, type Key as NumberKey } from "../core/randomBits.ts";
import type { GemmName } from "./precision.ts";

/** What all draws of a training step share. Make one object a step: what follows from it is computed once. */
export interface RandomKey {
  readonly seed: number;
  readonly step: Word;
  readonly microBatch: Word;
}

/** Which draws of the step: an element has one at each place. */
export interface RandomPlace {
  readonly module: string;
  readonly layer: Word;
  /** layer: what all GEMMs of the layer share. */
  readonly gemm: GemmName | "layer";
  /** signs: the rotation that both operands of the GEMM have. */
  readonly operand: "left" | "right" | "signs";
}

const gemmCodes = { fprop: 0, dgrad: 1, wgrad: 2, layer: 3 } as const;
const operandCodes = { left: 0, right: 1, signs: 2 } as const;

const stepKeys = new WeakMap<RandomKey, Key>();

/** The key of a step. */
function keyOfStep(random: RandomKey): Key {
  const key = stepKeys.get(random) ?? randomKey(random.seed, random.step, random.microBatch);
  stepKeys.set(random, key);
  return key;
}

/** The draws of a place in a step. */
export function streamAt(random: RandomKey, { module, layer, gemm, operand }: RandomPlace): DrawStream {
  const [step0, step1] = keyOfStep(random);
  const low = (gemmCodes[gemm] << 4) | operandCodes[operand];
  const key0 = step0.xor(hashName(module));
  return streamOfKey([key0, step1.xor(asWord(layer).shiftLeft(8).or(low))]);
}

/** Row-major element numbers (uint32) of an array of `shape` whose dims have the given strides in elements. */
export function elementNumbers(shape: Shape, strides: readonly number[]): Tensor {
  return shape.map((_, dim) => iota(shape, dim, "uint32").mul(strides[dim]!)).reduce((sum, term) => sum.add(term));
}

/** Where a draw happens, beside the step: each a uint32, `gemm` and `operand` below 16, `layer` below 2^24. */
export interface RandomSite {
  /** `hashName` of the module's name. */
  readonly name: number;
  readonly layer: number;
  readonly gemm: number;
  readonly operand: number;
}

/** The key of a site within a step in plain numbers: the step's key, xor the site's two words. */
export function siteKey([key0, key1]: NumberKey, { name, layer, gemm, operand }: RandomSite): NumberKey {
  return [(key0 ^ name) >>> 0, (key1 ^ ((layer << 8) | (gemm << 4) | operand)) >>> 0];
}
