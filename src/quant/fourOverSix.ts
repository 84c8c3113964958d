/**
 * Four over six: each block is quantized twice, its maximum mapped to 6 and to 4, and the version with the smaller error is
 * kept. E2M1 has no value between 4 and 6, so blocks whose large values lie there do better under 4.
 *
 *     t   = (a / 6) · S                      s6 = E4M3(min(t, 448))      s4 = E4M3(min(t · 1.5, 448))
 *     d   = ((q · s) · A) / (6B) − x         error = Σ |d| (mae) or Σ d² (mse), float32, left to right along a row
 *
 * Rows of a 16×16 tile are added as a tree (8, 4, 2, 1 apart). 4 wins where its error is strictly smaller.
 */
import { optimizationBarrier, type Tensor, where } from "../core/index.ts";
import { type BlockSize, perBlock } from "./blocks.ts";
import { e4m3, type NarrowFormat } from "./formats.ts";
import type { E4m3Scale } from "./precision.ts";
import { roundNearest } from "./rounding.ts";
import { codeRange, encodeScale, outerScale } from "./scales.ts";

interface FourOverSixInput {
  /** x cut into blocks, float32. */
  readonly view: Tensor;
  /** a, float32 [M / rows, N / columns] */
  readonly ofBlocks: Tensor;
  /** A: scalar, or in a shape that broadcasts against `ofBlocks`. */
  readonly amax: Tensor;
  readonly size: BlockSize;
  readonly scale: E4m3Scale;
  readonly format: NarrowFormat;
  readonly round: (scaled: Tensor) => Tensor;
}

export interface FourOrSix {
  /** The chosen scale of each block. */
  readonly stored: Tensor;
  readonly elements: Tensor;
}

export function chooseFourOrSix(input: FourOverSixInput): FourOrSix {
  const { view, ofBlocks, amax, size, scale, format, round } = input;
  const range = codeRange(scale, format);
  const S = outerScale(amax, range);
  // Two products that must not become one: (a / 6)·S is not a·(S / 6).
  const materialised = (t: Tensor): Tensor => optimizationBarrier([t])[0]!;
  const t = materialised(materialised(ofBlocks.div(format.max)).mul(S));
  const candidate = (scaled: Tensor) => {
    const stored = materialised(roundNearest(scaled.min(e4m3.max), e4m3));
    const elements = round(view.mul(perBlock(materialised(encodeScale(stored, S)), size)));
    const spread = amax.rank === 0 ? amax : perBlock(amax.broadcastTo(ofBlocks.shape), size);
    const off = elements.mul(perBlock(stored, size)).mul(spread).div(range).sub(view);
    return { stored, elements, error: blockSums(scale.fourOverSix === "mae" ? off.abs() : off.mul(off), size) };
  };
  const six = candidate(t);
  const four = candidate(t.mul(1.5));
  const takeFour = materialised(four.error.lt(six.error));
  return {
    stored: where(takeFour, four.stored, six.stored),
    elements: where(perBlock(takeFour, size).broadcastTo(view.shape), four.elements, six.elements),
  };
}

/** Sums over each block of a block view, float32 [M / rows, N / columns], in the order that the rule states. */
function blockSums(view: Tensor, { rows, columns }: BlockSize): Tensor {
  const along = (x: Tensor, dim: number, length: number): Tensor =>
    Array.from({ length }, (_, i) => x.at(dim, i)).reduce((sum, term) => sum.add(term));
  // The view's dims: [M / rows, rows?, N / columns, columns?], without those of size 1.
  if (columns === 1) return along(view, 1, rows);
  const ofRows = along(view, view.rank - 1, columns);
  if (rows === 1) return ofRows;
  let sums = ofRows;
  for (let half = rows / 2; half >= 1; half /= 2) {
    sums = sums.narrow(1, 0, half).add(sums.narrow(1, half, half));
  }
  return sums.squeeze(1);
}
