import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { bestCheckpoint, checkpointPath, listCheckpoints, loadCheckpoint } from "../../src/checkpoint/index.ts";
import { hostArray } from "../../src/core/index.ts";
import type { Batch } from "../../src/data/index.ts";
import { type RunEvent, readEvents } from "../../src/metrics/index.ts";
import { learningRate } from "../../src/optim/index.ts";
import { defaultClient } from "../../src/pjrt/index.ts";
import { runTraining } from "../../src/train/run.ts";
import type { StopRequest } from "../../src/train/stop.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { ofType, stateHashes } from "./runFiles.ts";
import { tinyPlan, tinyRun } from "./tinyRun.ts";

describe("a run", () => {
  it("C1: tells every step with the learning rate the optimizer gets; the first has its own share of warm-up", async () => {
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

  it("F7: saves before it validates, so that a failing validation loses nothing", async () => {
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

  it("C3: skips bad steps, names the weight that is the cause, stops after too many in a row and saves none", async () => {
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

  it("C3: a bad batch at step 5 changes no weight, no moment and no count, and the run goes on", async () => {
    const events: RunEvent[] = [];
    const folder = temporaryFolder();
    const input = tinyRun(folder, tinyPlan({ checkpoints: { period: 1 }, maxSkippedSteps: 1 }), events);
    const asked: number[] = [];
    const batchAt = (step: number) => {
      const batch = input.data.train.batchAt(step);
      asked.push(step);
      const mask = new Float32Array(batch.validTokens).fill(1);
      if (step === 5) mask[7] = Number.NaN;
      return { ...batch, mask: hostArray(batch.tokens.shape, "float32", mask) };
    };
    const outcome = runTraining({ ...input, data: { ...input.data, train: { ...input.data.train, batchAt } } });
    // One in a row is the most that is allowed here.
    await expect(outcome).rejects.toThrow(/^1 steps in a row were not finite; step 5 is skipped: the loss is NaN, /);

    events.length = 0;
    const more = { ...input, plan: { ...input.plan, maxSkippedSteps: 2 } };
    const resume = await loadCheckpoint(checkpointPath(input.folder.checkpoints, 4), input.plan.model);
    asked.length = 0;
    await runTraining({ ...more, resume, data: { ...input.data, train: { ...input.data.train, batchAt } } });
    expect(asked.slice(1)).toEqual([5, 6, 7, 8, 9, 10]);
    const skips = ofType(events, "skip");
    expect(skips).toMatchObject([{ step: 5, skippedInARow: 1, reason: "not finite" }]);
    expect(skips[0]!.tensors).toContain("model.embed_tokens.weight");
    const run = input.folder.path;
    expect(stateHashes(run, 5)).toEqual(stateHashes(run, 4));
    expect(stateHashes(run, 6)).not.toEqual(stateHashes(run, 5));
    const end = await loadCheckpoint(checkpointPath(input.folder.checkpoints, 10), input.plan.model);
    expect(end.progress).toMatchObject({ step: 10, skippedSteps: 1, skippedInARow: 0 });
    // The bias correction of step 6 is that of the fifth update.
    expect(Number(end.optimizer.count.data[0])).toBe(9);
  });

  it("B12: a batch of prompts only is skipped with a count, changes nothing, and gives no NaN", async () => {
    const events: RunEvent[] = [];
    const input = tinyRun(temporaryFolder(), tinyPlan({ steps: 5, checkpoints: { period: 1 } }), events);
    const batchAt = (step: number): Batch => {
      const batch = input.data.train.batchAt(step);
      const weights = new Float32Array(batch.validTokens).fill(1, step === 3 || step === 5 ? batch.validTokens : 4);
      const validTokens = weights.reduce((sum, weight) => sum + weight, 0);
      return { ...batch, validTokens, mask: hostArray(batch.tokens.shape, "float32", weights) };
    };
    await runTraining({ ...input, data: { ...input.data, train: { ...input.data.train, batchAt } } });
    expect(ofType(events, "skip")).toMatchObject([
      { step: 3, reason: "no targets", skippedInARow: 0 },
      { step: 5, reason: "no targets" },
    ]);
    expect(ofType(events, "step").map(({ step, validTokens }) => [step, validTokens])).toEqual([
      [1, 124],
      [2, 124],
      [4, 124],
    ]);
    for (const { loss } of [...ofType(events, "step"), ...ofType(events, "eval")]) expect(loss).toBeGreaterThan(0);
    const run = input.folder.path;
    expect(stateHashes(run, 3)).toEqual(stateHashes(run, 2));
    expect(stateHashes(run, 4)).not.toEqual(stateHashes(run, 3));
    const end = await loadCheckpoint(checkpointPath(input.folder.checkpoints, 5), input.plan.model);
    expect(end.progress).toMatchObject({ step: 5, skippedSteps: 2, skippedInARow: 0 });
  });

  it("ends when asked to, after the step it is in, and goes on from there to the same bits", async () => {
    const [straight, parts] = [temporaryFolder(), temporaryFolder()];
    const plan = tinyPlan({ steps: 8, checkpoints: { period: 100 } });
    await runTraining(tinyRun(straight, plan));

    const events: RunEvent[] = [];
    const input = tinyRun(parts, plan, events);
    const stop: StopRequest = {
      get signal() {
        return ofType(events, "step").length >= 2 ? ("SIGTERM" as const) : undefined;
      },
      holdOff() {},
      beforeLeaving() {},
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

  it("does not wait for a validation when it is asked to end; what goes on makes up for it, and the best is known", async () => {
    const plan = tinyPlan({ steps: 6, evalInterval: 2, checkpoints: { period: 100, keepBest: true } });
    /** A run that is asked to end from a moment on, of which it is told the events and the batches of validation so far. */
    const scene = (when: (events: readonly RunEvent[], batches: number) => boolean, base = temporaryFolder()) => {
      const events: RunEvent[] = [];
      const run = tinyRun(base, plan, events);
      const { validation } = run.data;
      const seen = { batches: 0 };
      const batchAt = (index: number) => {
        seen.batches++;
        return validation!.batchAt(index);
      };
      const stop: StopRequest = {
        get signal() {
          return when(events, seen.batches) ? ("SIGTERM" as const) : undefined;
        },
        holdOff() {},
        beforeLeaving() {},
      };
      const data = { ...run.data, validation: { ...validation!, batchAt } };
      return { base, events, seen, input: { ...run, data, stop } };
    };
    const evals = (events: readonly RunEvent[]) => ofType(events, "eval").map(({ step }) => step);
    const saved = { step: 2, saved: { step: 2 } };

    const atStep = scene((events) => ofType(events, "step").length === 2);
    expect(await runTraining(atStep.input)).toMatchObject(saved);
    expect([evals(atStep.events), atStep.seen.batches]).toEqual([[], 0]);
    const atBatch = scene((_, batches) => batches > 2);
    expect(await runTraining(atBatch.input)).toMatchObject(saved);
    expect([evals(atBatch.events), atBatch.seen.batches]).toEqual([[], 3]);
    expect(bestCheckpoint(atBatch.input.folder)).toBe(undefined);
    const after = scene((events) => evals(events).length === 1);
    expect(await runTraining(after.input)).toMatchObject(saved);
    expect(bestCheckpoint(after.input.folder)?.step).toBe(2);

    const resume = await loadCheckpoint(checkpointPath(atBatch.input.folder.checkpoints, 2), plan.model);
    const again = scene(() => false, atBatch.base);
    await runTraining({ ...again.input, resume });
    expect(evals(again.events)).toEqual([2, 4, 6]);
    expect(ofType(again.events, "eval")[0]!.loss).toBe(ofType(after.events, "eval")[0]!.loss);

    // A process may end between the validation and the record of the best one.
    for (const file of [after.input.folder.best, after.input.folder.bestRecord]) rmSync(file);
    const goingOn = scene((events) => ofType(events, "step").length >= 1, after.base);
    await runTraining({ ...goingOn.input, resume });
    expect(evals(goingOn.events)).toEqual([]);
    expect(bestCheckpoint(after.input.folder)?.step).toBe(2);
  });

  it("refuses to go on with other data", async () => {
    const folder = temporaryFolder();
    const first = tinyRun(folder, tinyPlan({ steps: 1 }));
    const dataOf = (hash: string) => ({
      ...first.data,
      hashes: { tokens: hash, texts: hash, sources: hash, files: hash },
    });
    await runTraining({ ...first, data: dataOf("a") });
    const resume = await loadCheckpoint(checkpointPath(first.folder.checkpoints, 1), first.plan.model);
    const next = { ...tinyRun(folder, tinyPlan({ steps: 2 })), resume };
    await expect(runTraining({ ...next, data: dataOf("b") })).rejects.toThrow(
      /can't be resumed: the training text gives other tokens/,
    );
    expect(existsSync(checkpointPath(first.folder.checkpoints, 2))).toBe(false);
  });
});
