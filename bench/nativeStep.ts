/** A whole training step on two clients, one with native kernels and one without, run in turns. */
import { type HostArray, hostArray } from "../src/core/index.ts";
import { disposeTree, jit, putTree } from "../src/jit/index.ts";
import type { Client } from "../src/pjrt/index.ts";
import { recipeByName, resolvePrecision } from "../src/quant/index.ts";
import { initialState } from "../src/train/state.ts";
import { makeTrainStep } from "../src/train/step.ts";
import { configOf, type Sizes } from "./workload.ts";

export interface StepTimes {
  /** Of each step but the first, ms of process CPU time ÷ 2. */
  readonly ms: readonly number[];
  readonly loss: number;
}

/** Steps of the workload in BF16 on each client, in turns. */
export async function stepsInTurns(workload: Sizes, clients: readonly Client[], rounds: number): Promise<StepTimes[]> {
  const config = configOf(workload);
  const { precision } = resolvePrecision({ recipe: recipeByName("bf16"), numLayers: config.numLayers });
  const optimizer = { b1: 0.9, b2: 0.95, eps: 1e-8, weightDecay: 0.1 };
  const train = makeTrainStep({ config, precision, optimizer, clippingThreshold: 1, roundingSeed: 0 });
  const ids = (shift: number): HostArray => {
    const { batch, seq, vocab } = workload;
    const values = Int32Array.from({ length: batch * seq }, (_, i) => ((i + shift) * 7) % vocab);
    return hostArray([batch, seq], "int32", values);
  };
  const batch = { tokens: ids(0), targets: ids(1) };
  const sides = await Promise.all(
    clients.map(async (client) => ({
      step: jit(train, { donate: [0], name: "train_step", client }),
      state: (await putTree(initialState(config, 0), client)) as unknown,
      ms: [] as number[],
      loss: Number.NaN,
    })),
  );
  for (let number = 1; number <= rounds + 1; number++) {
    for (const side of sides) {
      const scalars = {
        learningRate: hostArray([], "float32", Float32Array.of(1e-4)),
        step: hostArray([], "uint32", Uint32Array.of(number)),
      };
      const start = process.cpuUsage();
      const result = await side.step(side.state as never, batch as never, scalars);
      side.loss = (await result.metrics.loss.toHost()).data[0] as number;
      const { user, system } = process.cpuUsage(start);
      if (number > 1) side.ms.push((user + system) / 2000);
      side.state = result.state;
      disposeTree(result.metrics);
    }
  }
  for (const { step, state } of sides) {
    disposeTree(state as never);
    step.dispose();
  }
  return sides.map(({ ms, loss }) => ({ ms, loss }));
}
