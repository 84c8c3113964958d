/** Validation: the loss of all held-out tokens together, computed as training's forward pass computes. */
import { requireTargetBytes, type ValidationBatch, type ValidationBatches } from "../data/validationBatches.ts";
import { disposeTree, fetchTree, jit } from "../jit/index.ts";
import { bitsPerByte } from "../metrics/index.ts";
import { type LlamaBatch, type LlamaOptions, llamaLoss } from "../models/llama.ts";
import type { Client, DeviceArray } from "../pjrt/index.ts";
import { type ModelState, withScales } from "./modelState.ts";

export interface Evaluation {
  /** Nats per token: the sum over all tokens by their number, whatever the batches. */
  readonly loss: number;
  readonly bitsPerByte: number;
  readonly validTokens: number;
  readonly seconds: number;
  /** The same of each source; absent where there is one. */
  readonly sources?: readonly SourceEvaluation[];
}

export interface SourceEvaluation extends Pick<Evaluation, "loss" | "bitsPerByte" | "validTokens"> {
  readonly source: string;
}

/** What is summed over batches. */
interface Sums {
  nats: number;
  validTokens: number;
  bytes: number;
}

export interface EvaluateOptions {
  /** Default: all. */
  readonly maxBatches?: number | undefined;
  /** Called before each batch. @throws to stop */
  readonly onBatch?: () => void;
}

export interface Evaluator {
  /** @throws UserError where the batches' targets stand for no byte of text */
  evaluate(state: ModelState<DeviceArray>, batches: ValidationBatches, options?: EvaluateOptions): Promise<Evaluation>;
  dispose(): void;
}

/** Compiles at the first use. */
export function makeEvaluator(model: LlamaOptions, client?: Client): Evaluator {
  const sums = jit(
    ({ params, scales }: ModelState, batch: LlamaBatch) => {
      const { lossSum, totalWeight } = llamaLoss(params, batch, withScales(model, scales));
      return { lossSum, totalWeight };
    },
    { name: "evaluate", ...(client && { client }) },
  );
  return {
    async evaluate(state, batches, { maxBatches = batches.batches, onBatch = () => {} } = {}) {
      requireTargetBytes(batches, maxBatches);
      await sums.compile(state, lossBatch(batches.batchAt(0)));
      const start = performance.now();
      const total: Sums = { nats: 0, validTokens: 0, bytes: 0 };
      const bySource = new Map<string, Sums>();
      const count = Math.min(maxBatches, batches.batches);
      for (let index = 0; index < count; index++) {
        onBatch();
        const batch = batches.batchAt(index);
        const result = await sums(state, lossBatch(batch));
        const { lossSum, totalWeight } = await fetchTree(result);
        disposeTree(result);
        const source = batches.sourceAt?.(index);
        const own = source === undefined ? undefined : (bySource.get(source) ?? { nats: 0, validTokens: 0, bytes: 0 });
        if (source !== undefined && own) bySource.set(source, own);
        for (const sum of own ? [total, own] : [total]) {
          sum.nats += Number(lossSum.data[0]);
          sum.validTokens += Number(totalWeight.data[0]);
          sum.bytes += batch.targetBytes;
        }
      }
      return {
        ...lossOf(total),
        seconds: (performance.now() - start) / 1000,
        ...(bySource.size > 0 && {
          sources: (batches.sources ?? []).flatMap((source) => {
            const sum = bySource.get(source);
            return sum === undefined ? [] : { source, ...lossOf(sum) };
          }),
        }),
      };
    },
    dispose: () => sums.dispose(),
  };
}

const lossOf = ({ nats, validTokens, bytes }: Sums) => ({
  loss: nats / validTokens,
  bitsPerByte: bitsPerByte(nats, bytes),
  validTokens,
});

/** What the loss reads of a batch. */
const lossBatch = ({ tokens, targets, mask: weights, segments }: ValidationBatch) => ({
  ...{ tokens, targets, weights },
  ...(segments && { segments }),
});
