/** Reading what lies in several runs that follow each other, as if it were one. */
import { invariant } from "../base/errors.ts";
import type { TokenArray } from "./tokenStream.ts";

/**
 * Visits the runs that places start .. start + count - 1 lie in, in order.
 * @param begins where each run begins, and one more that says where the last ends
 * @param visit run, place within it, number of places there, number of places visited before
 */
export function gather(
  begins: Float64Array,
  { start, count }: { readonly start: number; readonly count: number },
  visit: (run: number, place: number, count: number, done: number) => void,
): void {
  const end = begins.at(-1)!;
  invariant(start >= 0 && count >= 0 && start + count <= end, `places ${start} + ${count} of ${end}`);
  let run = runAt(begins, start);
  for (let done = 0; done < count; run++) {
    const at = start + done;
    const length = Math.min(count - done, begins[run + 1]! - at);
    if (length > 0) visit(run, at - begins[run]!, length, done);
    done += length;
  }
}

/** The run that place `at` lies in: the last one that begins at or before it. */
function runAt(begins: Float64Array, at: number): number {
  let [low, high] = [0, begins.length - 2];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (begins[middle]! <= at) low = middle;
    else high = middle - 1;
  }
  return Math.max(0, low);
}

/** Parts as one array. @param none an array of the same kind, where there is no part */
export function joined(parts: readonly TokenArray[], count: number, none: () => TokenArray): TokenArray {
  if (parts.length === 1) return parts[0]!;
  const tokens = emptyLike(parts[0] ?? none(), count);
  let done = 0;
  for (const part of parts) {
    tokens.set(part, done);
    done += part.length;
  }
  return tokens;
}

/** Zeros in an array of the same kind. */
export function emptyLike<A extends TokenArray | Uint8Array>(array: A, length: number): A {
  return new (array.constructor as new (length: number) => A)(length);
}
