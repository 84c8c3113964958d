/**
 * Batches as pure functions of a number: training step n always gets the same windows, whatever ran before, so resuming
 * needs no state. Each epoch visits every window once, in an order of its own.
 */
import { invariant } from "../base/errors.ts";
import { type HostArray, hostArray } from "../core/hostArray.ts";
import { fullWindows, type PackedTokens } from "./packing.ts";
import { permutation } from "./permutation.ts";

/** Tokens of a step and what they are to predict, on the host. */
export interface Batch {
  /** int32 [B, T]: the model's input. */
  readonly tokens: HostArray;
  /** int32 [B, T]: the token that follows each of them. */
  readonly targets: HostArray;
  /** float32 [B, T], 1 where a target counts and 0 where it is padding. Absent: all count. */
  readonly mask?: HostArray;
  /** Targets that count. */
  readonly validTokens: number;
}

/** A validation batch also knows the bytes of text its targets stand for, the unit of bits per byte. */
export interface ValidationBatch extends Batch {
  readonly mask: HostArray;
  readonly targetBytes: number;
}

/** The batches of training, by step, without end. */
export interface TrainingBatches {
  readonly windows: number;
  /** The batch of training step `step` (from 1). */
  batchAt(step: number): Batch;
  /** Epochs begun when step `step` is done, as a fraction: 1 after every window was seen once. */
  epochAt(step: number): number;
}

/** The batches of one pass over the validation text. */
export interface ValidationBatches {
  readonly windows: number;
  readonly batches: number;
  /** Batch `index` (from 0). Windows come in their order, each once; the last batch is filled up with padding. */
  batchAt(index: number): ValidationBatch;
}

/** How packed tokens are cut into batches. */
export interface BatchShape {
  /** B: windows in a batch; in a micro-batch where a training step has several. */
  readonly batchSize: number;
  /** A: micro-batches of a training step (default 1); its batch holds A·B windows, those of the first micro-batch first. */
  readonly microBatches?: number;
  /** T: targets in a window. */
  readonly windowLength: number;
}

/** The batches of training steps: all micro-batches together, so that data do not depend on how a batch is cut. */
export function stepShape({ batchSize, windowLength, microBatches = 1 }: BatchShape): BatchShape {
  return { batchSize: batchSize * microBatches, windowLength };
}

/** Training batches over the full windows of a stream; fewer than T tokens at its end are left out. */
export function trainingBatches(packed: PackedTokens, cut: BatchShape, seed: number): TrainingBatches {
  const shape = stepShape(cut);
  const { batchSize, windowLength } = shape;
  const windows = fullWindows(packed.tokens.length, windowLength);
  invariant(windows > 0, "training batches of a stream shorter than a window");
  let cached = { epoch: -1, windowAt: (position: number) => position };
  const windowAt = (position: number): number => {
    const epoch = Math.floor(position / windows);
    if (cached.epoch !== epoch) cached = { epoch, windowAt: permutation(windows, seed, epoch) };
    return cached.windowAt(position % windows);
  };
  return {
    windows,
    epochAt: (step) => (step * batchSize) / windows,
    batchAt(step) {
      invariant(Number.isInteger(step) && step >= 1, `training steps count from 1; got ${step}`);
      const batch = emptyBatch(shape);
      for (let row = 0; row < batchSize; row++) {
        const window = windowAt((step - 1) * batchSize + row);
        fillRow(batch, row * windowLength, packed, window * windowLength, windowLength);
      }
      return finishBatch(batch, shape);
    },
  };
}

/** Validation batches over every token of a stream. @param bytesOfToken bytes of text by token id. */
export function validationBatches(
  packed: PackedTokens,
  shape: BatchShape,
  bytesOfToken: ArrayLike<number>,
): ValidationBatches {
  const { batchSize, windowLength } = shape;
  const targets = packed.tokens.length - 1;
  const windows = Math.ceil(targets / windowLength);
  const batches = Math.ceil(windows / batchSize);
  return {
    windows,
    batches,
    batchAt(index) {
      invariant(Number.isInteger(index) && index >= 0 && index < batches, `validation batch ${index} of ${batches}`);
      const batch = emptyBatch(shape);
      const mask = new Float32Array(batchSize * windowLength);
      let validTokens = 0;
      let targetBytes = 0;
      for (let row = 0; row < batchSize; row++) {
        const start = (index * batchSize + row) * windowLength;
        const count = Math.max(0, Math.min(windowLength, targets - start));
        fillRow(batch, row * windowLength, packed, start, count);
        mask.fill(1, row * windowLength, row * windowLength + count);
        validTokens += count;
        for (let i = start + 1; i <= start + count; i++) targetBytes += bytesOfToken[packed.tokens[i]!]!;
      }
      return {
        ...finishBatch(batch, shape),
        mask: hostArray([batchSize, windowLength], "float32", mask),
        validTokens,
        targetBytes,
      };
    },
  };
}

export interface BatchData {
  readonly tokens: Int32Array;
  readonly targets: Int32Array;
}

export function emptyBatch({ batchSize, windowLength }: BatchShape): BatchData {
  return { tokens: new Int32Array(batchSize * windowLength), targets: new Int32Array(batchSize * windowLength) };
}

/** `count` tokens from `start`, and those one further on as targets, to the row at `offset`. */
function fillRow(batch: BatchData, offset: number, packed: PackedTokens, start: number, count: number): void {
  batch.tokens.set(packed.tokens.subarray(start, start + count), offset);
  batch.targets.set(packed.tokens.subarray(start + 1, start + 1 + count), offset);
}

/** A batch of which every target counts. */
export function finishBatch({ tokens, targets }: BatchData, { batchSize, windowLength }: BatchShape): Batch {
  return {
    tokens: hostArray([batchSize, windowLength], "int32", tokens),
    targets: hostArray([batchSize, windowLength], "int32", targets),
    validTokens: batchSize * windowLength,
  };
}
