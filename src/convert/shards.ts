/** How a model's tensors are spread over files, as Hugging Face's tools do it. */
import { byteLength, type Spec } from "../core/index.ts";

/** One file and its tensors. */
export interface Shard<T extends Spec> {
  readonly name: string;
  readonly tensors: readonly (readonly [string, T])[];
}

/** In order, a new file where the next tensor would make one larger than `maxBytes`; a larger tensor has one of its own. */
export function shardsOf<T extends Spec>(tensors: Iterable<readonly [string, T]>, maxBytes: number): Shard<T>[] {
  const parts: (readonly [string, T])[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const entry of tensors) {
    const size = byteLength(entry[1]);
    if (bytes + size > maxBytes) {
      parts.push([]);
      bytes = 0;
    }
    parts.at(-1)!.push(entry);
    bytes += size;
  }
  const number = (n: number) => String(n).padStart(5, "0");
  return parts.map((entries, i) => ({
    name: parts.length === 1 ? "model.safetensors" : `model-${number(i + 1)}-of-${number(parts.length)}.safetensors`,
    tensors: entries,
  }));
}
