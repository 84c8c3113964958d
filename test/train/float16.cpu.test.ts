import { describe, expect, it } from "vitest";
import { checkpointPath, loadCheckpoint } from "../../src/checkpoint/index.ts";
import type { RunEvent } from "../../src/metrics/index.ts";
import type { LossScaleSettings } from "../../src/optim/index.ts";
import type { RunPlan } from "../../src/train/plan.ts";
import { runTraining } from "../../src/train/run.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { ofType } from "./runFiles.ts";
import { tinyModel, tinyPlan, tinyRun } from "./tinyRun.ts";

const scaling: LossScaleSettings = {
  initial: 65536,
  minimum: 1,
  growthFactor: 2,
  backoffFactor: 0.5,
  growthInterval: 2000,
};

const plan = (lossScale: Partial<LossScaleSettings> = {}, changes: Partial<RunPlan> = {}) =>
  tinyPlan({ model: { ...tinyModel, dtype: "float16" }, lossScale: { ...scaling, ...lossScale }, ...changes });

async function eventsOf(plan: RunPlan, folder = temporaryFolder()): Promise<RunEvent[]> {
  const events: RunEvent[] = [];
  await runTraining(tinyRun(folder, plan, events));
  return events;
}

describe("float16", () => {
  it("learns as bfloat16 does", async () => {
    const [half, brain] = [await eventsOf(plan()), await eventsOf(tinyPlan())];
    expect(ofType(half, "skip")).toEqual([]);
    expect(ofType(half, "step").map(({ lossScale }) => lossScale)).toEqual(Array(10).fill(65536));
    const [a, b] = [half, brain].map((events) => ofType(events, "step").map(({ loss }) => loss));
    a!.forEach((loss, i) => {
      expect(Math.abs(loss - b![i]!), `step ${i + 1}`).toBeLessThan(0.01);
    });
    expect(a!.at(-1)).toBeLessThan(a![0]! - 0.3);
    expect(ofType(half, "eval")[0]!.loss).toBeCloseTo(ofType(brain, "eval")[0]!.loss, 1);
  });

  it("skips steps while the scale is too large, which is no fault of the run, then learns", async () => {
    const folder = temporaryFolder();
    const tooLarge = plan({ initial: 2 ** 34 }, { maxSkippedSteps: 1, steps: 16 });
    const events = await eventsOf(tooLarge, folder);
    const skips = ofType(events, "skip");
    const scales = ofType(events, "step").map(({ lossScale }) => lossScale!);
    expect(skips.length).toBeGreaterThan(2);
    skips.forEach((skip, i) => {
      expect(skip).toMatchObject({ step: i + 1, reason: "overflow", skippedInARow: 0 });
      expect(skip.tensors.length).toBeGreaterThan(0);
      expect(skip.message).toContain(`at loss_scale ${2 ** (34 - i)}, which falls to ${2 ** (33 - i)}`);
      expect(scales[i]).toBe(2 ** (34 - i));
    });
    expect(new Set(scales.slice(skips.length))).toEqual(new Set([2 ** (34 - skips.length)]));
    const { checkpoints } = tinyRun(folder, tooLarge).folder;
    const saved = await loadCheckpoint(checkpointPath(checkpoints, 16), tooLarge.model);
    expect(saved.progress).toMatchObject({ overflowSteps: skips.length, skippedSteps: 0 });
    expect(Number(saved.optimizer.count.data[0])).toBe(16 - skips.length);
  });

  it("fails where gradients overflow at the smallest scale, after max_skipped_steps", async () => {
    const always = plan({ initial: 2 ** 36, minimum: 2 ** 35 }, { maxSkippedSteps: 2 });
    const events: RunEvent[] = [];
    await expect(runTraining(tinyRun(temporaryFolder(), always, events))).rejects.toThrow(
      /^2 steps in a row were not finite; step 3 is skipped: /,
    );
    expect(ofType(events, "skip").map(({ reason }) => reason)).toEqual(["overflow", "not finite", "not finite"]);
  });

  it("F1: goes on from a checkpoint to the same bits, with a scale that has changed", async () => {
    const [straight, parts] = [temporaryFolder(), temporaryFolder()];
    const changing = (steps: number) => plan({ growthInterval: 3 }, { steps });
    await runTraining(tinyRun(straight, changing(10)));
    await runTraining(tinyRun(parts, changing(5)));
    const at = (folder: string, step: number) => {
      const { folder: run, plan } = tinyRun(folder, changing(step));
      return loadCheckpoint(checkpointPath(run.checkpoints, step), plan.model);
    };
    const resume = await at(parts, 5);
    expect([resume.lossScale?.scale.data[0], resume.lossScale?.goodSteps.data[0]]).toEqual([131072, 2]);
    await runTraining({ ...tinyRun(parts, changing(10)), resume });
    const end = await at(straight, 10);
    expect(end.lossScale?.scale.data[0]).toBe(65536 * 8);
    expect(await at(parts, 10)).toEqual(end);
  });
});
