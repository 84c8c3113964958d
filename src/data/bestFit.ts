/** Best-fit decreasing (Johnson 1973): items into bins of one capacity, each where the least room is left over. */

/** Bins and the items in each, by their numbers and in their order: those of bin b are `items[starts[b]]` … `items[starts[b + 1] - 1]`. */
export interface Bins {
  readonly count: number;
  readonly starts: Int32Array;
  readonly items: Int32Array;
}

/**
 * The same bins for the same lengths, always.
 * @param lengths 1 … capacity each
 * @param most items in a bin
 */
export function bestFitDecreasing(lengths: Int32Array, capacity: number, most = Number.POSITIVE_INFINITY): Bins {
  const binOf = new Int32Array(lengths.length);
  const held = new Int32Array(lengths.length);
  const open = openBins(capacity, lengths.length);
  let count = 0;
  for (const item of longestFirst(lengths, capacity)) {
    const length = lengths[item]!;
    const room = open.leastRoom(length);
    const bin = room === undefined ? count++ : open.take(room);
    binOf[item] = bin;
    held[bin]! += 1;
    const left = (room ?? capacity) - length;
    if (left > 0 && held[bin]! < most) open.put(bin, left);
  }
  return { count, ...gathered(binOf, held, count) };
}

/** Numbers of the items by falling length, equal ones in their order. */
function longestFirst(lengths: Int32Array, capacity: number): Int32Array {
  const places = new Int32Array(capacity + 1);
  for (const length of lengths) places[capacity - length]! += 1;
  let before = 0;
  for (let i = 0; i <= capacity; i++) {
    const here = places[i]!;
    places[i] = before;
    before += here;
  }
  const order = new Int32Array(lengths.length);
  for (const [item, length] of lengths.entries()) order[places[capacity - length]!++] = item;
  return order;
}

/** Bins that have room, by how much they have. */
function openBins(capacity: number, most: number) {
  /** The bin that was put last of those with so much room, or -1; then the one before it. */
  const last = new Int32Array(capacity + 1).fill(-1);
  const before = new Int32Array(most);
  /** Bit r of all words: whether a bin has room r. */
  const words = new Uint32Array((capacity >>> 5) + 1);
  return {
    put(bin: number, room: number): void {
      before[bin] = last[room]!;
      last[room] = bin;
      words[room >>> 5]! |= 1 << (room & 31);
    },
    take(room: number): number {
      const bin = last[room]!;
      last[room] = before[bin]!;
      if (last[room] === -1) words[room >>> 5]! &= ~(1 << (room & 31));
      return bin;
    },
    /** The least room of `length` or more that a bin has. */
    leastRoom(length: number): number | undefined {
      let word = length >>> 5;
      let bits = (words[word]! & (-1 << (length & 31))) >>> 0;
      while (bits === 0) {
        if (++word === words.length) return undefined;
        bits = words[word]!;
      }
      return 32 * word + 31 - Math.clz32(bits & -bits);
    },
  };
}

/** Items by their bins. */
function gathered(binOf: Int32Array, held: Int32Array, count: number): Pick<Bins, "starts" | "items"> {
  const starts = new Int32Array(count + 1);
  for (let bin = 0; bin < count; bin++) starts[bin + 1] = starts[bin]! + held[bin]!;
  const next = starts.slice(0, count);
  const items = new Int32Array(binOf.length);
  for (const [item, bin] of binOf.entries()) items[next[bin]!++] = item;
  return { starts, items };
}
