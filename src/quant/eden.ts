/**
 * MS-EDEN: nearest rounding whose block scales are corrected so that a randomly rotated group is right on average. Elements
 * clip a little, and none is drawn; the draws are one a block, for the scale.
 *
 *     x̃ = x·e     q = nearest(x̃)     C = Σ x̃² / Σ x̃·q over the rotation's group, 1 where the divisor is 0
 *     stored scale = E4M3, stochastically, of min(s·C, 448)
 *
 * s, e: the block's scales (scales.ts), where a stored scale of 0 is 1. Sums are float32, left to right: first over each
 * block, then over the group's blocks.
 */
import { ShapeError } from "../base/errors.ts";
import { full, optimizationBarrier, type Tensor, where } from "../core/index.ts";
import { type DrawStream, randomBits16 } from "../core/random.ts";
import { perBlockOfGroups, sumGroups } from "./blockGroups.ts";
import { type BlockSize, blockSums, perBlock } from "./blocks.ts";
import { e4m3, type NarrowFormat } from "./formats.ts";
import { elementNumbers } from "./random.ts";
import { roundNearest, roundStochastic } from "./rounding.ts";
import type { BlockScales } from "./scales.ts";

interface EdenInput {
  /** The rotated matrix cut into blocks, float32. */
  readonly view: Tensor;
  readonly size: BlockSize;
  readonly scales: BlockScales;
  readonly format: NarrowFormat;
  /** Elements of the rotation's group along the contracted dim. */
  readonly group: number;
  /** One for each block, numbered row by row. */
  readonly draws: DrawStream;
}

export interface CorrectedBlocks {
  /** The value of the stored scale of each block. */
  readonly stored: Tensor;
  /** x̃ in blocks. */
  readonly scaled: Tensor;
  readonly elements: Tensor;
}

/** @throws ShapeError where a group is no whole number of blocks */
export function edenRound({ view, size, scales, format, group, draws }: EdenInput): CorrectedBlocks {
  const blocksOfGroup = group / Math.max(size.rows, size.columns);
  if (!Number.isInteger(blocksOfGroup)) {
    throw new ShapeError(
      `eden: the rotation's ${group} elements are no whole number of blocks of ${size.rows}×${size.columns}`,
    );
  }
  const { stored, encode } = scales;
  const scaled = view.mul(perBlock(encode, size));
  const elements = roundNearest(scaled, format);
  const sums = (factor: Tensor): Tensor => {
    // Behind a barrier: a product that feeds an add would be fused with it and rounded once.
    const [products] = optimizationBarrier([scaled.mul(factor)]) as [Tensor];
    return sumGroups(blockSums(products, size), size, blocksOfGroup);
  };
  const [squares, projections] = [sums(scaled), sums(elements)];
  const ones = full(squares.shape, 1, "float32");
  const hasElements = projections.gt(0);
  const correction = where(hasElements, squares.div(where(hasElements, projections, ones)), ones);
  const numBlocks = stored.shape[size.columns === 1 ? 0 : 1]!;
  const corrected = stored.mul(perBlockOfGroups(correction, size, blocksOfGroup, numBlocks)).min(e4m3.max);
  const numbers = elementNumbers(stored.shape, [stored.shape[1]!, 1]);
  const [rounded] = optimizationBarrier([roundStochastic(corrected, e4m3, randomBits16(draws, numbers))]) as [Tensor];
  return { stored: rounded, scaled, elements };
}
