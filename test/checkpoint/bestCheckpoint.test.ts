import { existsSync, mkdirSync, readdirSync, readlinkSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  type BestCheckpoint,
  bestCheckpoint,
  bestRecordFault,
  checkpointPath,
  offerBestCheckpoint,
  refuseBestPlace,
  runFolder,
  saveCheckpoint,
  settleBest,
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

  it("is compared only over as many tokens in the same precision, and says where the comparison begins anew", async () => {
    const { folder } = await runWith(1, 2, 3, 4, 5);
    const offer = (step: number, loss: number, validTokens: number, precision: string, asTrained = false) =>
      offerBestCheckpoint(folder, { step, loss, validTokens, precision, asTrained });
    expect(await offer(1, 2, 100, "nvfp4", true)).toBe(undefined);
    // Training went on in another precision, and validation with it.
    expect(await offer(2, 1.5, 100, "bf16", true)).toBe(undefined);
    expect(await offer(3, 3, 100, "fp8", false)).toBe(
      "the best checkpoint is chosen anew from step 3 on: its validation is over 100 tokens in fp8, that of step 2, the best so far, over 100 tokens in bf16, and such losses are not compared (eval_steps, per_device_batch_size, eval_precision); the checkpoint of step 2 is kept no longer for being the best",
    );
    expect(await offer(4, 9, 50, "fp8")).toMatch(/over 50 tokens in fp8, that of step 3, .* over 100 tokens in fp8/);
    expect(await offer(5, 9.5, 50, "fp8")).toBe(undefined);
    expect(bestCheckpoint(folder)).toMatchObject({ step: 4, loss: 9, validTokens: 50, precision: "fp8" });
  });

  it("is chosen anew, of the validated ones that are whole, where its record is damaged or gone", async () => {
    const { folder } = await runWith(1, 2, 3, 4);
    const evaluated: BestCheckpoint[] = [0.5, 3, 2, 2.5, 0.1].map((loss, i) => ({
      ...{ step: i + 1, loss, validTokens: i === 0 ? 50 : 100 },
    }));
    expect(await settleBest(folder, [])).toBe(undefined);
    expect(bestRecordFault(folder)).toBe(`${folder.bestRecord} is missing`);
    expect(await settleBest(folder, evaluated)).toBe(
      `${folder.bestRecord} is missing: of those kept the best is that of step 3`,
    );
    expect(readlinkSync(folder.best)).toBe("checkpoints/step-00000003");
    expect(bestRecordFault(folder)).toBe(undefined);
    expect(await settleBest(folder, evaluated)).toBe(undefined);

    writeFileSync(folder.bestRecord, '{"step": 3, "lo');
    expect(bestRecordFault(folder)).toBe(`${folder.bestRecord} is damaged`);
    expect(await settleBest(folder, evaluated, new Set([3]))).toMatch(/is damaged: .* step 4$/);
    expect(bestCheckpoint(folder)).toEqual({ step: 4, loss: 2.5, validTokens: 100 });
    expect(await settleBest(folder, evaluated, new Set([4]))).toBe(
      "the checkpoint of step 4, the best by validation, is damaged: of those kept the best is that of step 3",
    );
  });

  it("is none where its checkpoint is gone and no other was validated", async () => {
    const { folder, offer } = await runWith(1, 2);
    await offer(2, 1);
    rmSync(checkpointPath(folder.checkpoints, 2), { recursive: true });
    expect(bestRecordFault(folder)).toBe(`${folder.bestRecord} names step 2, of which no whole checkpoint is there`);
    expect(await settleBest(folder)).toMatch(/^the checkpoint of step 2, .* not there, or not whole: the next /);
    expect(readdirSync(folder.path)).toEqual(["checkpoints"]);
  });

  it("replaces nothing that is no link, and names it", async () => {
    const { folder, offer } = await runWith(1);
    refuseBestPlace(folder);
    mkdirSync(folder.best);
    expect(() => refuseBestPlace(folder)).toThrow(`${folder.best} is a folder, and the link`);
    await expect(offer(1, 2)).rejects.toThrow(`${folder.best}: can't be written (it is a folder)`);
  });
});
