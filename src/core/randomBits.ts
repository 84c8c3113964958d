/**
 * Random bits by a counter-based hash, so a draw is a function of (key, element index) alone and nothing is stored. Its
 * constants and the order of its operations are part of the numerical contract; the version over Tensors (random.ts)
 * computes the same bits.
 *
 * Of one draw, all in uint32 (wrapping), 12 operations:
 *
 *     x = counter · weyl + offset             offset, linear: the stream's, made from its key once
 *     x = x ^ (x >> 16)
 *     x = x · (x · quadratic + linear)        quadratic is even and linear odd, so this is a bijection
 *     x = x ^ (x >> 15)
 *     x = x · multiplier
 *     x = x ^ (x >> 16)
 *
 * Stochastic rounding reads the upper 16 bits, which the last line does not change: there it is one shift, x >> 16.
 * The square is what makes it hold: with a plain product in its place the 16-bit values fail a gap test after some 10^7
 * draws. Per key the hash permutes the 2^32 counters, so no 32-bit value comes twice. The constants come from a search for
 * the smallest avalanche bias, per key, over counter bits and over lags 2^i: below 0.2 %, what 4 million samples resolve.
 */
import { invariant } from "../base/errors.ts";

/** Two uint32 words. */
export type Key = readonly [number, number];

export const hashConstants = { weyl: 0x78276fdd, quadratic: 0xdc9015da, multiplier: 0xd74bb999 } as const;

/** What a draw needs of its key, two uint32 words. */
export interface RandomStream {
  readonly offset: number;
  /** Odd. */
  readonly linear: number;
}

/** The stream that turns keys into streams. */
export const keyStream: RandomStream = { offset: hashConstants.quadratic, linear: hashConstants.weyl };

/** Draw number `counter` (uint32) of a stream: a uint32. */
export function drawBits({ offset, linear }: RandomStream, counter: number): number {
  let x = Math.imul(counter, hashConstants.weyl) + offset;
  x ^= x >>> 16;
  x = Math.imul(x, Math.imul(x, hashConstants.quadratic) + linear);
  x ^= x >>> 15;
  x = Math.imul(x, hashConstants.multiplier);
  return (x ^ (x >>> 16)) >>> 0;
}

/**
 * The stream of a key, by two draws. Keys that differ in one bit, or by one, give unrelated streams, so a key may be
 * another with words of its own xor-ed in.
 */
export function streamOfKey([key0, key1]: Key): RandomStream {
  const mixed = drawBits(keyStream, key1 ^ drawBits(keyStream, key0));
  return { offset: (key0 ^ mixed) >>> 0, linear: (mixed | 1) >>> 0 };
}

/** The hash as one function: uint32 of (key, counter). In a loop take `streamOfKey` once and then `drawBits`. */
export function hashNumber(key0: number, key1: number, counter: number): number {
  return drawBits(streamOfKey([key0, key1]), counter);
}

/** FNV-1a of a name's UTF-8 bytes, as uint32. */
export function hashName(name: string): number {
  return new TextEncoder().encode(name).reduce((hash, byte) => Math.imul(hash ^ byte, 0x01000193) >>> 0, 0x811c9dc5);
}

/**
 * A key from any number of uint32 words (seed, step, micro-batch, …): Threefry absorbs them two at a time, beginning from
 * their number. A seed of more than 32 bits is two words.
 */
export function deriveKey(words: readonly number[]): Key {
  invariant(
    words.every((word) => word === word >>> 0),
    `key words are uint32; got ${words.join(", ")}`,
  );
  let key: Key = [words.length, 0];
  for (let i = 0; i < words.length; i += 2) key = threefry2x32(key, [words[i]!, words[i + 1] ?? 0]);
  return key;
}

/** By how many bits each of eight rounds rotates. */
export const threefryRotations = [13, 15, 26, 6, 17, 29, 16, 24] as const;

/** Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). */
export function threefry2x32([key0, key1]: Key, counter: Key): Key {
  const schedule = [key0, key1, key0 ^ key1 ^ 0x1bd11bda];
  let x = (counter[0] + key0) | 0;
  let y = (counter[1] + key1) | 0;
  for (let round = 0; round < 20; round++) {
    const by = threefryRotations[round % 8]!;
    x = (x + y) | 0;
    y = ((y << by) | (y >>> (32 - by))) ^ x;
    if (round % 4 !== 3) continue;
    const injection = (round + 1) / 4;
    x = (x + schedule[injection % 3]!) | 0;
    y = (y + schedule[(injection + 1) % 3]! + injection) | 0;
  }
  return [x >>> 0, y >>> 0];
}
