/** A step on packed documents, on several devices and cut into micro-batches, against one device and one batch. */
import { describe, expect, it } from "vitest";
import { type HostArray, hostArray, treePaths } from "../../src/core/index.ts";
import { jit } from "../../src/jit/index.ts";
import { mesh, partition, replicated } from "../../src/sharding/index.ts";
import { initialState, type TrainState } from "../../src/train/state.ts";
import { makeTrainStep, type StepBatch, type StepScalars, type TrainStep } from "../../src/train/step.ts";
import { fetchAndFree } from "../fetchAndFree.ts";
import { tinyModel, tinyPlan } from "../train/tinyRun.ts";
import { clientOf } from "./devices.ts";

const [rows, length] = [4, 24];
const start = initialState({ ...tinyModel, dtype: "float32" }, 0);
const scalars = {
  learningRate: hostArray([], "float32", Float32Array.of(1e-2)),
  step: hostArray([], "uint32", Uint32Array.of(1)),
};

/** Rows of documents of the given lengths and padding behind them, which does not count. */
function batchOf(lengths: readonly (readonly number[])[]) {
  const segments = lengths.flatMap((row) => {
    const ids = row.flatMap((count, i) => Array<number>(count).fill(i + 1));
    return [...ids, ...Array<number>(length - ids.length).fill(0)];
  });
  const ids = (shift: number) => Int32Array.from(segments, (_, i) => ((i + shift) * 7) % 64);
  const shape = [rows, length];
  return {
    tokens: hostArray(shape, "int32", ids(0)),
    targets: hostArray(shape, "int32", ids(1)),
    weights: hostArray(
      shape,
      "float32",
      Float32Array.from(segments, (id) => Math.min(1, id)),
    ),
    segments: hostArray(shape, "int32", Int32Array.from(segments)),
  };
}

type Args = [TrainState, StepBatch, StepScalars];
interface Result {
  readonly state: TrainState<HostArray>;
  readonly metrics: Readonly<Record<"loss" | "gradNorm" | "totalWeight", HostArray>>;
}

async function step(options: { microBatches?: number; devices?: number; without?: "segments" }): Promise<Result> {
  const { microBatches = 1, devices = 1 } = options;
  const { precision, optimizer } = tinyPlan();
  const f = makeTrainStep({
    config: { ...tinyModel, dtype: "float32" },
    precision: precision.precision,
    optimizer,
    clippingThreshold: 1,
    roundingSeed: 0,
    microBatches,
  });
  const compiled = jit(f as (...args: Args) => ReturnType<TrainStep>, {
    client: clientOf(devices),
    ...(devices > 1 && {
      mesh: mesh({ data: devices }),
      inShardings: [replicated, partition("data"), replicated],
      outShardings: replicated,
    }),
  });
  const { segments, ...batch } = batchOf([[3, 9, 12], [24], [1, 2], [20, 3]]);
  const given = { ...batch, ...(options.without === undefined && { segments }) };
  return fetchAndFree<Result>(compiled(start, given, scalars)).finally(compiled.dispose);
}

const numbersOf = ({ metrics: { loss, gradNorm, totalWeight } }: Result) =>
  [loss, gradNorm, totalWeight].map(({ data }) => Number(data[0]));

describe("packed documents", () => {
  it.each([{ devices: 2 }, { microBatches: 2 }, { microBatches: 4 }])(
    "with %o have one device's loss and gradients",
    async (way) => {
      const [wanted, got] = [await step({}), await step(way)];
      numbersOf(got).forEach((number, i) => {
        expect(Math.abs(number / numbersOf(wanted)[i]! - 1)).toBeLessThan(1e-6);
      });
      // First moments are the gradients, up to a factor.
      const moments = ({ state }: Result) => treePaths(state.optimizer.mu).map(({ leaf }) => leaf as HostArray);
      moments(got).forEach(({ data }, i) => {
        const other = moments(wanted)[i]!.data;
        const [error, size] = [...data].reduce<[number, number]>(
          ([error, size], x, j) => [Math.max(error, Math.abs(Number(x) - Number(other[j]))), Math.max(size, Number(x))],
          [0, 0],
        );
        expect(error).toBeLessThan(2e-5 * size);
      });
    },
    120_000,
  );

  it("see other documents where nothing says that they are", async () => {
    const [within, across] = [await step({}), await step({ without: "segments" })];
    expect(Math.abs(numbersOf(across)[0]! / numbersOf(within)[0]! - 1)).toBeGreaterThan(1e-4);
  });
});
