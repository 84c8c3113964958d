/**
 * A training step of a small Llama on several devices against one device: data parallel, and with parameters and
 * optimizer state sharded over the same axis.
 */
import { describe, expect, it } from "vitest";
import { disposeTree, putTree } from "../../src/jit/index.ts";
import type { DeviceArray } from "../../src/pjrt/index.ts";
import { clientOf, collectivesIn } from "./devices.ts";
import {
  batchOf,
  compileOn as compile,
  dataParallel,
  fullySharded,
  type HostState,
  relative,
  runStep as run,
  scalarsOf,
  start,
  stepOf,
} from "./tinyTraining.ts";

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
      let alone: HostState = start;
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
