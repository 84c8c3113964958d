/** Keeping or dropping a whole state inside a compiled step. */
import { type Tensor, treeMap, where } from "../core/index.ts";

/**
 * `condition ? yes : no` for every leaf of two trees of one structure; `condition` is a bool scalar. For small states
 * (counters, scales): on large donated arrays XLA's CPU compiler then copies each of them once (measured), which
 * is why `adamw` takes `finite` itself.
 */
export function selectTree<T>(condition: Tensor, yes: T, no: T): T {
  return treeMap<T>((a: Tensor, b: Tensor) => where(condition, a, b), yes, no);
}
