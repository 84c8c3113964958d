import { describe, expect, it } from "vitest";
import { type HostArray, hostArray, spec, treeLeaves, treeMap } from "../../src/core/index.ts";
import { jit } from "../../src/jit/index.ts";
import type { LlamaConfig } from "../../src/models/llama.ts";
import { type RematPolicyName, rematPolicies } from "../../src/models/rematPolicies.ts";
import { bf16, nvfp4 } from "../../src/quant/index.ts";
import { initialState } from "../../src/train/state.ts";
import { makeTrainStep } from "../../src/train/step.ts";
import { fetchAndFree } from "../fetchAndFree.ts";
import { tinyModel } from "./tinyRun.ts";

const ids = (shift: number) =>
  hostArray(
    [4, 128],
    "int32",
    Int32Array.from({ length: 512 }, (_, i) => ((i + shift) * 7) % 64),
  );
const batch = { tokens: ids(0), targets: ids(1) };
const scalars = {
  learningRate: hostArray([], "float32", Float32Array.of(1e-3)),
  step: hostArray([], "uint32", Uint32Array.of(1)),
};

async function stepUnder(name: RematPolicyName): Promise<{ params: HostArray[]; temporaryBytes: number }> {
  const remat = rematPolicies[name];
  const optimizer = { b1: 0.9, b2: 0.95, eps: 1e-8, weightDecay: 0.1 };
  const precision = () => nvfp4();
  const train = makeTrainStep({
    config: tinyModel,
    precision,
    ...(remat && { remat }),
    optimizer,
    clippingThreshold: 1,
    roundingSeed: 0,
  });
  const step = jit(train, { name: `remat_${name}` });
  const state = initialState(tinyModel, 0);
  const specs = treeMap<object>(({ shape, dtype }: HostArray) => spec(shape, dtype), state);
  const { temporaryBytes } = (await step.compile(specs, batch, scalars)).memoryStats();
  const result = await fetchAndFree<{ state: { params: unknown } }>(
    step(state as never, batch as never, scalars as never),
  );
  step.dispose();
  return { params: treeLeaves<HostArray>(result.state.params), temporaryBytes };
}

describe("remat policies of a training step", () => {
  it("change memory, and no bit of the new parameters", async () => {
    const names: RematPolicyName[] = ["none", "full", "minimal_with_context_and_quantization"];
    const results = new Map<RematPolicyName, Awaited<ReturnType<typeof stepUnder>>>();
    for (const name of names) results.set(name, await stepUnder(name));
    const none = results.get("none")!;
    for (const name of names) {
      results.get(name)!.params.forEach((array, i) => expect(array.data, `${name} ${i}`).toEqual(none.params[i]!.data));
    }
    expect(results.get("full")!.temporaryBytes).toBeLessThan(0.9 * none.temporaryBytes);
  }, 240_000);

  it("keep what their names say: the more, the more memory a step of a larger model takes", async () => {
    const model = { ...tinyModel, numLayers: 4, embDim: 128, mlpDim: 352, numHeads: 4, numKvHeads: 2, headDim: 32 };
    const order: RematPolicyName[] = ["full", "minimal", "minimal_with_context", "none"];
    const bytes = new Map<RematPolicyName, number>();
    for (const name of [...order, "save_out_proj"] as const) bytes.set(name, await plannedBytes(model, name));
    order.slice(1).forEach((name, i) => {
      expect(bytes.get(name)!, `${order[i]} against ${name}`).toBeGreaterThan(1.02 * bytes.get(order[i]!)!);
    });
    expect(bytes.get("save_out_proj")!).toBeLessThan(bytes.get("minimal")!);
  }, 240_000);
});

/** XLA's temporary memory of a BF16 step over 8 × 256 tokens. */
async function plannedBytes(config: LlamaConfig, name: RematPolicyName): Promise<number> {
  const remat = rematPolicies[name];
  const optimizer = { b1: 0.9, b2: 0.95, eps: 1e-8, weightDecay: 0.1 };
  const options = { config, precision: () => bf16, ...(remat && { remat }), optimizer };
  const step = jit(makeTrainStep({ ...options, clippingThreshold: 1, roundingSeed: 0 }));
  const specs = treeMap<object>(({ shape, dtype }: HostArray) => spec(shape, dtype), initialState(config, 0));
  const tokens = spec([8, 256], "int32");
  const { temporaryBytes } = (await step.compile(specs, { tokens, targets: tokens }, scalars)).memoryStats();
  step.dispose();
  return temporaryBytes;
}
