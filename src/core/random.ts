/**
 * Random numbers on the graph: randomBits.ts over Tensors, bit for bit. A number is a function of its key and its place in the
 * array alone, so a run that is resumed or spread over other devices draws the same ones.
 */
import { ShapeError } from "../base/errors.ts";
import { type DType, dtypeInfo, isInteger } from "./dtype.ts";
import { type Shape, showSpec, sizeOf } from "./hostArray.ts";
import { full, iota } from "./ops/constant.ts";
import { precisionOf } from "./ops/convert.ts";
import { hashConstants, hashName, keyStream, threefryRotations } from "./randomBits.ts";
import { Tensor } from "./tensor.ts";

/** An unsigned 32-bit integer: known while tracing, or an integer scalar of the program. */
export type Word = number | Tensor;

/** What numbers are drawn from: two uint32 scalars. A key gives the same numbers each time, so use it once. */
export type Key = readonly [Tensor, Tensor];

/** What a draw needs of its key: uint32 scalars, `linear` odd. */
export interface DrawStream {
  readonly offset: Tensor;
  readonly linear: Tensor;
}

/** A word as uint32; a negative integer of a Tensor is taken by its bits. @throws ShapeError where it is no word */
export function asWord(word: Word): Tensor {
  if (typeof word === "number") {
    if (word === word >>> 0) return full([], word, "uint32");
    throw new ShapeError(
      `random keys: a word must be a whole number from 0 to 4294967295; got ${word}. A larger seed is two words`,
    );
  }
  if (word instanceof Tensor && word.rank === 0 && isInteger(word.dtype) && dtypeInfo(word.dtype).bits <= 32) {
    return word.astype("uint32");
  }
  const got = word instanceof Tensor ? showSpec(word) : typeof word;
  throw new ShapeError(`random keys: a word must be a number or an integer scalar of at most 32 bits; got ${got}`);
}

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

/** The stream of a key. */
export function streamOfKey([key0, key1]: Key): DrawStream {
  const ofKeys = { offset: asWord(keyStream.offset), linear: asWord(keyStream.linear) };
  const mixed = draw(ofKeys, key1.xor(draw(ofKeys, key0)));
  return { offset: key0.xor(mixed), linear: mixed.or(1) };
}

function threefry([key0, key1]: Key, counter: Key): Key {
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

/** The key of a list of words, such as a seed and a step. Other words, or as many in another order, are another key. */
export function randomKey(...words: readonly Word[]): Key {
  let key: Key = [asWord(words.length), asWord(0)];
  for (let i = 0; i < words.length; i += 2) key = threefry(key, [asWord(words[i]!), asWord(words[i + 1] ?? 0)]);
  return key;
}

/** A key of its own for a part of what `key` is for: a layer's number, a parameter's name. */
export function foldIn(key: Key, part: Word | string): Key {
  return threefry(key, [asWord(typeof part === "string" ? hashName(part) : part), asWord(0)]);
}

/** Row-major element numbers (uint32) of an array of `shape`. */
const elementNumbers = (shape: Shape): Tensor => iota([sizeOf(shape)], 0, "uint32").reshape(shape);

/** 32 random bits for each element, as uint32. */
export function randomBits(key: Key, shape: Shape): Tensor {
  return draw(streamOfKey(key), elementNumbers(shape));
}

/** Range and dtype of uniform numbers. */
export interface UniformOptions {
  readonly dtype?: DType;
  readonly low?: number;
  readonly high?: number;
}

/**
 * Random numbers of [low, high), by default [0, 1) in float32: multiples of 2^-24 there, in bfloat16 of 2^-8, in float16
 * of 2^-11, in float64 of 2^-32. Other limits are applied in float32 or float64 and rounded. @throws ShapeError
 */
export function uniform(key: Key, shape: Shape, { dtype = "float32", low = 0, high = 1 }: UniformOptions = {}): Tensor {
  const precision = floatPrecision("uniform", dtype);
  const unit = fractions(randomBits(key, shape), Math.min(32, precision), dtype === "float64" ? "float64" : "float32");
  return (low === 0 && high === 1 ? unit : unit.mul(high - low).add(low)).astype(dtype);
}

/** Mean, standard deviation and dtype of normal numbers. */
export interface NormalOptions {
  readonly dtype?: DType;
  readonly mean?: number;
  readonly std?: number;
}

/**
 * Normally distributed random numbers, by default of mean 0 and standard deviation 1 in float32 (Box and Muller, each from
 * two draws). Computed in float32 or float64 and rounded. @throws ShapeError
 */
export function normal(key: Key, shape: Shape, { dtype = "float32", mean = 0, std = 1 }: NormalOptions = {}): Tensor {
  floatPrecision("normal", dtype);
  const compute = dtype === "float64" ? "float64" : "float32";
  const stream = streamOfKey(key);
  const even = elementNumbers(shape).mul(2);
  // In (0, 1]: the logarithm is finite.
  const radius = fractions(draw(stream, even), 24, compute)
    .add(2 ** -24)
    .log()
    .mul(-2)
    .sqrt();
  const angle = fractions(draw(stream, even.add(1)), 24, compute).mul(2 * Math.PI);
  const standard = radius.mul(angle.cos());
  return (mean === 0 && std === 1 ? standard : standard.mul(std).add(mean)).astype(dtype);
}

/** Bits of the mantissa with the leading one. */
function floatPrecision(name: string, dtype: DType): number {
  const precision = precisionOf[dtype];
  if (precision === undefined) throw new ShapeError(`${name}: gives floats of 16 bits and more; got ${dtype}`);
  return precision.mantissaBits + 1;
}

/** The upper `bits` of uint32 words as multiples of 2^-bits in [0, 1). */
function fractions(words: Tensor, bits: number, dtype: "float32" | "float64"): Tensor {
  const whole = bits === 32 ? words : words.shiftRight(32 - bits).bitcast("int32");
  return whole.astype(dtype).mul(2 ** -bits);
}
