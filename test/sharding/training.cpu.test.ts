/**
 * A training step of a small Llama on several devices against one device: data parallel, and with parameters and
 * optimizer state sharded over the same axis.
 */
import { afterAll, describe, expect, it } from "vitest";
import { type HostArray, hostArray, type Mesh, type Spec, treeMap } from "../../src/core/index.ts";
import { syntheticBatches } from "../../src/data/index.ts";
import { type Compiled, disposeTree, jit, putTree } from "../../src/jit/index.ts";
import type { DeviceArray } from "../../src/pjrt/index.ts";
import { mesh, type PartitionTree, partition, replicated, splitLargestDim } from "../../src/sharding/index.ts";
import { initialState, type TrainState } from "../../src/train/state.ts";
import { makeTrainStep, type StepBatch, type StepScalars, type TrainStep } from "../../src/train/step.ts";
import { fetchAndFree } from "../fetchAndFree.ts";
import { tinyModel, tinyPlan } from "../train/tinyRun.ts";
import { clientOf, collectivesIn } from "./devices.ts";

const model = { ...tinyModel, numLayers: 1 };
const { train } = syntheticBatches(model.vocabSize, { batchSize: 4, windowLength: 32 }, 0);
const start = initialState(model, 0);

function stepOf(recipe: string, dtype: "bfloat16" | "float32"): TrainStep {
  const { precision, optimizer } = tinyPlan({}, recipe);
  return makeTrainStep({
    config: { ...model, dtype },
    precision: precision.precision,
    optimizer,
    clippingThreshold: 1,
    roundingSeed: 0,
  });
}

type Args = [TrainState, StepBatch, StepScalars];
type Step = Compiled<Args, ReturnType<TrainStep>>;
type Host = TrainState<HostArray>;
interface HostResult {
  readonly state: Host;
  readonly metrics: Readonly<Record<"loss" | "gradNorm" | "finite" | "tensorNorms", HostArray>>;
}

const batchOf = (number: number) => {
  const { tokens, targets } = train.batchAt(number);
  return { tokens, targets };
};
const scalarsOf = (number: number) => ({
  learningRate: hostArray([], "float32", Float32Array.of(1e-2)),
  step: hostArray([], "uint32", Uint32Array.of(number)),
});
const run = (step: Step, state: Host, number: number): Promise<HostResult> =>
  fetchAndFree<HostResult>(step(state, batchOf(number), scalarsOf(number)));

interface Spread {
  readonly mesh: Mesh;
  readonly state: PartitionTree;
}

const dataParallel = (devices: number): Spread => ({ mesh: mesh({ data: devices }), state: replicated });
function fullySharded(devices: number): Spread {
  const on = mesh({ data: devices });
  return { mesh: on, state: treeMap<object>((x: Spec) => splitLargestDim(x, on, "data"), start) };
}

const compiled: Step[] = [];
afterAll(() => {
  for (const step of compiled) step.dispose();
});

function compile(f: TrainStep, devices: number, spread?: Spread): Step {
  const step = jit(f as (...args: Args) => ReturnType<TrainStep>, {
    name: "train_step",
    client: clientOf(devices),
    donate: [0],
    ...(spread && {
      mesh: spread.mesh,
      inShardings: [spread.state, partition("data"), replicated],
      outShardings: { state: spread.state, metrics: replicated },
    }),
  });
  compiled.push(step);
  return step;
}

const relative = (got: HostArray, wanted: HostArray) => Math.abs(Number(got.data[0]) / Number(wanted.data[0]) - 1);

/** For machines that do much else. */
const timeout = 300_000;

describe.each([
  ["bf16", "bfloat16", 4],
  // Stochastic rounding, the rotation of both operands of the weight gradient, a scale for each tensor.
  ["nvfp4", "bfloat16", 3],
] as const)("%s", (recipe, dtype, steps) => {
  const f = stepOf(recipe, dtype);
  const one = compile(f, 1);

  it.each([
    ["data parallel on 2 devices", 2, dataParallel(2), ["all-reduce"]],
    ["fully sharded on 4 devices", 4, fullySharded(4), ["all-gather", "all-reduce"]],
  ] as const)(
    "%s: from each state the loss and the gradient norm are one device's",
    async (_, devices, spread, exchanged) => {
      const many = compile(f, devices, spread);
      expect(collectivesIn(await many.compile(start, batchOf(1), scalarsOf(1)))).toEqual(exchanged);
      let state = start;
      for (let number = 1; number <= steps; number++) {
        const [wanted, got] = [await run(one, state, number), await run(many, state, number)];
        expect(got.metrics.finite).toEqual(wanted.metrics.finite);
        expect(relative(got.metrics.loss, wanted.metrics.loss)).toBeLessThan(1e-5);
        expect(relative(got.metrics.gradNorm, wanted.metrics.gradNorm)).toBeLessThan(1e-5);
        state = wanted.state;
      }
    },
    timeout,
  );
});

describe("float32", () => {
  const f = stepOf("bf16", "float32");

  it(
    "a run of its own on fully sharded state stays at one device's losses, with a share of its memory",
    async () => {
      const spread = fullySharded(4);
      const [one, many] = [compile(f, 1), compile(f, 4, spread)];
      let alone: Host = start;
      const client = clientOf(4);
      const before = client.liveBuffers.bytes;
      let state = await putTree(start, client, { mesh: spread.mesh, shardings: spread.state });
      const bytes = (client.liveBuffers.bytes - before) / 4;
      for (let number = 1; number <= 6; number++) {
        const wanted = await run(one, alone, number);
        const next = await many(state as never, batchOf(number) as never, scalarsOf(number) as never);
        for (const name of ["loss", "gradNorm"] as const) {
          const got = await (next.metrics[name] as DeviceArray).toHost();
          expect(relative(got, wanted.metrics[name]), `${name} of step ${number}`).toBeLessThan(1e-5);
        }
        disposeTree(next.metrics);
        alone = wanted.state;
        state = next.state as typeof state;
      }
      disposeTree(state);
      const whole = await one.compile(start, batchOf(1), scalarsOf(1));
      const share = await many.compile(start, batchOf(1), scalarsOf(1));
      // 1.03: the step counter, which can't be split, and the batch.
      expect(share.memoryStats().argumentBytes).toBeLessThan((whole.memoryStats().argumentBytes / 4) * 1.03);
      expect(share.memoryStats().peakBytes).toBeLessThan(whole.memoryStats().peakBytes / 2);
      expect(bytes).toBeLessThan((whole.memoryStats().argumentBytes / 4) * 1.03);
    },
    timeout,
  );
});
