/** Scanned blocks compute what unrolled ones do, bit for bit, whatever the segments and the remat policy. */
import { describe, expect, it } from "vitest";
import { type HostArray, hostArray, spec, trace, treeMap, treePaths } from "../../src/core/index.ts";
import { jit } from "../../src/jit/index.ts";
import { type LlamaOptions, llamaHidden, llamaSegments } from "../../src/models/llama.ts";
import { type RematPolicyName, rematPolicies } from "../../src/models/rematPolicies.ts";
import { recipeByName, resolvePrecision } from "../../src/quant/index.ts";
import { initialState, type TrainState } from "../../src/train/state.ts";
import { makeTrainStep } from "../../src/train/step.ts";
import { operationsIn } from "../core/properties/families.ts";
import { fetchAndFree } from "../fetchAndFree.ts";
import { tinyModel } from "../train/tinyRun.ts";

const ids = (shift: number) =>
  hostArray(
    [2, 32],
    "int32",
    Int32Array.from({ length: 64 }, (_, i) => ((i + shift) * 7) % 64),
  );
const batch = { tokens: ids(0), targets: ids(1) };
const scalars = {
  learningRate: hostArray([], "float32", Float32Array.of(1e-2)),
  step: hostArray([], "uint32", Uint32Array.of(1)),
};

interface Model {
  readonly recipe: string;
  readonly numLayers: number;
  /** Blocks at either end that stay in BF16. */
  readonly bf16Ends?: number;
}

function optionsOf({ recipe, numLayers, bf16Ends = 0 }: Model): LlamaOptions {
  const ends = { firstLayersBf16: bf16Ends, lastLayersBf16: bf16Ends };
  const { precision } = resolvePrecision({ recipe: recipeByName(recipe), numLayers, ...ends });
  return { config: { ...tinyModel, numLayers }, precision };
}

interface Way {
  readonly scanLayers: boolean;
  readonly policy: RematPolicyName;
}

/** The loss and every tensor of the state after a step, whose first moments are the gradients. */
async function stepOf(model: Model, { scanLayers, policy }: Way): Promise<{ path: string; data: unknown }[]> {
  const remat = rematPolicies[policy];
  const options = optionsOf(model);
  const train = makeTrainStep({
    ...options,
    scanLayers,
    ...(remat && { remat }),
    optimizer: { b1: 0.9, b2: 0.95, eps: 1e-8, weightDecay: 0.1 },
    clippingThreshold: 1,
    roundingSeed: 3,
  });
  const step = jit(train);
  const state = initialState(options.config, 0);
  const result = await fetchAndFree<{ state: TrainState<HostArray>; metrics: { loss: HostArray } }>(
    step(state as never, batch as never, scalars as never),
  );
  step.dispose();
  const leaves = [...treePaths(result.state), { path: "loss", leaf: result.metrics.loss }];
  return leaves.map(({ path, leaf }) => ({ path, data: (leaf as HostArray).data }));
}

describe("scanned layers", () => {
  it("NVFP4 with rotation and stochastic rounding, BF16 blocks at both ends: the bits of unrolled ones", async () => {
    const model: Model = { recipe: "nvfp4", numLayers: 4, bf16Ends: 1 };
    const unrolled = await stepOf(model, { scanLayers: false, policy: "none" });
    for (const policy of ["none", "minimal_with_context_and_quantization"] as const) {
      expect(await stepOf(model, { scanLayers: true, policy }), policy).toEqual(unrolled);
    }
  }, 240_000);

  it("BF16 under the policies that quantization does not change: the bits of unrolled ones", async () => {
    const model: Model = { recipe: "bf16", numLayers: 3 };
    const unrolled = await stepOf(model, { scanLayers: false, policy: "none" });
    for (const policy of ["full", "minimal", "minimal_with_context", "save_qkv_proj", "save_out_proj"] as const) {
      expect(await stepOf(model, { scanLayers: true, policy }), policy).toEqual(unrolled);
    }
  }, 240_000);

  it("segments are the runs of equal precision, whoever makes the values", () => {
    const counts = (model: Model) => llamaSegments(optionsOf(model)).map(({ first, count }) => [first, count]);
    expect(counts({ recipe: "bf16", numLayers: 5 })).toEqual([[0, 5]]);
    expect(counts({ recipe: "nvfp4", numLayers: 5, bf16Ends: 1 })).toEqual([
      [0, 1],
      [1, 3],
      [4, 1],
    ]);
    const { config, precision } = optionsOf({ recipe: "nvfp4", numLayers: 3 });
    expect(llamaSegments({ config, precision: (...site) => structuredClone(precision(...site)) }).length).toBe(1);
  });

  it("make a program of the same size whatever the depth", () => {
    const sizeAt = (numLayers: number) => {
      const options = { ...optionsOf({ recipe: "bf16", numLayers }), scanLayers: true };
      const { params } = treeMap<TrainState>(
        ({ shape }: HostArray) => spec(shape, "float32"),
        initialState(options.config, 0),
      );
      const program = trace((p, tokens) => llamaHidden(p as never, tokens as never, options), params, batch.tokens);
      // Each layer's nine tensors are reshaped and stacked.
      return operationsIn(program).length - 9 * numLayers;
    };
    expect(sizeAt(12)).toBe(sizeAt(3));
  });
});
