import { describe, expect, it } from "vitest";
import { checkpointPath, loadCheckpoint } from "../../src/checkpoint/index.ts";
import { type HostArray, hostArray, spec, type Tensor, treeLeaves } from "../../src/core/index.ts";
import { openDataset, syntheticBatches, type TrainingBatches } from "../../src/data/index.ts";
import { jit } from "../../src/jit/index.ts";
import type { LlamaBatch, LlamaConfig, LlamaParams } from "../../src/models/llama.ts";
import { lossAndGradients } from "../../src/train/gradients.ts";
import { runTraining } from "../../src/train/run.ts";
import { initialState } from "../../src/train/state.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { fetchAndFree } from "../fetchAndFree.ts";
import { tinyModel, tinyPlan, tinyRun } from "./tinyRun.ts";

interface Result {
  readonly loss: HostArray;
  readonly totalWeight: HostArray;
  readonly grads: unknown;
}

const sequence = 160;

interface Case {
  readonly dtype?: LlamaConfig["dtype"];
  readonly recipe?: string;
  readonly microBatches: number;
  readonly weights: Float32Array;
  /** The sequences of the batch, by their numbers in the synthetic data. */
  readonly rows?: readonly number[];
}

/** Loss and gradients of a batch of sequences that is cut into micro-batches. */
function gradients({ dtype = "bfloat16", recipe = "bf16", microBatches, weights, rows = [0, 1, 2, 3] }: Case) {
  const config = { ...tinyModel, dtype };
  const { precision } = tinyPlan({}, recipe).precision;
  const { train } = syntheticBatches(64, { batchSize: 1, windowLength: sequence }, 0);
  const f = jit((params: LlamaParams, batch: LlamaBatch, step: Tensor) =>
    lossAndGradients(params, batch, { model: { config, precision }, microBatches, roundingSeed: 0, step }),
  );
  const shape = [rows.length, sequence];
  const join = (name: "tokens" | "targets") =>
    hostArray(
      shape,
      "int32",
      Int32Array.from(rows.flatMap((row) => [...(train.batchAt(row + 1)[name].data as Int32Array)])),
    );
  const batch = { tokens: join("tokens"), targets: join("targets"), weights: hostArray(shape, "float32", weights) };
  const step = hostArray([], "uint32", Uint32Array.of(1));
  return fetchAndFree<Result>(f(initialState(config, 0).params, batch, step)).finally(f.dispose);
}

/** Valid tokens: the first rows of 2 sequences get `first`, those of the last 2 `second`. */
function validTokens(first: number, second: number): Float32Array {
  const weights = new Float32Array(4 * sequence);
  weights.fill(1, 0, first);
  weights.fill(1, 2 * sequence, 2 * sequence + second);
  return weights;
}

const valuesOf = (array: HostArray) => [...(array.data as Float32Array)];
const norm = (values: readonly number[]) => Math.sqrt(values.reduce((sum, x) => sum + x * x, 0));

/** Largest difference of a tensor's gradient, relative to its norm. */
function difference(one: Result, other: Result): number {
  const right = treeLeaves<HostArray>(other.grads).map(valuesOf);
  const left = treeLeaves<HostArray>(one.grads).map(valuesOf);
  return Math.max(...left.map((x, i) => norm(x.map((value, j) => value - right[i]![j]!)) / norm(right[i]!)));
}

describe("gradient accumulation", () => {
  it.each(["float32", "bfloat16"] as const)(
    "B1: micro-batches of 3 and 300 valid tokens weigh by their tokens, as in one batch: %s",
    async (dtype) => {
      const weights = validTokens(3, 300);
      const whole = await gradients({ dtype, microBatches: 1, weights });
      const parts = await gradients({ dtype, microBatches: 2, weights });
      expect([Number(whole.totalWeight.data[0]), Number(parts.totalWeight.data[0])]).toEqual([303, 303]);
      const [a, b] = [Number(parts.loss.data[0]), Number(whole.loss.data[0])];
      expect(Math.abs(a - b) / b).toBeLessThanOrEqual(1e-6);
      expect(difference(parts, whole)).toBeLessThanOrEqual(1e-6);
    },
  );

  it("takes the memory of one micro-batch and of one sum of gradients", async () => {
    const config = { ...tinyModel, embDim: 128, mlpDim: 256 };
    const { precision } = tinyPlan().precision;
    const { params } = initialState(config, 0);
    const temporaryBytes = async (rows: number, microBatches: number) => {
      const f = jit((params: LlamaParams, batch: LlamaBatch, step: Tensor) =>
        lossAndGradients(params, batch, { model: { config, precision }, microBatches, roundingSeed: 0, step }),
      );
      const ids = spec([rows, 256], "int32");
      const batch = { tokens: ids, targets: ids, weights: spec([rows, 256], "float32") };
      const executable = await f.compile(params, batch, spec([], "uint32"));
      return executable.memoryStats().temporaryBytes;
    };
    const gradientBytes = treeLeaves<HostArray>(params).reduce((sum, { data }) => sum + data.byteLength, 0);
    const [part, parts, whole] = [await temporaryBytes(2, 1), await temporaryBytes(16, 8), await temporaryBytes(16, 1)];
    // Beside the sum: a micro-batch's gradients (alone they are outputs), and the weights in bfloat16 for the whole loop.
    expect(parts - part).toBeLessThan(2.6 * gradientBytes);
    expect(whole).toBeGreaterThan(2 * parts);
  });

  it("draws other random bits for each micro-batch", async () => {
    const ones = (rows: number) => new Float32Array(rows * sequence).fill(1);
    const twice = await gradients({ recipe: "nvfp4", microBatches: 2, weights: ones(2), rows: [0, 0] });
    const once = await gradients({ recipe: "nvfp4", microBatches: 1, weights: ones(1), rows: [0] });
    expect(Number(twice.loss.data[0])).toBeCloseTo(Number(once.loss.data[0]), 5);
    // Equal draws would give equal sums; different ones differ by the noise of rounding.
    expect(difference(twice, once)).toBeGreaterThan(0.01);
  });
});

/** The sequences of the first 24, in the order in which steps take them. */
function order(train: TrainingBatches, perStep: number): string[] {
  return Array.from({ length: 24 / perStep }, (_, i) => train.batchAt(i + 1)).flatMap(({ tokens, targets }) => {
    const length = tokens.shape[1]!;
    return Array.from({ length: perStep }, (_, row) =>
      [tokens, targets].map(({ data }) => data.slice(row * length, (row + 1) * length).join()).join("|"),
    );
  });
}

describe("the data of a step", () => {
  it("F4: come in one order, however the batch is cut into micro-batches", async () => {
    const texts = Array.from({ length: 9 }, (_, i) => [`${i}.txt`, `text ${i} `.repeat(30)]);
    const datasetPath = temporaryFolder(Object.fromEntries(texts));
    const open = (datasetType: "text" | "synthetic", perDeviceBatchSize: number, microBatches: number) =>
      openDataset(
        {
          datasetType,
          datasetPath,
          perDeviceBatchSize,
          evalDatasetPath: "",
          validationFraction: 0,
          tokenizerPath: "byte",
          maxTargetLength: 32,
        },
        { vocabSize: 257, shuffleSeed: 3, microBatches },
      );
    for (const type of ["text", "synthetic"] as const) {
      const whole = order((await open(type, 4, 1)).train, 4);
      expect(new Set(whole).size).toBeGreaterThan(20);
      for (const [size, parts] of [
        [1, 4],
        [2, 2],
      ] as const) {
        const { train } = await open(type, size, parts);
        expect(order(train, 4), `${type}, ${parts} of ${size}`).toEqual(whole);
        expect(train.epochAt(5)).toBe((await open(type, 4, 1)).train.epochAt(5));
      }
    }
  });

  it("F5: a run of 4 micro-batches a step resumes at step 5 after 20 of them, to the same bits", async () => {
    const [straight, parts] = [temporaryFolder(), temporaryFolder()];
    const plan = tinyPlan({ batchSize: 1, microBatches: 4, steps: 8, checkpoints: { period: 5 } });
    const asked: number[][] = [];
    const recorded = (input: ReturnType<typeof tinyRun>) => {
      const list: number[] = [];
      asked.push(list);
      const batchAt = (step: number) => {
        const batch = input.data.train.batchAt(step);
        // The first asks for the shapes.
        list.push(batch.tokens.shape[0]!);
        return batch;
      };
      return { ...input, data: { ...input.data, train: { ...input.data.train, batchAt } } };
    };
    await runTraining(recorded(tinyRun(straight, plan)));
    await runTraining(recorded(tinyRun(parts, { ...plan, steps: 5 })));
    const resume = await loadCheckpoint(checkpointPath(tinyRun(parts, plan).folder.checkpoints, 5), plan.model);
    await runTraining({ ...recorded(tinyRun(parts, plan)), resume });
    const sum = (list: number[]) => list.slice(1).reduce((a, b) => a + b, 0);
    expect(asked.map(sum)).toEqual([32, 20, 12]);
    const last = (base: string) => {
      const { checkpoints } = tinyRun(base, plan).folder;
      return loadCheckpoint(checkpointPath(checkpoints, 8), plan.model);
    };
    expect(await last(parts)).toEqual(await last(straight));
  });
});
