/** A binary heap in a plain array: the first item is the one that comes `before` all others. */

export type Before<T> = (a: T, b: T) => boolean;

export function heapPush<T>(heap: T[], item: T, before: Before<T>): void {
  let hole = heap.length;
  heap.push(item);
  while (hole > 0) {
    const parent = (hole - 1) >> 1;
    if (!before(item, heap[parent]!)) break;
    heap[hole] = heap[parent]!;
    hole = parent;
  }
  heap[hole] = item;
}

/** Removes and returns the first item, or undefined of an empty heap. */
export function heapPop<T>(heap: T[], before: Before<T>): T | undefined {
  const first = heap[0];
  const item = heap.pop();
  if (item === undefined || heap.length === 0) return first;
  let hole = 0;
  for (;;) {
    let child = 2 * hole + 1;
    if (child >= heap.length) break;
    if (child + 1 < heap.length && before(heap[child + 1]!, heap[child]!)) child++;
    if (!before(heap[child]!, item)) break;
    heap[hole] = heap[child]!;
    hole = child;
  }
  heap[hole] = item;
  return first;
}
