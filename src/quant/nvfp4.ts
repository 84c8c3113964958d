/**
 * The NVFP4 quantizer: E2M1 elements, an E4M3 scale for each block of 16 (or 16×16), a float32 scale for the tensor.
 *
 *     A   = max|x|
 *     S   = min(2688 / A, FLT_MAX), 1 where A is 0 or not finite
 *     s_b = E4M3(min(a_b · (S · fp32(1/6)), 448))        a_b = the block's max|x|
 *     e_b = min(1 / (s_b · (1/S)), FLT_MAX)
 *     q   = E2M1(x · e_b)                                x ≈ q · s_b · (A / 2688)
 *
 * All in float32, every operation rounded on its own.
 */
import { ShapeError } from "../base/errors.ts";
import { full, optimizationBarrier, showSpec, type Tensor, where } from "../core/index.ts";
import { type DrawStream, randomBits16 } from "../core/random.ts";
import { type BlockSize, blockStrides, blockView, largestMagnitudes, padToBlocks, perBlock } from "./blocks.ts";
import { e2m1, e4m3 } from "./formats.ts";
import { elementNumbers } from "./random.ts";
import { rotateTokens, rotationSize } from "./rotation.ts";
import { roundNearest, roundStochastic } from "./rounding.ts";

const maxFloat32 = 3.4028234663852886e38;
const blockLength = 16;
/** The largest value of an element times the largest of a block scale. */
const codeRange = e2m1.max * e4m3.max;

export interface Nvfp4Options {
  /** Blocks lie along the rows (16 neighbours of the last dim) or along the columns (16 of dim 0). */
  readonly axis: "row" | "col";
  /** 1×16 blocks, or 16×16 tiles, which are the same whichever way the matrix is read. */
  readonly block: "1d" | "2d";
  /** Rotate groups of 16 along dim 0 first; only for 1-D blocks along the columns. */
  readonly rht: boolean;
  readonly rounding: "nearest" | { readonly stochastic: DrawStream };
}

/** A quantized matrix as the emulated product reads it: x ≈ values · (amax / 2688). */
export interface Quantized {
  /** q · s_b, bfloat16 and exact. x's shape; with `rht`, dim 0 is rounded up to whole groups. */
  readonly values: Tensor;
  /** A: float32 scalar. NaN or infinite where x (or its rotation) holds such a value. */
  readonly amax: Tensor;
  /** q: float32 on E2M1's grid, in the shape of `values`. */
  readonly elements: Tensor;
  /** s_b: float32 on E4M3's grid, one a block (of the padded matrix). */
  readonly blockScales: Tensor;
  readonly block: BlockSize;
}

/**
 * Quantizes x [M, N] (bfloat16 or float32). Dims that are no multiple of 16 along a block are padded with zeros inside.
 * A NaN or infinity in x makes `amax` not finite; NaN stays NaN in `values`. @throws ShapeError
 */
export function quantizeNvfp4(x: Tensor, { axis, block, rht, rounding }: Nvfp4Options): Quantized {
  if (x.rank !== 2 || (x.dtype !== "bfloat16" && x.dtype !== "float32")) {
    throw new ShapeError(`quantizeNvfp4 takes a bfloat16 or float32 matrix; got ${showSpec(x)}`);
  }
  if (rht && (axis !== "col" || block !== "1d")) {
    throw new ShapeError('quantizeNvfp4: only 1-D blocks along dim 0 can be rotated: { axis: "col", block: "1d" }');
  }
  const size: BlockSize = {
    rows: axis === "col" || block === "2d" ? blockLength : 1,
    columns: axis === "row" || block === "2d" ? blockLength : 1,
  };
  const source = rht ? rotateTokens(padToBlocks(x, { rows: rotationSize, columns: 1 })) : x;
  const padded = padToBlocks(source, size);
  const { ofBlocks, ofMatrix: amax } = largestMagnitudes(padded, size);
  const { stored, encode } = scalesOf(ofBlocks, amax);
  const scaled = blockView(padded, size).astype("float32").mul(perBlock(encode, size));
  const elements =
    rounding === "nearest"
      ? roundNearest(scaled, e2m1)
      : roundStochastic(scaled, e2m1, draws(scaled, rounding.stochastic, source.shape[1]!, size));
  const values = exactBfloat16(elements.mul(perBlock(stored, size)));
  const toMatrix = (blocks: Tensor) => blocks.reshape(padded.shape).slice([0, 0], source.shape);
  return { values: toMatrix(values), amax, elements: toMatrix(elements), blockScales: stored, block: size };
}

/**
 * Stored and encode scale of each block, from the largest magnitudes. They stand behind a barrier, or XLA would compute
 * them again for each element.
 */
function scalesOf(blockMax: Tensor, amax: Tensor): { stored: Tensor; encode: Tensor } {
  const one = full([], 1, "float32");
  const usable = amax.gt(0).and(amax.isFinite());
  const S = where(usable, full([], codeRange, "float32").div(amax).min(maxFloat32), one);
  const stored = roundNearest(
    blockMax
      .reshape([-1])
      .mul(S.mul(1 / 6))
      .min(e4m3.max),
    e4m3,
  );
  const encode = full(stored.shape, 1, "float32")
    .div(stored.mul(one.div(S)))
    .min(maxFloat32);
  const [s, e] = optimizationBarrier([stored, encode]) as [Tensor, Tensor];
  return { stored: s.reshape(blockMax.shape), encode: e.reshape(blockMax.shape) };
}

/** One draw for each element of the block view, numbered by its place in the matrix of `width` columns, unpadded. */
function draws(view: Tensor, stream: DrawStream, width: number, size: BlockSize): Tensor {
  return randomBits16(stream, elementNumbers(view.shape, blockStrides(width, size)));
}

/** A float32 that bfloat16 holds exactly, converted by cutting its low bits: a quarter of the work of rounding. */
function exactBfloat16(x: Tensor): Tensor {
  return x.bitcast("uint32").shiftRight(16).astype("uint16").bitcast("bfloat16");
}

/** x̂ in float32, in the shape of `values`: the order of operations of decoders, q · (s_b · A / 2688). For inspection. */
export function dequantize({ elements, blockScales, amax, block }: Quantized): Tensor {
  const padded = padToBlocks(elements, block);
  const decode = blockScales.mul(amax).mul(1 / codeRange);
  const decoded = blockView(padded, block).mul(perBlock(decode, block));
  return decoded.reshape(padded.shape).slice([0, 0], elements.shape);
}

/** The factor that belongs to the tensor: x ≈ values · tensorFactor(amax). IEEE division, not a product by 1/2688. */
export function tensorFactor(amax: Tensor): Tensor {
  const [range] = optimizationBarrier([full([], codeRange, "float32")]) as [Tensor];
  return amax.div(range);
}
