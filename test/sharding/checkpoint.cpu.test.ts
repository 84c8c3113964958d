/** A state on a mesh, saved by as many processes as are pretended, and a run that goes on with it on other devices. */
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  checkpointPath,
  loadCheckpoint,
  newestCheckpoint,
  writeCheckpointFiles,
  writeWholeFolder,
} from "../../src/checkpoint/index.ts";
import { type HostArray, treeLeaves } from "../../src/core/index.ts";
import { disposeTree, putTree } from "../../src/jit/index.ts";
import type { DeviceArray } from "../../src/pjrt/index.ts";
import type { TrainState } from "../../src/train/state.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { clientOf } from "./devices.ts";
import {
  compileOn,
  dataParallel,
  fullySharded,
  type HostState,
  model,
  relative,
  runStep,
  start,
  stepOf,
} from "./tinyTraining.ts";

const progress = {
  ...{ step: 3, skippedInARow: 0, skippedSteps: 0, overflowSteps: 0 },
  ...{ data: {}, provenance: { recipe: "bf16" } },
};

/** Saves a state as `count` processes, each of the devices that are its own. */
async function saveAs(count: number, state: TrainState<DeviceArray>): Promise<string> {
  const checkpoints = temporaryFolder();
  await writeWholeFolder(checkpointPath(checkpoints, 3), async (folder) => {
    const writers = Array.from({ length: count }, (_, index) => ({ index, count }));
    const records = await Promise.all(writers.map((writer) => writeCheckpointFiles(folder, state, progress, writer)));
    return Object.assign({}, ...records);
  });
  return checkpoints;
}

/** As Llama 3 was trained with: differences in rounding grow with the updates. */
const llamaRate = 3e-4;

const bytesOf = (state: Pick<HostState, "params" | "optimizer">) =>
  treeLeaves<HostArray>([state.params, state.optimizer]).map(({ data }) =>
    Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("base64"),
  );

describe("a run on a mesh", { timeout: 300_000 }, () => {
  it("is saved by any number of processes, and goes on on other devices: losses within 1e-5 in BF16", async () => {
    const f = stepOf("bf16", "bfloat16");
    const spread = fullySharded(4);
    const [one, two, four] = [compileOn(f, 1), compileOn(f, 2, dataParallel(2)), compileOn(f, 4, spread)];
    let before: HostState = start;
    for (let number = 1; number <= 3; number++) before = (await runStep(four, before, number)).state;
    const state = await putTree(before, clientOf(4), { mesh: spread.mesh, shardings: spread.state });
    const saved: HostState[] = [];
    for (const count of [1, 2, 4]) {
      const checkpoints = await saveAs(count, state as never);
      const place = await newestCheckpoint(checkpoints, () => {});
      const sizes = readdirSync(place!.path)
        .filter((name) => name.startsWith("optimizer"))
        .map((name) => statSync(join(place!.path, name)).size);
      expect(sizes).toHaveLength(count);
      expect(Math.max(...sizes)).toBeLessThan(1.3 * Math.min(...sizes));
      const loaded = await loadCheckpoint(place!.path, model);
      expect(bytesOf(loaded), `${count} processes`).toEqual(bytesOf(before));
      expect(loaded.progress).toEqual(progress);
      saved.push({ params: loaded.params, optimizer: loaded.optimizer });
    }
    disposeTree(state);

    const goOn = async (step: typeof one) => {
      const losses: HostArray[] = [];
      let now = saved[2]!;
      for (let number = 4; number <= 7; number++) {
        const { state: next, metrics } = await runStep(step, now, number, llamaRate);
        losses.push(metrics.loss);
        now = next;
      }
      return losses;
    };
    const wanted = await goOn(four);
    for (const [devices, step] of [
      [1, one],
      [2, two],
    ] as const) {
      for (const [i, loss] of (await goOn(step)).entries()) {
        expect(relative(loss, wanted[i]!), `step ${4 + i} on ${devices}`).toBeLessThan(1e-5);
      }
    }
  });
});
