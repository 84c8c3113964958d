/** Draws for mutations: equal seeds, equal draws. */
export interface Draws {
  /** A whole number in [0, below). */
  int(below: number): number;
  /** One of a list. */
  pick<T>(list: readonly T[]): T;
  chance(probability: number): boolean;
}

/** @param words any whole numbers; together they are the seed */
export function drawsOf(...words: readonly number[]): Draws {
  let state = words.reduce((hash, word) => Math.imul(hash ^ word, 0x9e3779b1) ^ (hash >>> 15), 0x2545f491);
  // A generator of one 32-bit word (Weyl sequence and a mixing of its bits).
  const next = (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), state | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
  const int = (below: number) => Math.floor(next() * below);
  return { int, pick: (list) => list[int(list.length)]!, chance: (probability) => next() < probability };
}
