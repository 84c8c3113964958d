/**
 * A data set made of nothing but a rule: a Markov chain over the vocabulary in which every token has four likely
 * successors. A model that learns it reaches the chain's entropy, a number known beforehand; and any window can be made
 * without the ones before it.
 */
import { invariant } from "../base/errors.ts";
import { hostArray } from "../core/hostArray.ts";
import {
  type BatchShape,
  emptyBatch,
  finishBatch,
  stepShape,
  type TrainingBatches,
  type ValidationBatches,
} from "./batches.ts";
import { hashInts } from "./hash.ts";

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
): { train: TrainingBatches; validation: ValidationBatches } {
  const { batchSize, windowLength } = shape;
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
  return {
    train: {
      windows: Number.POSITIVE_INFINITY,
      epochAt: () => 0,
      batchAt(step) {
        invariant(Number.isInteger(step) && step >= 1, `training steps count from 1; got ${step}`);
        const whole = stepShape(shape);
        const batch = emptyBatch(whole);
        const first = (step - 1) * whole.batchSize;
        for (let row = 0; row < whole.batchSize; row++) fill(batch, row, trainStream, first + row);
        return finishBatch(batch, whole);
      },
    },
    validation: {
      windows: validationWindows,
      batches: Math.ceil(validationWindows / batchSize),
      batchAt(index) {
        const batch = emptyBatch(shape);
        const rows = Math.min(batchSize, validationWindows - index * batchSize);
        invariant(rows > 0, `validation batch ${index} of ${Math.ceil(validationWindows / batchSize)}`);
        for (let row = 0; row < rows; row++) fill(batch, row, validationStream, index * batchSize + row);
        const mask = new Float32Array(batchSize * windowLength).fill(1, 0, rows * windowLength);
        return {
          ...finishBatch(batch, shape),
          mask: hostArray([batchSize, windowLength], "float32", mask),
          validTokens: rows * windowLength,
          targetBytes: rows * windowLength, // a token of no text counts as a byte, so that bits per byte is bits per token
        };
      },
    },
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
