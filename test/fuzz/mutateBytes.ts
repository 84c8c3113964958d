/** Mutations of bytes whose meaning is not known: flips, cuts, insertions, splices, and numbers that a length could be. */
import type { Draws } from "./random.ts";

/** Numbers that break what takes them for a length, a count or an offset. */
const hostileNumbers: readonly bigint[] = [
  ...[0n, 1n, -1n, 0x7fn, 0xffn, 0xffffn, 2n ** 24n, 2n ** 28n, 2n ** 31n - 1n, 2n ** 31n, 2n ** 32n - 1n],
  ...[2n ** 32n, 2n ** 53n - 1n, 2n ** 53n, 2n ** 62n, 2n ** 63n - 1n, 2n ** 63n, 2n ** 64n - 1n],
];

type Mutation = (bytes: Buffer, draws: Draws) => Buffer;

/** Heads and tails hold what says where the rest lies. */
function place(bytes: Buffer, draws: Draws): number {
  const edge = Math.min(bytes.length, 128);
  const where = draws.int(4);
  if (where === 0) return draws.int(edge + 1);
  if (where === 1) return bytes.length - draws.int(edge + 1);
  return draws.int(bytes.length + 1);
}

const mutations: readonly Mutation[] = [
  function flip(bytes, draws) {
    const copy = Buffer.from(bytes);
    for (let times = 1 + draws.int(8); times > 0 && copy.length > 0; times--) {
      const at = Math.min(place(copy, draws), copy.length - 1);
      copy[at] = draws.chance(0.5) ? copy[at]! ^ (1 << draws.int(8)) : draws.int(256);
    }
    return copy;
  },
  (bytes, draws) => bytes.subarray(0, place(bytes, draws)),
  function insert(bytes, draws) {
    const at = place(bytes, draws);
    const length = draws.pick([1, 2, 4, 8, 100, 5000]);
    const filler = Buffer.alloc(length, draws.pick([0, 0xff, 0x20, 0x41, draws.int(256)]));
    return Buffer.concat([bytes.subarray(0, at), filler, bytes.subarray(at)]);
  },
  function remove(bytes, draws) {
    const at = place(bytes, draws);
    return Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + draws.pick([1, 2, 4, 8, 64]))]);
  },
  function repeat(bytes, draws) {
    const [from, to] = [place(bytes, draws), place(bytes, draws)];
    const piece = bytes.subarray(from, from + 1 + draws.int(256));
    return Buffer.concat([bytes.subarray(0, to), piece, bytes.subarray(to)]);
  },
  function swap(bytes, draws) {
    const copy = Buffer.from(bytes);
    const [from, to] = [place(copy, draws), place(copy, draws)];
    bytes.subarray(from, from + 1 + draws.int(64)).copy(copy, to);
    return copy;
  },
  hostileNumber,
  hostileNumber,
];

function hostileNumber(bytes: Buffer, draws: Draws): Buffer {
  const width = draws.pick([1, 2, 4, 8]);
  if (bytes.length < width) return bytes;
  const copy = Buffer.from(bytes);
  const at = Math.min(place(copy, draws), copy.length - width);
  const number = BigInt.asUintN(64, draws.pick(hostileNumbers) + BigInt(draws.int(3) - 1));
  const written = Buffer.alloc(8);
  written.writeBigUInt64LE(number);
  written.copy(copy, at, 0, width);
  return copy;
}

/** One to three mutations, one after the other. */
export function mutateBytes(bytes: Uint8Array, draws: Draws): Buffer {
  let mutated = Buffer.from(bytes);
  for (let times = 1 + draws.int(3); times > 0; times--) mutated = Buffer.from(draws.pick(mutations)(mutated, draws));
  return mutated;
}
