/**
 * The order that attention computes in: a key head's queries as rows side by side, ranges of heads, blocks of rows.
 *
 * Dims: B batch, T time, N query heads, K key heads, G = N/K, H head dim.
 */
import { concat, type Tensor } from "../core/index.ts";

/** How much of the scores exists at a time. */
export interface AttentionTiles {
  /** Query positions in a block. */
  readonly rows: number;
  /** Key heads (of all batch entries) handled together, at least. */
  readonly heads: number;
}

/** How the heads are taken apart. */
export interface HeadsOptions {
  /** G */
  readonly group: number;
  readonly tiles: AttentionTiles;
}

/** [B, T, K·G, H] → [B·K, T·G, H]: a key head's queries as rows. */
export function byHead(x: Tensor, group: number): Tensor {
  const [B, T, N, H] = x.shape as [number, number, number, number];
  const K = N / group;
  return x
    .reshape([B, T, K, group, H])
    .transpose([0, 2, 1, 3, 4])
    .reshape([B * K, T * group, H]);
}

/** The way back, into the shape of `like`. */
export function byTime(x: Tensor, { shape }: Tensor, group: number): Tensor {
  const [B, T, N, H] = shape as [number, number, number, number];
  return x
    .reshape([B, N / group, T, group, H])
    .transpose([0, 2, 1, 3, 4])
    .reshape(shape);
}

/** starts [B, T] → [B·K, T·G, 1]: as the rows of `byHead`. */
export function startsByHead(starts: Tensor, q: Tensor, group: number): Tensor {
  const [B, T, N] = q.shape as [number, number, number];
  const K = N / group;
  return starts
    .reshape([B, 1, T, 1])
    .broadcastTo([B, K, T, group])
    .reshape([B * K, T * group, 1]);
}

/** Results of parts, which have heads each, joined by name. */
export function joined<P>(parts: readonly P[], name: keyof P): Tensor {
  return concat(
    parts.map((part) => part[name] as Tensor),
    0,
  );
}

/** Ranges are unrolled: where there are many heads, each takes more, so that programs do not grow with the batch. */
const mostRanges = 16;

/** Parts of the heads, which are computed one after the other. */
export function headRanges(q: Tensor, { tiles }: HeadsOptions): { of: (x: Tensor) => Tensor }[] {
  const heads = q.shape[0]!;
  const size = Math.max(tiles.heads, Math.ceil(heads / mostRanges));
  const starts = Array.from({ length: Math.ceil(heads / size) }, (_, i) => i * size);
  return starts.map((start) => ({ of: (x) => x.narrow(0, start, Math.min(size, heads - start)) }));
}

/** Blocks of query rows with the keys they may see. */
export function rowBlocks(q: Tensor, { group, tiles }: HeadsOptions): { start: number; size: number; keys: number }[] {
  const length = q.shape[1]! / group;
  return Array.from({ length: Math.ceil(length / tiles.rows) }, (_, i) => {
    const from = i * tiles.rows;
    const to = Math.min(length, from + tiles.rows);
    return { start: from * group, size: (to - from) * group, keys: to };
  });
}
