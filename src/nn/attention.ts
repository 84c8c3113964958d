/**
 * Causal attention in tiles, forward and backward (after FlashAttention-2, Dao 2023): row blocks of queries against the
 * keys up to them, a few heads at a time, so that scores stay near the cache and never form [B, H, T, T]. Scores and
 * softmax are float32; probabilities and score cotangents are rounded to the inputs' dtype for their contractions.
 *
 * Grouped queries share keys without repeating them: the rows of a key head's queries lie side by side, (time, group).
 *
 * Dims: B batch, T time, N query heads, K key heads, G = N/K, H head dim.
 */
import { customVjp, withKernel } from "../autodiff/index.ts";
import { ShapeError } from "../base/errors.ts";
import {
  checkpointName,
  concat,
  dot,
  iota,
  pad,
  sameShape,
  showSpec,
  sizeOf,
  type Tensor,
  where,
} from "../core/index.ts";
import {
  type AttentionTiles,
  byHead,
  byTime,
  type HeadsOptions,
  headRanges,
  joined,
  rowBlocks,
  startsByHead,
} from "./attentionHeads.ts";
import { inSequence } from "./inSequence.ts";

/** Queries, keys and values. */
export interface AttentionInputs {
  /** [B, T, N, H] */
  readonly q: Tensor;
  /** [B, T, K, H] */
  readonly k: Tensor;
  /** [B, T, K, H] */
  readonly v: Tensor;
  /** int32 [B, T]: the first position that each position sees, itself or one before. Absent: all see from the first on. */
  readonly starts?: Tensor;
}

/** Measured on 256 to 2,048 positions with 2 cores; see docs/performance.md. */
const tilesFor = (length: number): AttentionTiles =>
  length <= 512 ? { rows: 64, heads: 64 } : { rows: 128, heads: 16 };

/**
 * softmax(q kᵀ / √H, causal) v → [B, T, N, H] in the inputs' dtype. With `starts`, documents that lie side by side don't see
 * each other: a position's result has no bit of what comes before its start.
 * @throws ShapeError where the inputs are others, or empty
 */
export function causalAttention({ q, k, v, starts }: AttentionInputs, tiles?: AttentionTiles): Tensor {
  checkInputs({ q, k, v, ...(starts && { starts }) });
  const options: HeadsOptions = { group: q.shape[2]! / k.shape[2]!, tiles: tiles ?? tilesFor(q.shape[1]!) };
  const kernel = starts === undefined ? "halfbyte.attention" : "halfbyte.segment_attention";
  // Kernels get operands and give results in the order of these lists; the starts come last.
  const forward = withKernel(`${kernel}_forward`, (q: Tensor, k: Tensor, v: Tensor, [starts]: Optional) => {
    const { out, logSumExp } = allForward({ q, k, v, ...(starts && { starts }) }, options);
    return [out, logSumExp] as const;
  });
  type Leaves = readonly [q: Tensor, k: Tensor, v: Tensor, out: Tensor, logSumExp: Tensor, ct: Tensor, Optional];
  const backward = withKernel(`${kernel}_backward`, (...[q, k, v, out, logSumExp, ct, [starts]]: Leaves) => {
    const { dq, dk, dv } = allBackward({ q, k, v, out, logSumExp, ct, ...(starts && { starts }) }, options);
    return [dq, dk, dv] as const;
  });
  const attend = customVjp({
    fwd: (q: Tensor, k: Tensor, v: Tensor, starts: Optional) => {
      const [out, logSumExp] = forward(q, k, v, starts).map((x) => checkpointName(x, "context")) as [Tensor, Tensor];
      return { out, residuals: { q, k, v, out, logSumExp, starts } };
    },
    bwd: ({ q, k, v, out, logSumExp, starts }, ct) => [...backward(q, k, v, out, logSumExp, ct, starts), null],
  });
  return attend(q, k, v, starts === undefined ? [] : [starts]);
}

/** As a tree of Tensors. */
type Optional = readonly [starts?: Tensor];

function checkInputs({ q, k, v, starts }: AttentionInputs): void {
  const given = `got q ${showSpec(q)}, k ${showSpec(k)}, v ${showSpec(v)}`;
  const [B, T, N, H] = q.shape;
  const K = k.shape[2];
  if (q.shape.length !== 4 || k.shape.length !== 4 || !sameShape(k.shape, [B!, T!, K!, H!])) {
    throw new ShapeError(
      `attention: q is [batch, time, heads, dim], k and v are [batch, time, key heads, dim] of the same batch, time and dim; ${given}`,
    );
  }
  if (!sameShape(v.shape, k.shape)) throw new ShapeError(`attention: k and v must have one shape; ${given}`);
  if (k.dtype !== q.dtype || v.dtype !== q.dtype) {
    throw new ShapeError(`attention: q, k and v must have one dtype; ${given}`);
  }
  if (starts && (starts.dtype !== "int32" || !sameShape(starts.shape, [B!, T!]))) {
    throw new ShapeError(`attention: starts are int32 [batch, time]; got ${showSpec(starts)} and q ${showSpec(q)}`);
  }
  if (sizeOf(q.shape) === 0 || K === 0) throw new ShapeError(`attention: there is nothing to attend to; ${given}`);
  if (N! % K! !== 0) {
    throw new ShapeError(
      `attention: ${N} query heads are no multiple of ${K} key heads (${showSpec(q)}, ${showSpec(k)})`,
    );
  }
}

/** Of the inputs by time; the log-sum-exp [B·K, T·G, 1] is by head. */
function allForward({ q, k, v, starts }: Heads, options: HeadsOptions): AttendedHeads {
  const heads = { q: byHead(q, options.group), k: byHead(k, 1), v: byHead(v, 1) };
  const rowStarts = starts && startsByHead(starts, q, options.group);
  const ranges = headRanges(heads.q, options).map(({ of }) => ({
    ...{ q: of(heads.q), k: of(heads.k), v: of(heads.v) },
    ...(rowStarts && { starts: of(rowStarts) }),
  }));
  const parts = inSequence(ranges, (range) => forward(range, options));
  return { out: byTime(joined(parts, "out"), q, options.group), logSumExp: joined(parts, "logSumExp") };
}

/** Of the inputs by time, but for the log-sum-exp. */
function allBackward({ q, k, v, out, logSumExp, ct, starts }: Saved, options: HeadsOptions): Cotangents {
  const { group } = options;
  const rows = { q: byHead(q, group), out: byHead(out, group), ct: byHead(ct, group) };
  const rowStarts = starts && startsByHead(starts, q, group);
  const keys = { k: byHead(k, 1), v: byHead(v, 1) };
  const ranges = headRanges(rows.q, options).map(({ of }) => ({
    q: of(rows.q),
    k: of(keys.k),
    v: of(keys.v),
    out: of(rows.out),
    logSumExp: of(logSumExp),
    ct: of(rows.ct),
    ...(rowStarts && { starts: of(rowStarts) }),
  }));
  const parts = inSequence(ranges, (range) => backward(range, options));
  return {
    dq: byTime(joined(parts, "dq"), q, group),
    dk: byTime(joined(parts, "dk"), k, 1),
    dv: byTime(joined(parts, "dv"), v, 1),
  };
}

/** A power of two scales q exactly; anything else scales the float32 scores. */
function foldScale(q: Tensor): { q: Tensor; scoreScale: number; scale: number } {
  const scale = 1 / Math.sqrt(q.shape[2]!);
  const exact = Number.isInteger(Math.log2(scale));
  return exact ? { q: q.mul(scale), scoreScale: 1, scale } : { q, scoreScale: scale, scale };
}

interface BlockPlace {
  /** The block's first row. */
  readonly start: number;
  readonly group: number;
  readonly scoreScale: number;
}

interface BlockInputs {
  /** [h, rows, H] */
  readonly q: Tensor;
  /** [h, keys, H] */
  readonly k: Tensor;
  /** [h, rows, 1] */
  readonly starts?: Tensor;
}

/** Float32 scores of a row block; keys after a row's position, or before its start, are masked. */
function blockScores({ q, k, starts }: BlockInputs, { start, group, scoreScale }: BlockPlace): Tensor {
  const product = dot(q, k, { contract: [[2], [2]], batch: [[0], [0]], out: "float32" });
  const scores = scoreScale === 1 ? product : product.mul(scoreScale);
  const [, rows, keys] = scores.shape as [number, number, number];
  // Row r belongs to position ⌊(start + r) / group⌋; key s is visible where s·group ≤ start + r.
  const causal = iota([rows, keys], 1, "int32")
    .mul(group)
    .le(iota([rows, keys], 0, "int32").add(start));
  const visible = starts === undefined ? causal : causal.and(iota([1, 1, keys], 2, "int32").ge(starts));
  return where(visible, scores, -1e30);
}

interface AttendedHeads {
  readonly out: Tensor;
  readonly logSumExp: Tensor;
}

function forward({ q, k, v, starts }: Heads, options: HeadsOptions): AttendedHeads {
  const { q: scaledQ, scoreScale } = foldScale(q);
  const ranges = rowBlocks(q, options);
  const inputs = ranges.map(({ start, size, keys }) => ({
    q: scaledQ.narrow(1, start, size),
    k: k.narrow(1, 0, keys),
    v: v.narrow(1, 0, keys),
    ...(starts && { starts: starts.narrow(1, start, size) }),
  }));
  const blocks = inSequence(inputs, (block, _: AttendedHeads | undefined, i) => {
    const { q, v } = block;
    const scores = blockScores(block, { start: ranges[i]!.start, group: options.group, scoreScale });
    const highest = scores.maxOver(2, { keepDims: true });
    const weights = scores.sub(highest).exp();
    const total = weights.sum(2, { keepDims: true });
    const mixed = dot(weights.astype(v.dtype), v, { contract: [[2], [1]], batch: [[0], [0]], out: "float32" });
    return { out: mixed.div(total).astype(q.dtype), logSumExp: highest.add(total.log()) };
  });
  return {
    out: concat(
      blocks.map((b) => b.out),
      1,
    ),
    logSumExp: concat(
      blocks.map((b) => b.logSumExp),
      1,
    ),
  };
}

interface Heads {
  readonly q: Tensor;
  readonly k: Tensor;
  readonly v: Tensor;
  readonly starts?: Tensor;
}

interface Saved extends Heads {
  readonly out: Tensor;
  /** [heads, T·G, 1] float32 */
  readonly logSumExp: Tensor;
  readonly ct: Tensor;
}

interface Cotangents {
  readonly dq: Tensor;
  readonly dk: Tensor;
  readonly dv: Tensor;
}

function backward({ q, k, v, out, logSumExp, ct, starts }: Saved, options: HeadsOptions): Cotangents {
  const { dtype } = q;
  const { q: scaledQ, scoreScale, scale } = foldScale(q);
  // Σ p·dp of each row equals Σ out·ct.
  const delta = out.astype("float32").mul(ct.astype("float32")).sum(2, { keepDims: true });
  const length = k.shape[1]!;
  // A block's keys are the first ones; later keys get nothing from it.
  const extend = (sum: Tensor | undefined, part: Tensor): Tensor => {
    const whole = pad(part, { low: [0, 0, 0], high: [0, length - part.shape[1]!, 0] });
    return sum === undefined ? whole : sum.add(whole);
  };
  const ranges = rowBlocks(q, options);
  const inputs = ranges.map(({ start, size, keys }) => {
    const rows = (x: Tensor) => x.narrow(1, start, size);
    const blocks = { q: rows(scaledQ), k: k.narrow(1, 0, keys), v: v.narrow(1, 0, keys) };
    const saved = { logSumExp: rows(logSumExp), delta: rows(delta), ct: rows(ct) };
    return { ...blocks, ...saved, ...(starts && { starts: rows(starts) }) };
  });
  const blocks = inSequence(inputs, (block, before: Cotangents | undefined, i) => {
    const scores = blockScores(block, { start: ranges[i]!.start, group: options.group, scoreScale });
    const rounded = scores.sub(block.logSumExp).exp().astype(dtype);
    const dWeights = dot(block.ct, block.v, { contract: [[2], [2]], batch: [[0], [0]], out: "float32" });
    const dScores = rounded.astype("float32").mul(dWeights.sub(block.delta)).astype(dtype);
    const dq = dot(dScores, block.k, { contract: [[2], [1]], batch: [[0], [0]], out: "float32" });
    const product = dot(dScores, block.q, { contract: [[1], [1]], batch: [[0], [0]], out: "float32" });
    const dk = scoreScale === 1 ? product : product.mul(scoreScale);
    const dv = dot(rounded, block.ct, { contract: [[1], [1]], batch: [[0], [0]], out: "float32" });
    return { dq: dq.mul(scale).astype(dtype), dk: extend(before?.dk, dk), dv: extend(before?.dv, dv) };
  });
  const { dk, dv } = blocks.at(-1)!;
  const dq = concat(
    blocks.map((block) => block.dq),
    1,
  );
  return { dq, dk: dk.astype(dtype), dv: dv.astype(dtype) };
}
