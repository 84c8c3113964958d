import { existsSync, readdirSync, readlinkSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  bestCheckpoint,
  checkpointPath,
  offerBestCheckpoint,
  runFolder,
  saveCheckpoint,
} from "../../src/checkpoint/index.ts";
import { initialState } from "../../src/train/state.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { tinyModel } from "../train/tinyRun.ts";

/** A run's folder with checkpoints of these steps. */
async function runWith(...steps: readonly number[]) {
  const folder = runFolder(temporaryFolder(), "run");
  for (const step of steps) {
    await saveCheckpoint(folder.checkpoints, initialState(tinyModel, step), {
      ...{ step, skippedInARow: 0, skippedSteps: 0, overflowSteps: 0 },
      ...{ data: {}, provenance: { recipe: "bf16" } },
    });
  }
  const offer = (step: number, loss: number, validTokens = 100) =>
    offerBestCheckpoint(folder, { step, loss, validTokens });
  return { folder, offer };
}

describe("the best checkpoint", () => {
  it("is the one with the lowest loss; the link leads to it, wherever the run is moved", async () => {
    const { folder, offer } = await runWith(1, 2, 3, 4);
    expect(bestCheckpoint(folder)).toBe(undefined);
    const losses = [3, 2.5, 2.7, 2.5];
    const chosen: (number | undefined)[] = [];
    for (const [i, loss] of losses.entries()) {
      await offer(i + 1, loss);
      chosen.push(bestCheckpoint(folder)?.step);
    }
    // An equal loss is no lower one.
    expect(chosen).toEqual([1, 2, 2, 2]);
    expect(bestCheckpoint(folder)).toEqual({ step: 2, loss: 2.5, validTokens: 100 });
    expect(readlinkSync(folder.best)).toBe("checkpoints/step-00000002");
    expect(readdirSync(folder.path).sort()).toEqual(["best", "best.json", "checkpoints"]);
    const moved = runFolder(temporaryFolder(), "moved");
    renameSync(folder.path, moved.path);
    expect(existsSync(join(moved.best, "params.safetensors"))).toBe(true);
    expect(bestCheckpoint(moved)?.step).toBe(2);
  });

  it("is none whose loss is no number, nor a step without a checkpoint", async () => {
    const { folder, offer } = await runWith(1);
    await offer(1, Number.NaN);
    await offer(2, 1);
    expect(bestCheckpoint(folder)).toBe(undefined);
    expect(existsSync(folder.best)).toBe(false);
    await offer(1, 4);
    await offer(2, 1);
    expect(bestCheckpoint(folder)?.step).toBe(1);
  });

  it("is chosen anew where the validation is another one, or the one that was is damaged", async () => {
    const { folder, offer } = await runWith(1, 2, 3);
    await offer(1, 2);
    await offer(2, 9, 50);
    expect(bestCheckpoint(folder)?.step).toBe(2);
    rmSync(join(checkpointPath(folder.checkpoints, 2), "params.safetensors"));
    expect(bestCheckpoint(folder)).toBe(undefined);
    await offer(3, 10, 50);
    expect(bestCheckpoint(folder)?.step).toBe(3);
    expect(readlinkSync(folder.best)).toBe("checkpoints/step-00000003");
  });

  it("has its link again where a killed process left it behind the record, and its record where that is torn", async () => {
    const { folder, offer } = await runWith(1, 2, 3);
    await offer(1, 2);
    rmSync(folder.best);
    await offer(2, 3);
    expect(readlinkSync(folder.best)).toBe("checkpoints/step-00000001");
    writeFileSync(folder.bestRecord, '{"step": 1, "lo');
    expect(bestCheckpoint(folder)).toBe(undefined);
    await offer(3, 3);
    expect(bestCheckpoint(folder)?.step).toBe(3);
  });
});
