/** Parts of a computation one after the other, so that their temporaries take the room of one. */
import { optimizationBarrier, type Tensor, treeLeaves, treeUnflatten } from "../core/index.ts";

/**
 * f of each of `inputs` in order, given what it made of the one before. A part begins when the one before is done: XLA would
 * otherwise schedule independent parts side by side and hold all their temporaries at once. Inputs and results are trees of
 * Tensors; equal computations in different parts, or before and in them, are not merged.
 */
export function inSequence<I, O>(inputs: readonly I[], f: (input: I, before: O | undefined, index: number) => O): O[] {
  const results: O[] = [];
  inputs.forEach((input, index) => {
    const last = results.at(-1);
    const leaves = treeLeaves<Tensor>([input, last]);
    const held = treeUnflatten<[I, O | undefined]>([input, last], optimizationBarrier(leaves));
    if (last !== undefined) results[index - 1] = held[1]!;
    results.push(f(held[0], held[1], index));
  });
  return results;
}
