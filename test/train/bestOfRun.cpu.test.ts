/** The best checkpoint of runs that are begun anew, or go on before what they had done. */
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { bestCheckpoint, checkpointPath, loadCheckpoint } from "../../src/checkpoint/index.ts";
import { evaluations, type RunEvent } from "../../src/metrics/index.ts";
import { runTraining } from "../../src/train/run.ts";
import type { StopRequest } from "../../src/train/stop.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { tinyPlan, tinyRun } from "./tinyRun.ts";

const plan = tinyPlan({ steps: 4, evalInterval: 2, checkpoints: { period: 2, keepBest: true } });

/** Runs, from a checkpoint or from the beginning, up to a moment. */
async function train(base: string, from?: number, until: (events: readonly RunEvent[]) => boolean = () => false) {
  const events: RunEvent[] = [];
  const input = tinyRun(base, plan, events);
  const { folder } = input;
  const stop: StopRequest = {
    get signal() {
      return until(events) ? ("SIGTERM" as const) : undefined;
    },
    holdOff() {},
    beforeLeaving() {},
  };
  const resume =
    from === undefined ? undefined : await loadCheckpoint(checkpointPath(folder.checkpoints, from), plan.model);
  await runTraining({ ...input, stop, ...(resume && { resume }) });
  const validated = events.flatMap((event) => (event.type === "eval" ? [event.step] : []));
  const notes = events.flatMap((event) => (event.type === "note" ? [event.message] : []));
  return { folder, validated, notes };
}

describe("the best checkpoint of a run", () => {
  it("takes no loss of a step that was trained again: that is validated again", async () => {
    const base = temporaryFolder();
    const { folder } = await train(base);
    const losses = evaluations(folder.events).map(({ loss }) => loss);
    // As if the steps after the second had gone much better the first time.
    const told = readFileSync(folder.events, "utf8");
    writeFileSync(folder.events, told.replace(`"step":4,"loss":${losses[1]}`, '"step":4,"loss":0.001'));
    writeFileSync(folder.bestRecord, JSON.stringify({ step: 4, loss: 0.001, validTokens: 1 }));
    rmSync(checkpointPath(folder.checkpoints, 4), { recursive: true });

    const again = await train(base, 2, (events) => events.some(({ type }) => type === "checkpoint"));
    expect([again.validated, existsSync(checkpointPath(folder.checkpoints, 4))]).toEqual([[], true]);
    expect(again.notes).toEqual([expect.stringMatching(/^the checkpoint of step 4, .* the best is that of step 2$/)]);
    expect(bestCheckpoint(folder)).toMatchObject({ step: 2, loss: losses[0] });
    const last = await train(base, 4);
    expect(last.validated).toEqual([4]);
    expect(bestCheckpoint(folder)!.loss).toBe(Math.min(...losses));
  });

  it("is none of the run that was in its folder before", async () => {
    const base = temporaryFolder();
    const { folder } = await train(base);
    writeFileSync(folder.bestRecord, JSON.stringify({ ...bestCheckpoint(folder), loss: 0.001 }));
    rmSync(folder.checkpoints, { recursive: true });
    const { notes } = await train(base, undefined, (events) => events.some(({ type }) => type === "checkpoint"));
    expect(notes).toEqual([expect.stringContaining("is not there")]);
    expect([folder.best, folder.bestRecord].filter((path) => existsSync(path))).toEqual([]);
    await train(base, 2);
    expect(bestCheckpoint(folder)!.loss).toBeGreaterThan(1);
  });
});
