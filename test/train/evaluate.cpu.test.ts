import { describe, expect, it } from "vitest";
import type { ValidationBatch, ValidationBatches } from "../../src/data/index.ts";
import { memoryStream, validationBatches } from "../../src/data/index.ts";
import { disposeTree, putTree } from "../../src/jit/index.ts";
import type { LlamaTree } from "../../src/models/llama.ts";
import type { DeviceArray } from "../../src/pjrt/index.ts";
import { makeEvaluator } from "../../src/train/evaluate.ts";
import { initialState } from "../../src/train/state.ts";
import { tinyModel, tinyPlan } from "./tinyRun.ts";

const only = (...batches: ValidationBatch[]): ValidationBatches => ({
  windows: batches.length,
  batches: batches.length,
  batchAt: (index) => batches[index]!,
  ofProcess: () => only(...batches),
});

describe("validation", () => {
  it("B4: is the sum over all tokens by their number, not a mean of batches", async () => {
    // 90 targets in windows of 32: the last batch has two windows less and the last window is short.
    const tokens = Uint16Array.from({ length: 91 }, (_, i) => (i * i * 7 + 3 * i) % 64);
    const bytesOfToken = new Int32Array(64).fill(3);
    const batches = validationBatches(
      memoryStream({ tokens, documentEnds: [91] }),
      { batchSize: 2, windowLength: 32 },
      bytesOfToken,
    );
    expect(batches.batches).toBe(2);
    const [first, last] = [batches.batchAt(0), batches.batchAt(1)];
    expect([first.validTokens, last.validTokens]).toEqual([64, 26]);

    const params = (await putTree(initialState(tinyModel, 3).params)) as LlamaTree<DeviceArray>;
    const evaluator = makeEvaluator({ config: tinyModel, precision: tinyPlan().precision.precision });
    const all = await evaluator.evaluate({ params }, batches);
    const parts = [await evaluator.evaluate({ params }, only(first)), await evaluator.evaluate({ params }, only(last))];
    const limited = await evaluator.evaluate({ params }, batches, { maxBatches: 1 });
    disposeTree(params);
    evaluator.dispose();

    const total = parts.reduce((sum, { loss, validTokens }) => sum + loss * validTokens, 0) / 90;
    const meanOfMeans = (parts[0]!.loss + parts[1]!.loss) / 2;
    expect(all.loss).toBeCloseTo(total, 6);
    expect(Math.abs(all.loss - meanOfMeans)).toBeGreaterThan(1e-4);
    expect(all.validTokens).toBe(90);
    expect(all.bitsPerByte).toBeCloseTo(all.loss / Math.LN2 / 3, 6);
    expect(limited.loss).toBe(parts[0]!.loss);
  });
});
