/** Validation: the loss of all held-out tokens together, computed as training's forward pass computes. */
import type { ValidationBatch, ValidationBatches } from "../data/index.ts";
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
}

export interface Evaluator {
  /** @param maxBatches default: all */
  evaluate(state: ModelState<DeviceArray>, batches: ValidationBatches, maxBatches?: number): Promise<Evaluation>;
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
    async evaluate(state, batches, maxBatches = batches.batches) {
      await sums.compile(state, lossBatch(batches.batchAt(0)));
      const start = performance.now();
      let nats = 0;
      let validTokens = 0;
      let bytes = 0;
      const count = Math.min(maxBatches, batches.batches);
      for (let index = 0; index < count; index++) {
        const batch = batches.batchAt(index);
        const result = await sums(state, lossBatch(batch));
        const { lossSum, totalWeight } = await fetchTree(result);
        disposeTree(result);
        nats += Number(lossSum.data[0]);
        validTokens += Number(totalWeight.data[0]);
        bytes += batch.targetBytes;
      }
      return {
        loss: nats / validTokens,
        bitsPerByte: bitsPerByte(nats, bytes),
        validTokens,
        seconds: (performance.now() - start) / 1000,
      };
    },
    dispose: () => sums.dispose(),
  };
}

/** What the loss reads of a batch. */
const lossBatch = ({ tokens, targets, mask: weights, segments }: ValidationBatch) => ({
  ...{ tokens, targets, weights },
  ...(segments && { segments }),
});
