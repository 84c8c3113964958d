/** Byte-pair encoding of one pre-token: always the merge learned first, leftmost first, until none applies. */
import { type Before, heapPop, heapPush } from "./heap.ts";

export interface MergeTable {
  /** (left id) · vocabSize + (right id) → rank; the lower, the earlier learned. */
  readonly rankOfPair: ReadonlyMap<number, number>;
  /** The id a merge makes, by rank. */
  readonly mergedId: Int32Array;
  readonly vocabSize: number;
}

// A heap entry is rank · 2^32 + position: entries compare as numbers, by rank and then from the left.
const positions = 2 ** 32;
const smaller: Before<number> = (a, b) => a < b;

/**
 * The ids after all merges. O(n log n), so that a pre-token of a million equal characters is no trap. `ids` is used as
 * working space.
 */
export function mergePairs(ids: Int32Array, table: MergeTable): Int32Array {
  const { rankOfPair, mergedId, vocabSize } = table;
  const length = ids.length;
  const next = new Int32Array(length); // index of the following live symbol; length at the end
  const previous = new Int32Array(length);
  for (let i = 0; i < length; i++) {
    next[i] = i + 1;
    previous[i] = i - 1;
  }
  const rankAt = (i: number): number | undefined => {
    const right = next[i]!;
    return right < length ? rankOfPair.get(ids[i]! * vocabSize + ids[right]!) : undefined;
  };
  const heap: number[] = [];
  const offer = (i: number) => {
    const rank = i < 0 ? undefined : rankAt(i);
    if (rank !== undefined) heapPush(heap, rank * positions + i, smaller);
  };
  for (let i = 0; i < length - 1; i++) offer(i);

  let live = length;
  for (let entry = heapPop(heap, smaller); entry !== undefined; entry = heapPop(heap, smaller)) {
    const rank = Math.floor(entry / positions);
    const i = entry % positions;
    if (ids[i]! < 0 || rankAt(i) !== rank) continue; // one of the two symbols has merged elsewhere since
    const removed = next[i]!;
    ids[i] = mergedId[rank]!;
    ids[removed] = -1;
    next[i] = next[removed]!;
    if (next[i]! < length) previous[next[i]!] = i;
    live--;
    offer(previous[i]!);
    offer(i);
  }
  const merged = new Int32Array(live);
  for (let i = 0, count = 0; i < length; i = next[i]!) merged[count++] = ids[i]!;
  return merged;
}
