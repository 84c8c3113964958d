/**
 * Four over six: each block is quantized twice, its maximum mapped to 6 and to 4, and the version with the smaller error is
 * kept. E2M1 has no value between 4 and 6, so blocks whose large values lie there do better under 4.
 *
 *     t   = (a / 6) · S · gain               s6 = E4M3(min(t, 448))      s4 = E4M3(min(t · 1.5, 448))
 *     d   = ((q · s) · A) / (6B) − x         error = Σ |d| (mae), Σ d² (mse) or max |d| (absmax), float32
 *
 * Sums go left to right along a row; rows of a 16×16 tile are added as a tree. 4 wins where its error is strictly smaller.
 */
import { optimizationBarrier, type Tensor, where } from "../core/index.ts";
import { type BlockSize, blockSums, perBlock, reduceBlocks } from "./blocks.ts";
import type { NarrowFormat } from "./formats.ts";
import type { E4m3Scale } from "./precision.ts";
import { codeRange, encodeScale, outerScale, storedE4m3, zeroScale } from "./scales.ts";

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
  /** x · e of the chosen scale, and what it is rounded to. */
  readonly scaled: Tensor;
  readonly elements: Tensor;
}

export function chooseFourOrSix(input: FourOverSixInput): FourOrSix {
  const { view, ofBlocks, amax, size, scale, format, round } = input;
  const range = codeRange(scale, format);
  const S = outerScale(amax, range);
  // Two products that must not become one: (a / 6)·S is not a·(S / 6).
  const materialised = (t: Tensor): Tensor => optimizationBarrier([t])[0]!;
  const { gain = 1 } = scale;
  const ofSix = materialised(materialised(ofBlocks.div(format.max)).mul(S));
  // S has been divided by the gain, which is to leave room in the elements, not in the scales.
  const t = gain === 1 ? ofSix : materialised(ofSix.mul(gain));
  const candidate = (target: Tensor) => {
    const stored = materialised(storedE4m3(target, zeroScale(scale)));
    const scaled = view.mul(perBlock(materialised(encodeScale(stored, S)), size));
    const elements = round(scaled);
    const spread = amax.rank === 0 ? amax : perBlock(amax.broadcastTo(ofBlocks.shape), size);
    const off = elements.mul(perBlock(stored, size)).mul(spread).div(range).sub(view);
    return { stored, scaled, elements, error: blockError(off, size, scale.fourOverSix) };
  };
  const six = candidate(t);
  const four = candidate(t.mul(1.5));
  const takeFour = materialised(four.error.lt(six.error));
  const chosen = (of: "scaled" | "elements") =>
    where(perBlock(takeFour, size).broadcastTo(view.shape), four[of], six[of]);
  return {
    stored: where(takeFour, four.stored, six.stored),
    scaled: chosen("scaled"),
    elements: chosen("elements"),
  };
}

function blockError(off: Tensor, size: BlockSize, kind: E4m3Scale["fourOverSix"]): Tensor {
  if (kind === "absmax") return reduceBlocks(off.abs(), size, (a, b) => a.max(b));
  return blockSums(kind === "mae" ? off.abs() : off.mul(off), size);
}
