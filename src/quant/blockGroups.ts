/**
 * Groups of blocks: `count` neighbours in the direction in which blocks of 1×n or n×1 are long. Values of blocks are
 * [M / rows, N / columns]; those of groups have that many fewer along the one dim.
 */
import type { Tensor } from "../core/index.ts";
import { type BlockSize, largestAlong, padToBlocks } from "./blocks.ts";

/** The dim along which blocks are long. */
const alongOf = ({ columns }: BlockSize): 0 | 1 => (columns === 1 ? 0 : 1);

/** Sums over groups, float32, left to right. */
export function sumGroups(ofBlocks: Tensor, size: BlockSize, count: number): Tensor {
  const view = groupView(ofBlocks, size, count);
  return Array.from({ length: count }, (_, i) => view.at(alongOf(size) + 1, i)).reduce((sum, term) => sum.add(term));
}

/** The largest of each group of magnitudes; the last group may have fewer. */
export function largestOfGroups(ofBlocks: Tensor, size: BlockSize, count: number): Tensor {
  const whole = alongOf(size) === 0 ? { rows: count, columns: 1 } : { rows: 1, columns: count };
  return largestAlong(groupView(padToBlocks(ofBlocks, whole), size, count), alongOf(size) + 1);
}

/** A value of each group at each of its blocks, of which there are `numBlocks` in the direction of the groups. */
export function perBlockOfGroups(ofGroups: Tensor, size: BlockSize, count: number, numBlocks: number): Tensor {
  const [M, N] = ofGroups.shape as [number, number];
  const along = alongOf(size);
  const repeated = ofGroups.expandDims(along + 1).broadcastTo(along === 0 ? [M, count, N] : [M, N, count]);
  return repeated.reshape(along === 0 ? [M * count, N] : [M, N * count]).narrow(along, 0, numBlocks);
}

/** With the blocks of a group as a dim of their own, after that of the groups. */
function groupView(ofBlocks: Tensor, size: BlockSize, count: number): Tensor {
  const [M, N] = ofBlocks.shape as [number, number];
  return ofBlocks.reshape(alongOf(size) === 0 ? [M / count, count, N] : [M, N / count, count]);
}
