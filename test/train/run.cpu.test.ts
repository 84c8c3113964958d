import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { checkpointPath, listCheckpoints, loadCheckpoint } from "../../src/checkpoint/index.ts";
import { type RunEvent, readEvents } from "../../src/metrics/index.ts";
import { learningRate } from "../../src/optim/index.ts";
import { defaultClient } from "../../src/pjrt/index.ts";
import { runTraining } from "../../src/train/run.ts";
import type { StopRequest } from "../../src/train/stop.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { tinyPlan, tinyRun } from "./tinyRun.ts";

const ofType = <T extends RunEvent["type"]>(events: readonly RunEvent[], type: T) =>
  events.filter((event): event is Extract<RunEvent, { type: T }> => event.type === type);

describe("a run", () => {
  it("tells every step with the learning rate the optimizer gets; the first has its own share of warm-up", async () => {
    const events: RunEvent[] = [];
    const input = tinyRun(
      temporaryFolder(),
      tinyPlan({ evalInterval: 4, schedule: { peak: 0.01, warmupSteps: 4 } }),
      events,
    );
    const before = defaultClient().liveBuffers.arrays;
    const outcome = await runTraining(input);
    expect(defaultClient().liveBuffers.arrays).toBe(before);

    const steps = ofType(events, "step");
    expect(steps.map(({ step }) => step)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    expect(steps[0]!.learningRate).toBe(0.01 / 4);
    for (const { step, learningRate: used } of steps) expect(used).toBe(learningRate(input.plan.schedule, step));
    expect(ofType(events, "eval").map(({ step }) => step)).toEqual([4, 8, 10]);
    expect(ofType(events, "checkpoint").map(({ step }) => step)).toEqual([5, 10]);
    expect(ofType(events, "end")).toMatchObject([{ reason: "done", step: 10 }]);
    expect(outcome).toMatchObject({ step: 10, saved: { step: 10 }, stoppedBy: undefined });
    expect(outcome.summary.validationLoss).toBe(ofType(events, "eval").at(-1)!.loss);
    // What was told is what the file has.
    const read = readEvents(input.folder.events);
    expect(read.damagedLines).toEqual([]);
    expect(read.events.map(({ time: _, ...event }) => event)).toEqual(JSON.parse(JSON.stringify(events)));
  });

  it("saves before it validates, so that a failing validation loses nothing", async () => {
    const events: RunEvent[] = [];
    const input = tinyRun(temporaryFolder(), tinyPlan({ steps: 3 }), events);
    const broken = {
      ...input.data.validation!,
      batchAt: () => {
        throw new Error("no memory for validation");
      },
    };
    await expect(runTraining({ ...input, data: { ...input.data, validation: broken } })).rejects.toThrow("no memory");
    expect(listCheckpoints(input.folder.checkpoints).map(({ step }) => step)).toEqual([3]);
    expect(ofType(events, "end")).toMatchObject([{ reason: "failed", step: 3, message: "no memory for validation" }]);
  });

  it("skips a bad step, names the tensor, stops after too many in a row and saves none of it", async () => {
    const events: RunEvent[] = [];
    const folder = temporaryFolder();
    const first = tinyRun(folder, tinyPlan({ steps: 2 }));
    await runTraining(first);
    const resume = await loadCheckpoint(checkpointPath(first.folder.checkpoints, 2), first.plan.model);
    (resume.params.layers[1]!.up.data as Float32Array)[3] = 3e38;
    await expect(runTraining({ ...tinyRun(folder, tinyPlan({ steps: 9 }), events), resume })).rejects.toThrow(
      /3 steps in a row were not finite; step 5 is skipped: .*weight 3 of model\.layers\.1\.mlp\.up_proj\.weight is /,
    );
    expect(ofType(events, "skip").map(({ step, skippedInARow }) => [step, skippedInARow])).toEqual([
      [3, 1],
      [4, 2],
      [5, 3],
    ]);
    expect(ofType(events, "skip")[0]!.tensors).toEqual(["model.layers.1.mlp.up_proj.weight"]);
    expect(listCheckpoints(first.folder.checkpoints).map(({ step }) => step)).toEqual([2]);
    expect(ofType(events, "end")).toMatchObject([{ reason: "failed" }]);
  });

  it("ends when asked to, after the step it is in, and goes on from there to the same bits", async () => {
    const [straight, parts] = [temporaryFolder(), temporaryFolder()];
    const plan = tinyPlan({ steps: 8, checkpoints: { period: 100 } }, "nvfp4");
    await runTraining(tinyRun(straight, plan));

    const events: RunEvent[] = [];
    const input = tinyRun(parts, plan, events);
    const stop: StopRequest = {
      get signal() {
        return ofType(events, "step").length >= 2 ? ("SIGTERM" as const) : undefined;
      },
      holdOff() {},
    };
    const outcome = await runTraining({ ...input, stop });
    expect(outcome.stoppedBy).toBe("SIGTERM");
    expect(outcome.step).toBeLessThan(5);
    expect(outcome.saved?.step).toBe(outcome.step);
    expect(ofType(events, "end")).toMatchObject([{ reason: "interrupted", step: outcome.step }]);
    const resume = await loadCheckpoint(outcome.saved!.path, plan.model);
    await runTraining({ ...input, resume });

    for (const file of ["params.safetensors", "optimizer.safetensors"]) {
      const read = (folder: string) => readFileSync(join(folder, "run", "checkpoints", "step-00000008", file));
      expect(read(parts).equals(read(straight)), file).toBe(true);
    }
  });

  it("refuses to go on with other data", async () => {
    const folder = temporaryFolder();
    const first = tinyRun(folder, tinyPlan({ steps: 1 }));
    await runTraining({ ...first, data: { ...first.data, trainHash: "a" } });
    const resume = await loadCheckpoint(checkpointPath(first.folder.checkpoints, 1), first.plan.model);
    const next = { ...tinyRun(folder, tinyPlan({ steps: 2 })), resume };
    await expect(runTraining({ ...next, data: { ...first.data, trainHash: "b" } })).rejects.toThrow(
      /can't be resumed: the training text gives other tokens/,
    );
    expect(existsSync(checkpointPath(first.folder.checkpoints, 2))).toBe(false);
  });
});
