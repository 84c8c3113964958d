/**
 * Cross-entropy of next-token prediction, fused with the output head and taken in chunks of rows, so that the logits of
 * a whole batch never exist. The gradient is formed with the loss, while a chunk's logits are at hand: the backward
 * pass only scales it (an evaluation drops it as dead code).
 *
 * Dims: M tokens, D model, V vocabulary.
 */
import { customVjp, withKernel } from "../autodiff/index.ts";
import { ShapeError } from "../base/errors.ts";
import { maxFinite } from "../core/codecs.ts";
import {
  concat,
  dot,
  full,
  inPass,
  iota,
  sameShape,
  showSpec,
  sizeOf,
  type Tensor,
  takeAlong,
  where,
  zeros,
} from "../core/index.ts";
import { inSequence } from "./inSequence.ts";

/** Hidden states, the head, what they are to predict and what counts. */
export interface CrossEntropyInputs {
  /** [M, D] in the compute dtype. */
  readonly hidden: Tensor;
  /** [V, D] float32 master weights. */
  readonly head: Tensor;
  /** [M] int32; entries of weight 0 may hold anything. For one outside the vocabulary no logit is subtracted, nor pulled up. */
  readonly targets: Tensor;
  /** [M] float32: 1 for a token that counts, 0 for one that does not. */
  readonly weights: Tensor;
  /** Weight of the z-loss, the square of a token's log-normaliser, which keeps logits from drifting; default 0. */
  readonly zLoss?: number;
  /** Rows of the head that stand for tokens; those from here on are padding, which is never predicted. Default: all. */
  readonly vocabSize?: number;
}

/** Sums over the tokens that count, float32 scalars. */
export interface CrossEntropy {
  /** Σ weight · (−log p(target) + zLoss · log²Σ exp(logits)), float32. */
  readonly lossSum: Tensor;
  /** Σ weight, float32. */
  readonly totalWeight: Tensor;
  /** [M] float32: what each token adds to `lossSum`. No program has it where nobody reads it. */
  readonly losses: Tensor;
}

/** Float32 logits of one chunk are kept at or below this size. */
const maxChunkBytes = 64 << 20;

/** Sums, not means: totals of several batches can be added and divided once. @throws ShapeError where inputs do not fit, or are empty */
export function crossEntropy(inputs: CrossEntropyInputs): CrossEntropy {
  checkInputs(inputs);
  const { hidden, head, targets, weights, zLoss = 0, vocabSize = head.shape[0]! } = inputs;
  const { lossSum, losses, ...gradients } = inChunks({ hidden, head, targets, weights, zLoss, vocabSize });
  const differentiable = customVjp({
    fwd: (_hidden: Tensor, _head: Tensor) => ({ out: lossSum, residuals: gradients }),
    bwd: ({ dHidden, dHead }, ct) => [dHidden.astype("float32").mul(ct).astype(dHidden.dtype), dHead.mul(ct)],
  });
  return { lossSum: differentiable(hidden, head), totalWeight: weights.sum(), losses };
}

/** The loss of all rows, and its gradients, chunk by chunk. */
function inChunks({ hidden, head, targets, weights, ...options }: Required<CrossEntropyInputs>): Chunk {
  const compute = head.astype(hidden.dtype);
  const rows = chunkRanges(hidden.shape[0]!, head.shape[0]!).map(({ start, size }) => ({
    hidden: hidden.narrow(0, start, size),
    head: compute,
    targets: targets.narrow(0, start, size),
    weights: weights.narrow(0, start, size),
  }));
  const plus = (sum: Tensor | undefined, part: Tensor) => (sum === undefined ? part : sum.add(part));
  // Beside the chain, which keeps all that it hands on.
  const losses: Tensor[] = [];
  const chunks = inSequence(rows, (input, before: Omit<Chunk, "losses"> | undefined) => {
    const { lossSum, losses: own, dHidden, dHead } = chunk({ ...input, ...options });
    losses.push(own);
    return { lossSum: plus(before?.lossSum, lossSum), dHidden, dHead: plus(before?.dHead, dHead) };
  });
  const { lossSum, dHead } = chunks.at(-1)!;
  const dHidden = concat(
    chunks.map((c) => c.dHidden),
    0,
  );
  return { lossSum, losses: concat(losses, 0), dHidden, dHead };
}

function checkInputs({ hidden, head, targets, weights }: CrossEntropyInputs): void {
  const given = `got ${Object.entries({ hidden, head, targets, weights })
    .map(([name, x]) => `${name} ${showSpec(x)}`)
    .join(", ")}`;
  const rows = hidden.shape.slice(0, 1);
  const fit = hidden.shape.length === 2 && head.shape.length === 2 && hidden.shape[1] === head.shape[1];
  if (!fit || !sameShape(targets.shape, rows) || !sameShape(weights.shape, rows)) {
    throw new ShapeError(
      `crossEntropy: hidden is [tokens, dim], head [vocabulary, dim], targets and weights are [tokens]; ${given}`,
    );
  }
  if (sizeOf(hidden.shape) === 0 || sizeOf(head.shape) === 0) {
    throw new ShapeError(`crossEntropy: there is no token to predict; ${given}`);
  }
}

function chunkRanges(numRows: number, vocabSize: number): { start: number; size: number }[] {
  const count = Math.ceil((numRows * vocabSize * 4) / maxChunkBytes);
  const size = Math.ceil(numRows / count);
  return Array.from({ length: count }, (_, i) => ({ start: i * size, size: Math.min(size, numRows - i * size) }));
}

interface Chunk {
  readonly lossSum: Tensor;
  /** [m] float32, each times its weight. */
  readonly losses: Tensor;
  /** [m, D] in the compute dtype. */
  readonly dHidden: Tensor;
  /** [V, D] float32 */
  readonly dHead: Tensor;
}

/** hidden [m, D], head [V, D] in the compute dtype, targets and weights [m]. */
function chunk({ hidden, head, targets, weights, zLoss, vocabSize }: Required<CrossEntropyInputs>): Chunk {
  const all = inPass("fprop", () => dot(hidden, head, { contract: [[1], [1]], out: "float32" }));
  const logits = vocabSize === head.shape[0] ? all : maskedFrom(all, vocabSize);
  const rows = withKernel(
    "halfbyte.softmax_loss",
    (logits: Tensor, targets: Tensor, weights: Tensor) => {
      const { losses, dLogits } = rowLosses({ logits, targets, weights, zLoss });
      return [losses, dLogits.astype(hidden.dtype)] as const;
    },
    { zLoss },
  );
  const [losses, dLogits] = rows(logits, targets, weights);
  return {
    lossSum: losses.sum(),
    losses,
    dHidden: inPass("dgrad", () => dot(dLogits, head, { contract: [[1], [0]], out: hidden.dtype })),
    dHead: inPass("wgrad", () => dot(dLogits, hidden, { contract: [[0], [0]], out: "float32" })),
  };
}

/** float32 [m, V] with the least of all numbers from a column on: exp makes 0 of it, and of its gradient. */
function maskedFrom(logits: Tensor, column: number): Tensor {
  return where(iota(logits.shape, 1, "int32").lt(column), logits, full([], -maxFinite("float32"), "float32"));
}

interface RowLosses {
  /** [m] float32, each times its weight. */
  readonly losses: Tensor;
  /** [m, V] float32 */
  readonly dLogits: Tensor;
}

function rowLosses({
  logits,
  targets,
  weights,
  zLoss,
}: { readonly logits: Tensor } & Omit<Required<CrossEntropyInputs>, "hidden" | "head" | "vocabSize">): RowLosses {
  const highest = logits.maxOver(1, { keepDims: true });
  const logSumExp = logits.sub(highest).exp().sum(1, { keepDims: true }).log().add(highest);
  const column = targets.expandDims(1);
  const weight = weights.expandDims(1);
  const nll = logSumExp.sub(takeAlong(logits, column, 1));
  const losses = zLoss === 0 ? nll : nll.add(logSumExp.mul(logSumExp).mul(zLoss));
  // A masked row must not turn an infinite loss into NaN: 0 · ∞.
  const counted = where(weight.gt(0), losses.mul(weight), zeros([], "float32"));
  const isTarget = iota(logits.shape, 1, "int32").eq(column);
  const probability = logits.sub(logSumExp).exp();
  // d log²Z / d logit = 2 · log Z · p: only the p of the cross-entropy's p − [target] is larger.
  const pulled = zLoss === 0 ? probability : probability.mul(logSumExp.mul(2 * zLoss).add(1));
  const dLogits = where(isTarget, pulled.sub(1), pulled).mul(weight);
  return { losses: counted.reshape([logits.shape[0]!]), dLogits };
}
