/**
 * A pseudo-random order of 0..size-1 that needs no table: any position costs O(1), so the batch of step n is known
 * without playing the steps before it. A Feistel network permutes the next power of two; values outside the range walk
 * on until they fall inside (fewer than two tries on average).
 */
import { invariant } from "../base/errors.ts";
import { hashInts, mix32 } from "./hash.ts";

const rounds = 6; // even, so that halves of unequal width end where they began

/** A bijection of the integers 0..size-1, chosen by `key` (any integers). */
export function permutation(size: number, ...key: readonly number[]): (index: number) => number {
  invariant(Number.isSafeInteger(size) && size >= 1 && size <= 2 ** 52, `permutation of ${size} values`);
  if (size === 1) return () => 0;
  const bits = Math.max(2, Math.ceil(Math.log2(size)));
  const highBits = bits >> 1;
  const widths = [2 ** (bits - highBits), 2 ** highBits]; // of the low half: at even rounds, at odd rounds
  const roundKeys = Array.from({ length: rounds }, (_, round) => hashInts(...key, size, round));

  const encipher = (value: number): number => {
    let low = value % widths[0]!;
    let high = Math.floor(value / widths[0]!);
    for (let round = 0; round < rounds; round++) {
      const highWidth = widths[(round + 1) % 2]!;
      const mixed = mix32(mix32(low + roundKeys[round]!) ^ roundKeys[round]!) & (highWidth - 1);
      [high, low] = [low, high ^ mixed];
    }
    return high * widths[0]! + low;
  };

  return (index) => {
    invariant(Number.isInteger(index) && index >= 0 && index < size, `position ${index} of ${size}`);
    let value = index;
    do value = encipher(value);
    while (value >= size);
    return value;
  };
}
