/** A training step with packed residuals: less memory, the same parameters. */
import { describe, expect, it } from "vitest";
import { type HostArray, hostArray, treeLeaves } from "../../src/core/index.ts";
import { jit } from "../../src/jit/index.ts";
import { nvfp4 } from "../../src/quant/index.ts";
import { initialState } from "../../src/train/state.ts";
import { makeTrainStep } from "../../src/train/step.ts";
import { fetchAndFree } from "../fetchAndFree.ts";
import { tinyModel } from "./tinyRun.ts";

const [batch, sequence] = [16, 128];
const ids = (shift: number) =>
  hostArray(
    [batch, sequence],
    "int32",
    Int32Array.from({ length: batch * sequence }, (_, i) => ((i + shift) * 7) % 64),
  );
const inputs = { tokens: ids(0), targets: ids(1) };
const scalars = {
  learningRate: hostArray([], "float32", Float32Array.of(1e-3)),
  step: hostArray([], "uint32", Uint32Array.of(1)),
};

async function stepWith(residuals?: "packed"): Promise<{ params: HostArray[]; temporaryBytes: number }> {
  const precision = { ...nvfp4(), ...(residuals && { residuals }) };
  const train = makeTrainStep({
    config: tinyModel,
    precision: () => precision,
    optimizer: { b1: 0.9, b2: 0.95, eps: 1e-8, weightDecay: 0.1 },
    clippingThreshold: 1,
    roundingSeed: 0,
  });
  const step = jit(train, { name: "residuals" });
  const state = initialState(tinyModel, 0);
  const executable = await step.compile(state as never, inputs as never, scalars as never);
  const { temporaryBytes } = executable.memoryStats();
  const result = await fetchAndFree<{ state: { params: unknown } }>(
    step(state as never, inputs as never, scalars as never),
  );
  step.dispose();
  return { params: treeLeaves<HostArray>(result.state.params), temporaryBytes };
}

describe("a training step with packed residuals", () => {
  it("takes less memory and gives the same parameters to the bit", async () => {
    const [plain, packed] = [await stepWith(), await stepWith("packed")];
    expect(packed.params).toEqual(plain.params);
    // At the peak, at least a byte for each element of one layer's largest input.
    const saved = plain.temporaryBytes - packed.temporaryBytes;
    expect(saved).toBeGreaterThan(batch * sequence * tinyModel.mlpDim);
  }, 240_000);
});
