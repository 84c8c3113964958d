/**
 * Batches as pure functions of a number: training step n always gets the same windows, whatever ran before, so resuming
 * needs no state. Each epoch visits every window once, in an order of its own.
 */
import { invariant } from "../base/errors.ts";
import { type HostArray, hostArray } from "../core/hostArray.ts";
import type { PackingReport } from "./packingReport.ts";
import type { Packing } from "./packingSettings.ts";
import { permutation } from "./permutation.ts";
import { sequencesOf } from "./sequences.ts";
import type { TokenStream } from "./tokenStream.ts";

/** Tokens of a step and what they are to predict, on the host. */
export interface Batch {
  /** int32 [B, T]: the model's input. */
  readonly tokens: HostArray;
  /** int32 [B, T]: the token that follows each of them. */
  readonly targets: HostArray;
  /** float32 [B, T], 1 where a target counts and 0 where it is padding. Absent: all count. */
  readonly mask?: HostArray;
  /** int32 [B, T]: the document of each token, from 1 on in each row, and 0 for padding. Absent: a row is one document. */
  readonly segments?: HostArray;
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
  /** How well documents fill the windows; absent where they are cut to fit. */
  readonly packing?: PackingReport;
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
  /** Default: one stream, cut anywhere, in which tokens attend to all before them. */
  readonly packing?: Packing;
}

/** The batches of training steps: all micro-batches together, so that data do not depend on how a batch is cut. */
export function stepShape({ batchSize, windowLength, microBatches = 1, packing }: BatchShape): BatchShape {
  return { batchSize: batchSize * microBatches, windowLength, ...(packing && { packing }) };
}

/** What an epoch is made of: sequences of T targets, each of which is written into a row of a batch by its number. */
export interface Sequences {
  readonly count: number;
  /** Whether some targets do not count, so that batches have a mask. */
  readonly masked: boolean;
  /** Whether batches say which tokens are of which document. */
  readonly segmented?: boolean;
  /** How well documents fill them; absent where they are cut to fit. */
  readonly report?: PackingReport;
  /** Writes sequence `index` (0 .. count-1) into row `row`, of which nothing was written yet. */
  write(index: number, batch: BatchRows, row: number): void;
}

/** Training batches over the sequences of a stream; of one that is cut, fewer than T tokens at its end are left out. */
export function trainingBatches(stream: TokenStream, cut: BatchShape, seed: number): TrainingBatches {
  const shape = stepShape(cut);
  const { batchSize } = shape;
  const windows = sequencesOf(stream, shape, "full");
  invariant(windows.count > 0, "training batches of a stream without a sequence");
  let cached = { epoch: -1, windowAt: (position: number) => position };
  const windowAt = (position: number): number => {
    const epoch = Math.floor(position / windows.count);
    if (cached.epoch !== epoch) cached = { epoch, windowAt: permutation(windows.count, seed, epoch) };
    return cached.windowAt(position % windows.count);
  };
  return {
    windows: windows.count,
    ...(windows.report && { packing: windows.report }),
    epochAt: (step) => (step * batchSize) / windows.count,
    batchAt(step) {
      invariant(Number.isInteger(step) && step >= 1, `training steps count from 1; got ${step}`);
      const batch = emptyBatch(shape, windows.masked, windows.segmented);
      for (let row = 0; row < batchSize; row++) windows.write(windowAt((step - 1) * batchSize + row), batch, row);
      return finishBatch(batch, shape);
    },
  };
}

/** Validation batches over every token of a stream. @param bytesOfToken bytes of text by token id. */
export function validationBatches(
  stream: TokenStream,
  shape: BatchShape,
  bytesOfToken: ArrayLike<number>,
): ValidationBatches {
  const { batchSize } = shape;
  const sequences = sequencesOf(stream, shape, "padded");
  const batches = Math.ceil(sequences.count / batchSize);
  return {
    windows: sequences.count,
    batches,
    batchAt(index) {
      invariant(Number.isInteger(index) && index >= 0 && index < batches, `validation batch ${index} of ${batches}`);
      const rows = emptyBatch(shape, true, sequences.segmented);
      const first = index * batchSize;
      const count = Math.min(batchSize, sequences.count - first);
      for (let row = 0; row < count; row++) sequences.write(first + row, rows, row);
      const batch = finishBatch(rows, shape);
      let targetBytes = 0;
      for (let i = 0; i < rows.targets.length; i++) {
        if (rows.mask![i] === 1) targetBytes += bytesOfToken[rows.targets[i]!]!;
      }
      return { ...batch, mask: batch.mask!, targetBytes };
    },
  };
}

/** The rows of a batch while they are written; zeros at first. */
export interface BatchRows {
  /** T */
  readonly windowLength: number;
  readonly tokens: Int32Array;
  readonly targets: Int32Array;
  /** 1 where a target counts. Absent: all do. */
  readonly mask?: Float32Array;
  /** Numbers of documents from 1 on, 0 for padding. Absent: nobody asks. */
  readonly segments?: Int32Array;
}

/** @param masked whether targets count only where a sequence says so @param segmented whether tokens have documents */
export function emptyBatch({ batchSize, windowLength }: BatchShape, masked = false, segmented = false): BatchRows {
  const size = batchSize * windowLength;
  return {
    windowLength,
    tokens: new Int32Array(size),
    targets: new Int32Array(size),
    ...(masked && { mask: new Float32Array(size) }),
    ...(segmented && { segments: new Int32Array(size) }),
  };
}

/** The batch of rows that are written. */
export function finishBatch(
  { tokens, targets, mask, segments }: BatchRows,
  { batchSize, windowLength }: BatchShape,
): Batch {
  const shape = [batchSize, windowLength];
  return {
    tokens: hostArray(shape, "int32", tokens),
    targets: hostArray(shape, "int32", targets),
    ...(mask && { mask: hostArray(shape, "float32", mask) }),
    ...(segments && { segments: hostArray(shape, "int32", segments) }),
    validTokens: mask ? mask.reduce((sum, weight) => sum + weight, 0) : batchSize * windowLength,
  };
}
