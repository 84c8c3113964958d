/** Training with the native kernels and without: the same model, data and seeds. */
import { afterAll, describe, expect, it } from "vitest";
import { type HostArray, hostArray } from "../../src/core/index.ts";
import { syntheticBatches } from "../../src/data/index.ts";
import { jit } from "../../src/jit/index.ts";
import type { Client } from "../../src/pjrt/index.ts";
import { initialState } from "../../src/train/state.ts";
import { makeTrainStep } from "../../src/train/step.ts";
import { fetchAndFree } from "../fetchAndFree.ts";
import { tinyModel, tinyPlan } from "../train/tinyRun.ts";
import { kernelClients } from "./kernelClients.ts";

const clients = await kernelClients();

afterAll(async () => {
  for (const client of [clients?.plain, ...(clients?.native.values() ?? [])]) await client?.destroy();
});

const model = { ...tinyModel, numHeads: 4, numKvHeads: 2, embDim: 64 };
const { precision, optimizer } = tinyPlan();
const { train } = syntheticBatches(model.vocabSize, { batchSize: 4, windowLength: 48 }, 0);

async function lossesOf(client: Client): Promise<number[]> {
  const step = jit(
    makeTrainStep({ config: model, precision: precision.precision, optimizer, clippingThreshold: 1, roundingSeed: 0 }),
    { client },
  );
  let state: unknown = initialState(model, 0);
  const losses: number[] = [];
  for (let number = 1; number <= 5; number++) {
    const scalars = {
      learningRate: hostArray([], "float32", Float32Array.of(1e-2)),
      step: hostArray([], "uint32", Uint32Array.of(number)),
    };
    const { tokens, targets } = train.batchAt(number);
    const result = await fetchAndFree<{ state: unknown; metrics: { loss: HostArray } }>(
      step(state as never, { tokens, targets }, scalars),
    );
    losses.push(Number(result.metrics.loss.data[0]));
    state = result.state;
  }
  step.dispose();
  return losses;
}

describe.skipIf(clients === undefined)("training with native kernels", () => {
  it("has the losses of the plain lowering within 0.1 %, with each instruction set", async () => {
    const plain = await lossesOf(clients!.plain);
    expect(plain.at(-1)).toBeLessThan(plain[0]! - 0.05);
    for (const client of clients!.native.values()) {
      const native = await lossesOf(client);
      native.forEach((loss, i) => {
        expect(Math.abs(loss / plain[i]! - 1)).toBeLessThan(1e-3);
      });
    }
  });
});
