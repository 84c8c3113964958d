/** The training loss of each source of a mixture: what the compiled step tells of its sequences, and what is made of it. */
import { createHash } from "node:crypto";
import { afterAll, describe, expect, it } from "vitest";
import { type HostArray, hostArray, treeLeaves } from "../../src/core/index.ts";
import { mixedBatches } from "../../src/data/batches.ts";
import { type Batch, memoryStream, packDocuments } from "../../src/data/index.ts";
import type { Packing } from "../../src/data/packingSettings.ts";
import { sequencesOf } from "../../src/data/sequences.ts";
import { jit } from "../../src/jit/index.ts";
import { type LlamaBatch, type LlamaParams, llamaLoss } from "../../src/models/llama.ts";
import { Client } from "../../src/pjrt/index.ts";
import { stepBatch, stepScalars } from "../../src/train/loop.ts";
import type { RunPlan } from "../../src/train/plan.ts";
import { sourceLosses } from "../../src/train/sourceLosses.ts";
import { initialState, type TrainState } from "../../src/train/state.ts";
import { forwardOptions, makeTrainStep, stepOptions } from "../../src/train/step.ts";
import { stepHlo } from "../../src/train/stepProgram.ts";
import { fetchAndFree } from "../fetchAndFree.ts";
import { tinyModel, tinyPlan } from "./tinyRun.ts";

const plain = new Client({ nativeKernels: "off" });
afterAll(() => plain.destroy());

/** Documents of tokens below 64, of which every third is only read. */
function stream(documents: number, seed: number, masked: boolean) {
  const texts = Array.from({ length: documents }, (_, i) =>
    Array.from({ length: 9 + ((i * 7 + seed) % 20) }, (_, j) => (i * 31 + j * j * 5 + seed) % 63),
  );
  const packed = packDocuments(texts, { vocabSize: 64, eosId: 63 });
  const mask = Uint8Array.from(packed.tokens, (_, i) => (i % 3 === 0 ? 0 : 1));
  return masked ? memoryStream(packed, mask) : memoryStream(packed);
}

interface Cut extends Partial<Packing> {
  readonly batchSize: number;
  readonly microBatches?: number;
  readonly masked?: boolean;
}

/** A step's batch of the sources "a" and "b", two rows of "a" for each of "b". */
function batchOf({ batchSize, microBatches = 1, masked = false, strategy = "concat", withinDocuments = false }: Cut) {
  const shape = { batchSize, microBatches, windowLength: 32, packing: { strategy, withinDocuments } };
  const batches = mixedBatches(
    [
      { name: "a", weight: 2, sequences: sequencesOf(stream(40, 1, masked), shape, "full") },
      { name: "b", weight: 1, sequences: sequencesOf(stream(30, 2, masked), shape, "full") },
    ],
    shape,
    { seed: 5 },
  );
  return { batch: batches.batchAt(2), names: batches.sources! };
}

interface Told {
  readonly state: TrainState<HostArray>;
  readonly metrics: { readonly loss: HostArray; readonly totalWeight: HostArray; readonly sequenceLosses?: HostArray };
}

function stepOf(plan: RunPlan, batch: Batch, client?: Client): Promise<Told> {
  const step = jit(makeTrainStep(stepOptions(plan)), client ? { client } : {});
  const { lossScale } = plan;
  const state = initialState(plan.model, 0, lossScale ? { lossScale } : {});
  return fetchAndFree<Told>(step(state, stepBatch(batch), stepScalars(plan, 2))).finally(step.dispose);
}

/** One block compiles in half the time. */
const model = { ...tinyModel, numLayers: 1 };

const numberOf = (array: HostArray) => Number(array.data[0]);
const bits = (tree: unknown) =>
  treeLeaves<HostArray>(tree).map(({ data }) =>
    createHash("sha256")
      .update(new Uint8Array(data.buffer, data.byteOffset, data.byteLength))
      .digest("hex"),
  );

/** The loss of a source alone: nothing else counts. */
async function aloneLoss(plan: RunPlan, { tokens, targets, mask, segments, sources }: Batch, source: number) {
  const loss = jit((params: LlamaParams, batch: LlamaBatch) => {
    const { lossSum, totalWeight } = llamaLoss(params, batch, {
      ...forwardOptions(plan, plan.precision),
      zLoss: plan.zLoss ?? 0,
    });
    return { lossSum, totalWeight };
  });
  const weights = Float32Array.from({ length: tokens.data.length }, (_, i) =>
    sources![Math.floor(i / 32)] === source ? Number(mask?.data[i] ?? 1) : 0,
  );
  const batch = {
    tokens,
    targets,
    weights: hostArray(tokens.shape, "float32", weights),
    ...(segments && { segments }),
  };
  type Sums = { readonly lossSum: HostArray; readonly totalWeight: HostArray };
  const { lossSum, totalWeight } = await fetchAndFree<Sums>(loss(initialState(plan.model, 0).params, batch)).finally(
    loss.dispose,
  );
  return { loss: numberOf(lossSum) / numberOf(totalWeight), validTokens: numberOf(totalWeight) };
}

describe("the training loss of each source", () => {
  it.each<[string, Cut, Partial<RunPlan>, Client?]>([
    ["of windows cut from a stream", { batchSize: 4 }, {}],
    ["without native kernels", { batchSize: 4, masked: true }, {}, plain],
    ["of micro-batches", { batchSize: 4, microBatches: 3 }, {}],
    [
      "of masked targets, packed whole, in micro-batches",
      { batchSize: 3, microBatches: 2, masked: true, strategy: "best_fit", withinDocuments: true },
      {},
    ],
    ["with the z-loss, layers scanned", { batchSize: 3, masked: true }, { zLoss: 1e-3, scanLayers: true }],
    ["of logits in chunks that end within sequences", { batchSize: 3 }, { model: { ...model, vocabSize: 180_000 } }],
  ])("%s adds up to the step's, and changes no bit of it", async (_, cut, changes, client) => {
    const { batchSize, microBatches = 1 } = cut;
    const { batch, names } = batchOf(cut);
    const plan = tinyPlan({ model, batchSize, microBatches, ...changes });
    const told = await stepOf({ ...plan, sequenceLosses: true }, batch, client);
    const untold = await stepOf(plan, batch, client);
    expect(untold.metrics.sequenceLosses).toBeUndefined();
    expect(bits(told.state)).toEqual(bits(untold.state));
    expect(bits(told.metrics.loss)).toEqual(bits(untold.metrics.loss));

    const found = sourceLosses(batch, told.metrics.sequenceLosses!.data as Float32Array, names);
    expect(found.map(({ source }) => source)).toEqual(["a", "b"]);
    expect(found.reduce((sum, { validTokens }) => sum + validTokens, 0)).toBe(batch.validTokens);
    const nats = found.reduce((sum, { loss, validTokens }) => sum + loss * validTokens, 0);
    expect(Math.abs(nats / batch.validTokens / numberOf(told.metrics.loss) - 1)).toBeLessThan(1e-6);
    for (const [source, { loss, validTokens }] of found.entries()) {
      const alone = await aloneLoss(plan, batch, source);
      expect(validTokens).toBe(alone.validTokens);
      expect(Math.abs(loss / alone.loss - 1)).toBeLessThan(1e-6);
    }
    expect(found[0]!.loss).not.toBeCloseTo(found[1]!.loss, 4);
  });

  it("is in nats where the loss is scaled for float16", async () => {
    const { batch, names } = batchOf({ batchSize: 3, microBatches: 2 });
    const lossScale = { initial: 2 ** 12, growthInterval: 100, growthFactor: 2, backoffFactor: 0.5, minimum: 1 };
    const plan = tinyPlan({ batchSize: 3, microBatches: 2, lossScale, model: { ...model, dtype: "float16" } });
    const { metrics } = await stepOf({ ...plan, sequenceLosses: true }, batch);
    const found = sourceLosses(batch, metrics.sequenceLosses!.data as Float32Array, names);
    const nats = found.reduce((sum, { loss, validTokens }) => sum + loss * validTokens, 0);
    expect(Math.abs(nats / batch.validTokens / numberOf(metrics.loss) - 1)).toBeLessThan(1e-6);
  });

  it.each([
    ["native kernels", undefined],
    ["the plain lowering", plain],
  ])("goes over the logits no more than a step without: %s", async (_, client) => {
    // No other size is 67.
    const plan = tinyPlan({ model: { ...model, vocabSize: 67 }, batchSize: 5 });
    const passes = async (plan: RunPlan) => (await stepHlo(plan, client)).hlo.match(/\[160,67\]/g)!.length;
    expect(await passes({ ...plan, sequenceLosses: true })).toBe(await passes(plan));
  });

  it("leaves out a source of which no token is to be predicted", () => {
    const tokens = hostArray([3, 2], "int32", new Int32Array(6));
    const mask = hostArray([3, 2], "float32", Float32Array.of(1, 0, 0, 0, 1, 1));
    const batch = { tokens, targets: tokens, mask, validTokens: 3, sources: Uint16Array.of(2, 1, 2) };
    expect(sourceLosses(batch, Float32Array.of(2, 0, 7), ["x", "y", "z"])).toEqual([
      { source: "z", loss: 3, validTokens: 3 },
    ]);
  });
});
