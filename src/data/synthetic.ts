/**
 * A data set made of nothing but a rule: a Markov chain over the vocabulary in which every token has four likely
 * successors. A model that learns it reaches the chain's entropy, a number known beforehand; and any window can be made
 * without the ones before it.
 */
import { invariant } from "../base/errors.ts";
import {
  type BatchRows,
  type BatchShape,
  emptyBatch,
  finishBatch,
  stepShape,
  type TrainingBatches,
} from "./batches.ts";
import { hashInts } from "./hash.ts";
import { onlyProcess, type ProcessPart, rowsOfProcess } from "./processPart.ts";
import { type ValidationBatches, validationOf } from "./validationBatches.ts";

const successorShares = [0.6, 0.2, 0.15, 0.05];

/** Nats per token of the chain: the least loss any model can reach (for vocabularies of 4 tokens and more). */
export const syntheticEntropy = successorShares.reduce((sum, share) => sum - share * Math.log(share), 0);

/** Held-out windows: enough for a steady loss, few enough to be quick. */
const validationWindows = 64;

interface Stream {
  readonly id: number;
  readonly seed: number;
}

/** The same for every seed, so that losses can be compared. */
const validationStream: Stream = { id: 2, seed: 0 };

/** Training and validation batches over tokens 0..vocabSize-1. Streams of different seeds obey the same rule. */
export function syntheticBatches(
  vocabSize: number,
  shape: BatchShape,
  seed: number,
  part: ProcessPart = onlyProcess,
): { train: TrainingBatches; validation: ValidationBatches } {
  const { windowLength } = shape;
  const { batchSize: all } = stepShape(shape);
  const positions = rowsOfProcess(shape, part);
  const own = { batchSize: positions.length, windowLength };
  const successors = successorTable(vocabSize);
  const trainStream: Stream = { id: 1, seed };
  const fill = (rows: { tokens: Int32Array; targets: Int32Array }, row: number, stream: Stream, window: number) => {
    let state = hashInts(stream.id, stream.seed, window) % vocabSize;
    for (let t = 0; t < windowLength; t++) {
      rows.tokens[row * windowLength + t] = state;
      state = successors[4 * state + draw(hashInts(stream.id, stream.seed, window, t))]!;
      rows.targets[row * windowLength + t] = state;
    }
  };
  const validation = {
    count: validationWindows,
    masked: true,
    write(index: number, batch: BatchRows, row: number) {
      fill(batch, row, validationStream, index);
      batch.mask!.fill(1, row * windowLength, (row + 1) * windowLength);
    },
  };
  return {
    train: {
      windows: Number.POSITIVE_INFINITY,
      epochAt: () => 0,
      batchAt(step) {
        invariant(Number.isInteger(step) && step >= 1, `training steps count from 1; got ${step}`);
        const batch = emptyBatch(own);
        for (const [row, position] of positions.entries()) fill(batch, row, trainStream, (step - 1) * all + position);
        return finishBatch(batch, own);
      },
    },
    // A token of no text counts as a byte, so that bits per byte is bits per token.
    validation: validationOf(validation, shape, new Uint8Array(vocabSize).fill(1)).ofProcess(part),
  };
}

/** Four different successors of each token (fewer where the vocabulary has fewer), by decreasing share. */
function successorTable(vocabSize: number): Int32Array {
  const table = new Int32Array(4 * vocabSize);
  for (let state = 0; state < vocabSize; state++) {
    const chosen: number[] = [];
    for (let attempt = 0; chosen.length < 4; attempt++) {
      const candidate = hashInts(0x5eed, state, attempt) % vocabSize;
      if (!chosen.includes(candidate) || chosen.length >= vocabSize) chosen.push(candidate);
    }
    table.set(chosen, 4 * state);
  }
  return table;
}

/** Rank of the successor for 32 random bits. */
function draw(bits: number): number {
  const u = bits / 2 ** 32;
  return u < 0.6 ? 0 : u < 0.8 ? 1 : u < 0.95 ? 2 : 3;
}
