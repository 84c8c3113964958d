import { describe, expect, it } from "vitest";
import { type HostArray, hostArray, treeLeaves } from "../../src/core/index.ts";
import { syntheticBatches } from "../../src/data/index.ts";
import { jit } from "../../src/jit/index.ts";
import { initialState, type TrainState } from "../../src/train/state.ts";
import { makeTrainStep } from "../../src/train/step.ts";
import { fetchAndFree } from "../fetchAndFree.ts";
import { tinyModel, tinyPlan } from "./tinyRun.ts";

type Host = TrainState<HostArray>;
interface HostResult {
  readonly state: Host;
  readonly metrics: Readonly<Record<"loss" | "totalWeight" | "gradNorm" | "finite" | "tensorNorms", HostArray>>;
}

const { precision, optimizer } = tinyPlan();
const step = jit(
  makeTrainStep({
    config: tinyModel,
    precision: precision.precision,
    optimizer,
    clippingThreshold: 1,
    roundingSeed: 0,
  }),
);
const { train } = syntheticBatches(tinyModel.vocabSize, { batchSize: 4, windowLength: 32 }, 0);

/** One step on host arrays. */
function run(state: Host, number: number, learningRate = 1e-2): Promise<HostResult> {
  const { tokens, targets } = train.batchAt(number);
  const scalars = {
    learningRate: hostArray([], "float32", Float32Array.of(learningRate)),
    step: hostArray([], "uint32", Uint32Array.of(number)),
  };
  return fetchAndFree<HostResult>(step(state, { tokens, targets }, scalars));
}

const scalar = (array: HostArray) => Number(array.data[0]);
const bits = (tree: unknown) =>
  treeLeaves<HostArray>(tree).map(({ data }) =>
    Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("hex"),
  );

describe("a training step", () => {
  it("learns, and counts its updates", async () => {
    let state = initialState(tinyModel, 0);
    const losses: number[] = [];
    for (let number = 1; number <= 12; number++) {
      const result = await run(state, number);
      losses.push(scalar(result.metrics.loss));
      expect(scalar(result.metrics.finite)).toBe(1);
      expect(scalar(result.metrics.totalWeight)).toBe(128);
      state = result.state;
    }
    expect(losses[0]).toBeCloseTo(Math.log(64), 1);
    expect(losses.at(-1)).toBeLessThan(losses[0]! - 0.3);
    expect(scalar(state.optimizer.count)).toBe(12);
  });

  it("moves by the learning rate it is given", async () => {
    const state = initialState(tinyModel, 0);
    const moved = async (rate: number) => {
      const next = (await run(state, 1, rate)).state.params.layers[0]!.q.data as Float32Array;
      return next.map((x, i) => x - Number(state.params.layers[0]!.q.data[i]));
    };
    expect((await moved(0)).every((x) => x === 0)).toBe(true);
    const [small, large] = [await moved(0.001), await moved(0.01)];
    for (let i = 0; i < 20; i++) expect(large[i]).toBeCloseTo(10 * small[i]!, 5);
  });

  it.each([
    ["NaN", Number.NaN],
    ["infinity", Number.POSITIVE_INFINITY],
    ["a weight whose products overflow", 3e38],
  ])("with %s in a weight changes nothing, and says which gradients are bad", async (_, value) => {
    const warm = (await run(initialState(tinyModel, 0), 1)).state;
    (warm.params.layers[1]!.up.data as Float32Array)[3] = value;
    const { state, metrics } = await run(warm, 2);
    expect(scalar(metrics.finite)).toBe(0);
    expect((metrics.tensorNorms.data as Float32Array).some((norm) => !Number.isFinite(norm))).toBe(true);
    expect(bits(state)).toEqual(bits(warm));
    expect(scalar(state.optimizer.count)).toBe(1);
  });
});
