/**
 * Batches as pure functions of a number: training step n always gets the same windows, whatever ran before, so resuming
 * needs no state. Each epoch visits every window once, in an order of its own.
 */
import { invariant } from "../base/errors.ts";
import { type HostArray, hostArray } from "../core/hostArray.ts";
import { sequenceOrder } from "./mixture.ts";
import { addReports, type PackingReport } from "./packingReport.ts";
import type { Packing } from "./packingSettings.ts";
import { onlyProcess, type ProcessPart, rowsOfProcess } from "./processPart.ts";
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
  /** Which of the sources each row is of, B numbers: their places in `TrainingBatches.sources`. Absent where there is one. */
  readonly sources?: Uint16Array;
}

/** The batches of training, by step, without end. */
export interface TrainingBatches {
  /** Sequences of all sources together. */
  readonly windows: number;
  /** The sources' names; absent where there is one. */
  readonly sources?: readonly string[];
  /** The batch of training step `step` (from 1). */
  batchAt(step: number): Batch;
  /** How well documents fill the windows; absent where they are cut to fit. */
  readonly packing?: PackingReport;
  /** Epochs begun when step `step` is done, as a fraction: 1 after every window was seen once. */
  epochAt(step: number): number;
  /** The same of each source; absent where there is one. */
  epochsAt?(step: number): readonly { readonly source: string; readonly epochs: number }[];
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
  return mixedBatches([{ name: "", sequences: sequencesOf(stream, cut, "full") }], cut, { seed });
}

/** What training reads, with its share where there are others. */
export interface TrainingSource {
  readonly name: string;
  readonly sequences: Sequences & { readonly report?: PackingReport };
  readonly weight?: number;
}

/** Training batches over one source or several, of which all have a weight or none. A process reads its own rows. */
export function mixedBatches(
  sources: readonly TrainingSource[],
  cut: BatchShape,
  { seed, part = onlyProcess }: { readonly seed: number; readonly part?: ProcessPart },
): TrainingBatches {
  const { batchSize: all } = stepShape(cut);
  const rows = rowsOfProcess(cut, part);
  const shape = { batchSize: rows.length, windowLength: cut.windowLength };
  const counts = sources.map(({ sequences }) => sequences.count);
  const weights = sources.flatMap(({ weight }) => weight ?? []);
  const order = sequenceOrder(counts, weights.length > 0 ? weights : undefined, seed);
  const windows = counts.reduce((sum, count) => sum + count, 0);
  const masked = sources.some(({ sequences }) => sequences.masked);
  const segmented = sources.some(({ sequences }) => sequences.segmented);
  const reports = sources.flatMap(({ sequences }) => sequences.report ?? []);
  return {
    windows,
    ...(reports.length > 0 && { packing: addReports(reports) }),
    epochAt: (step) => (step * all) / windows,
    ...(sources.length > 1 && {
      sources: sources.map(({ name }) => name),
      epochsAt: (step: number) => order.epochsAt(step * all).map((epochs, i) => ({ source: sources[i]!.name, epochs })),
    }),
    batchAt(step) {
      invariant(Number.isInteger(step) && step >= 1, `training steps count from 1; got ${step}`);
      const batch = emptyBatch(shape, masked, segmented);
      const sourceOf = new Uint16Array(rows.length);
      for (const [row, position] of rows.entries()) {
        const { source, index } = order.placeAt((step - 1) * all + position);
        sources[source]!.sequences.write(index, batch, row);
        sourceOf[row] = source;
      }
      return { ...finishBatch(batch, shape), ...(sources.length > 1 && { sources: sourceOf }) };
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
