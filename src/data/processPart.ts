/** What each of several processes reads of a batch: together every row once, in an order that does not depend on their number. */
import { UserError } from "../base/errors.ts";
import type { BatchShape } from "./batches.ts";

/** Process `index` (from 0) of `count`. */
export interface ProcessPart {
  readonly index: number;
  readonly count: number;
}

export const onlyProcess: ProcessPart = { index: 0, count: 1 };

/**
 * Rows of a whole step's batch that a process reads: its share of each micro-batch, so that the processes' rows of a micro-batch,
 * one after the other, are that micro-batch. Steps are counted over all processes, so that all have the same number of them.
 * @throws UserError where the rows can't be shared out evenly
 */
export function rowsOfProcess({ batchSize, microBatches = 1 }: BatchShape, { index, count }: ProcessPart): number[] {
  if (batchSize % count !== 0) {
    throw new UserError(
      "E_BATCH",
      `a batch of ${batchSize} sequences can't be shared evenly by ${count} processes: choose a multiple of ${count}`,
    );
  }
  const share = batchSize / count;
  const rows: number[] = [];
  for (let microBatch = 0; microBatch < microBatches; microBatch++) {
    for (let row = 0; row < share; row++) rows.push(microBatch * batchSize + index * share + row);
  }
  return rows;
}
