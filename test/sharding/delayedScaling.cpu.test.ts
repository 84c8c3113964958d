/** Delayed scales on several devices: one scale for a tensor, from the largest magnitude on any of them. */
import { expect, it } from "vitest";
import { type HostArray, hostArray, type Spec, treeMap } from "../../src/core/index.ts";
import { disposeTree, fetchTree, type JitOptions, jit } from "../../src/jit/index.ts";
import type { DeviceArray } from "../../src/pjrt/index.ts";
import { mesh, partition, replicated, splitLargestDim } from "../../src/sharding/index.ts";
import type { TrainState } from "../../src/train/state.ts";
import { makeTrainStep, stepOptions } from "../../src/train/step.ts";
import { extremes, recorded } from "../train/extremeTokens.ts";
import { tinyPlan } from "../train/tinyRun.ts";
import { clientOf } from "./devices.ts";

const { model, state: start, rows } = extremes;
const f = makeTrainStep({ ...stepOptions(tinyPlan({}, "fp8_delayed_scaling")), config: model });

/** Device 0 has the rows that read 100, the last device those that read 1. */
const batch = rows([1, 1, 2, 2]);
const scalarsOf = (number: number) => ({
  learningRate: hostArray([], "float32", Float32Array.of(1e-3)),
  step: hostArray([], "uint32", Uint32Array.of(number)),
});

/** Two steps: the state after each, and every device's copy of the scales where each has one. */
async function run(devices: number, options: Omit<JitOptions, "client">) {
  const step = jit(f as (...args: never[]) => ReturnType<typeof f>, { client: clientOf(devices), ...options });
  let state = start;
  const losses: number[] = [];
  const states: TrainState<HostArray>[] = [];
  const copies: HostArray[] = [];
  for (const number of [1, 2]) {
    const result = await step(...([state, batch, scalarsOf(number)] as never[]));
    const { scales } = (result.state as unknown as TrainState<DeviceArray>).delayedScaling!;
    for (let device = 0; device < devices; device++) copies.push(await scales.toHost(device));
    const host = (await fetchTree(result)) as unknown as {
      state: TrainState<HostArray>;
      metrics: { loss: HostArray };
    };
    disposeTree(result);
    state = host.state;
    states.push(state);
    losses.push(Number(host.metrics.loss.data[0]));
  }
  step.dispose();
  return { losses, states, copies };
}

it("D9: shards of very different ranges use one scale, on 2 devices and fully sharded on 4", async () => {
  const one = await run(1, {});
  expect(recorded(one.states[0]!.delayedScaling!, 0, "attn.q")[0]).toBe(100);
  const four = mesh({ data: 4 });
  const split = treeMap<object>((x: Spec) => splitLargestDim(x, four, "data"), start);
  const ways = [
    { devices: 2, mesh: mesh({ data: 2 }), state: replicated },
    { devices: 4, mesh: four, state: split },
  ];
  for (const { devices, mesh, state } of ways) {
    const many = await run(devices, {
      mesh,
      inShardings: [state, partition("data"), replicated] as never,
      outShardings: { state, metrics: replicated } as never,
    });
    const close = (got: ArrayLike<number>, wanted: ArrayLike<number>, tolerance: number) => {
      const off = Array.from(got, (x, i) => Math.abs(x / wanted[i]! - 1)).filter((gap) => !(gap <= tolerance));
      expect({ devices, off }).toEqual({ devices, off: [] });
    };
    close(many.losses, one.losses, 1e-5);
    many.states.forEach(({ delayedScaling }, i) => {
      const [got, wanted] = [delayedScaling!, one.states[i]!.delayedScaling!];
      expect(recorded(got, 0, "attn.q").slice(0, 2)).toEqual(recorded(wanted, 0, "attn.q").slice(0, 2));
      // Magnitudes are bfloat16 numbers: sums in another order may move one by a unit in the last place.
      close(got.scales.data as Float32Array, wanted.scales.data as Float32Array, 2 ** -7);
    });
    if (state !== replicated) continue;
    const perStep = [many.copies.slice(0, devices), many.copies.slice(devices)];
    for (const [first, ...others] of perStep) for (const other of others) expect(other.data).toEqual(first!.data);
  }
}, 300_000);
