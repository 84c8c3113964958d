/** A step's loss by the sources of its sequences. */
import type { Batch } from "../data/index.ts";
import type { OnDevice } from "../jit/index.ts";
import type { SourceLoss } from "../metrics/index.ts";
import type { StepMetrics } from "./step.ts";

/**
 * Of each source that has tokens to predict in the batch, in the sources' order. A sequence is of one source, so the compiled step
 * tells the sums of sequences and knows nothing of sources.
 * @param sequenceLosses [B]: Σ weight · loss of each row, in nats
 * @param names of all sources
 */
export function sourceLosses(
  { sources, mask, tokens: { shape } }: Batch,
  sequenceLosses: Float32Array,
  names: readonly string[],
): SourceLoss[] {
  const windowLength = shape[1]!;
  const sums = names.map((source) => ({ source, nats: 0, validTokens: 0 }));
  const weights = mask?.data as Float32Array | undefined;
  sources?.forEach((source, row) => {
    const sum = sums[source]!;
    const own = weights?.subarray(row * windowLength, (row + 1) * windowLength);
    sum.nats += sequenceLosses[row]!;
    sum.validTokens += own ? own.reduce((total, weight) => total + weight, 0) : windowLength;
  });
  return sums
    .filter(({ validTokens }) => validTokens > 0)
    .map(({ source, nats, validTokens }) => ({ source, loss: nats / validTokens, validTokens }));
}

/** Of a step that is done; undefined where there is no mixture. */
export async function tellSources(
  batch: Batch,
  { sequenceLosses }: OnDevice<StepMetrics>,
  names: readonly string[] | undefined,
): Promise<SourceLoss[] | undefined> {
  if (sequenceLosses === undefined || names === undefined) return undefined;
  return sourceLosses(batch, (await sequenceLosses.toHost()).data as Float32Array, names);
}
