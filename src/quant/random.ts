/**
 * Random numbers for stochastic rounding, on the graph: a hash of a key and a counter, so that every draw is a function of
 * (seed, step, micro-batch, module, layer, GEMM, operand, element) and of nothing else.
 */
import { iota, type Shape, type Tensor } from "../core/index.ts";

/** An unsigned 32-bit integer: known while tracing, or a uint32 scalar of the program. */
export type Word = number | Tensor;

/** What all draws of a training step share. */
export interface RandomKey {
  readonly seed: number;
  readonly step: Word;
  readonly microBatch: Word;
}

/** Which draws of the step: one place gives one draw to each element. */
export interface RandomPlace {
  readonly module: string;
  readonly layer: Word;
  readonly gemm: "fprop" | "dgrad" | "wgrad";
  readonly operand: "left" | "right";
}

/** A key derived for one place, as two words. */
export interface DerivedKey {
  readonly first: Word;
  readonly second: Word;
}

const isNumber = (word: Word): word is number => typeof word === "number";

/** x + c modulo 2^32. */
function plus(x: Word, c: number): Word {
  return isNumber(x) ? (x + c) >>> 0 : x.add(c >>> 0);
}

function times(x: Word, c: number): Word {
  return isNumber(x) ? Math.imul(x, c) >>> 0 : x.mul(c >>> 0);
}

function xor(x: Word, y: Word): Word {
  if (!isNumber(x)) return x.xor(isNumber(y) ? y >>> 0 : y);
  return isNumber(y) ? (x ^ y) >>> 0 : xor(y, x);
}

/** x ^ (x >>> bits) */
function xorShift(x: Word, bits: number): Word {
  return xor(x, isNumber(x) ? x >>> bits : x.shiftRight(bits));
}

/** A bijection of 32 bits in which every input bit reaches every output bit. */
function mix(x: Word): Word {
  const a = times(xorShift(x, 16), 0x21f0aaad);
  const b = times(xorShift(a, 15), 0xd35a2d97);
  return xorShift(b, 15);
}

/** One word from a hash so far and the next word. */
const fold = (hash: Word, word: Word): Word => mix(xor(times(mix(plus(word, 0x9e3779b9)), 0x85ebca6b), hash));

/** A 32-bit hash of a string's UTF-16 code units. */
function hashName(name: string): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < name.length; i++) h = Math.imul(h ^ name.charCodeAt(i), 0x01000193);
  return Number(mix(h >>> 0));
}

const gemms = ["fprop", "dgrad", "wgrad"] as const;

/**
 * The key of a place. Words known while tracing are folded then; a step counter that lives in the program is folded there,
 * to the same bits. Those of the step come from one hash for all places, which a program computes once.
 */
export function deriveKey(key: RandomKey, { module, layer, gemm, operand }: RandomPlace): DerivedKey {
  const place = [hashName(module), gemms.indexOf(gemm) * 2 + (operand === "left" ? 0 : 1), layer];
  const derive = (start: number): Word => {
    const ofStep = [key.step, key.microBatch].reduce<Word>(fold, fold(start, key.seed));
    const ofPlace = place.reduce<Word>(fold, ~start >>> 0);
    return mix(xor(ofStep, ofPlace));
  };
  return { first: derive(0x6a09e667), second: derive(0xbb67ae85) };
}

/**
 * 16 random bits (uint32 below 2^16) for each element of an array. The counter is the element's row-major index in a
 * matrix of `columns` columns; `rows` and `cols` say where each element lies in it.
 */
export function randomBits16({ first, second }: DerivedKey, counter: Tensor): Tensor {
  const asTensor = xor(mix(xor(mixOnce(counter, first), second)), 0) as Tensor;
  return asTensor.shiftRight(16);
}

function mixOnce(counter: Tensor, first: Word): Word {
  const spread = counter.mul(0x9e3779b1);
  return isNumber(first) ? spread.add(first) : spread.add(first);
}

/** Row-major element numbers (uint32) of an array of `shape` whose dims have the given strides in elements. */
export function elementNumbers(shape: Shape, strides: readonly number[]): Tensor {
  return shape.map((_, dim) => iota(shape, dim, "uint32").mul(strides[dim]!)).reduce((sum, term) => sum.add(term));
}
