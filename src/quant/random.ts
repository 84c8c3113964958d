/**
 * The random bits of stochastic rounding on the graph: randomBits.ts over Tensors, bit for bit. Every draw is a function of
 * (seed, step, micro-batch, module, layer, GEMM, operand, element) and of nothing else.
 */
import { full, iota, type Shape, type Tensor } from "../core/index.ts";
import { type GemmName, gemmNames } from "./precision.ts";
import { hashConstants, hashName, keyStream, threefryRotations } from "./randomBits.ts";

/** An unsigned 32-bit integer: known while tracing, or a uint32 scalar of the program. */
export type Word = number | Tensor;

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
  readonly gemm: GemmName;
  readonly operand: "left" | "right";
}

type KeyWords = readonly [Tensor, Tensor];

/** What a draw needs of its key: uint32 scalars, `linear` odd. */
export interface DrawStream {
  readonly offset: Tensor;
  readonly linear: Tensor;
}

const asTensor = (word: Word): Tensor =>
  typeof word === "number" ? full([], word >>> 0, "uint32") : word.astype("uint32");

const xorShift = (x: Tensor, bits: number): Tensor => x.xor(x.shiftRight(bits));

/** Draws as 32 bits of which the upper 16 are final: `drawBits` without its last line, which changes the lower ones. */
function upperBits({ offset, linear }: DrawStream, counter: Tensor): Tensor {
  const { weyl, quadratic, multiplier } = hashConstants;
  const x = xorShift(counter.mul(weyl).add(offset), 16);
  return xorShift(x.mul(x.mul(quadratic).add(linear)), 15).mul(multiplier);
}

const draw = (stream: DrawStream, counter: Tensor): Tensor => xorShift(upperBits(stream, counter), 16);

/** 16 random bits (uint32 below 2^16) for each element number. */
export function randomBits16(stream: DrawStream, counter: Tensor): Tensor {
  return upperBits(stream, counter).shiftRight(16);
}

function threefry([key0, key1]: KeyWords, counter: KeyWords): KeyWords {
  const schedule = [key0, key1, key0.xor(key1).xor(0x1bd11bda)];
  let x = counter[0].add(key0);
  let y = counter[1].add(key1);
  for (let round = 0; round < 20; round++) {
    const by = threefryRotations[round % 8]!;
    x = x.add(y);
    y = y
      .shiftLeft(by)
      .or(y.shiftRight(32 - by))
      .xor(x);
    if (round % 4 !== 3) continue;
    const injection = (round + 1) / 4;
    x = x.add(schedule[injection % 3]!);
    y = y.add(schedule[(injection + 1) % 3]!).add(injection);
  }
  return [x, y];
}

const stepKeys = new WeakMap<RandomKey, KeyWords>();

/** The key of a step: its three words, absorbed two at a time. */
function keyOfStep(random: RandomKey): KeyWords {
  const known = stepKeys.get(random);
  if (known !== undefined) return known;
  const [seed, step, microBatch] = [random.seed, random.step, random.microBatch].map(asTensor) as [
    Tensor,
    Tensor,
    Tensor,
  ];
  const zero = asTensor(0);
  const key = threefry(threefry([asTensor(3), zero], [seed, step]), [microBatch, zero]);
  stepKeys.set(random, key);
  return key;
}

/** The draws of a place in a step. */
export function streamAt(random: RandomKey, { module, layer, gemm, operand }: RandomPlace): DrawStream {
  const [step0, step1] = keyOfStep(random);
  const low = (gemmNames.indexOf(gemm) << 4) | (operand === "left" ? 0 : 1);
  const key0 = step0.xor(hashName(module));
  const key1 = step1.xor(asTensor(layer).shiftLeft(8).or(low));
  const ofKeys = { offset: asTensor(keyStream.offset), linear: asTensor(keyStream.linear) };
  const mixed = draw(ofKeys, key1.xor(draw(ofKeys, key0)));
  return { offset: key0.xor(mixed), linear: mixed.or(1) };
}

/** Row-major element numbers (uint32) of an array of `shape` whose dims have the given strides in elements. */
export function elementNumbers(shape: Shape, strides: readonly number[]): Tensor {
  return shape.map((_, dim) => iota(shape, dim, "uint32").mul(strides[dim]!)).reduce((sum, term) => sum.add(term));
}
