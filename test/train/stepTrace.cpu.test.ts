import { existsSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { RunEvent } from "../../src/metrics/index.ts";
import { runTraining } from "../../src/train/run.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { ofType } from "./runFiles.ts";
import { tinyPlan, tinyRun } from "./tinyRun.ts";

interface Bar {
  readonly name: string;
  readonly ph: string;
  readonly tid: number;
  readonly ts: number;
  readonly dur: number;
  readonly args: { readonly step: number };
}

describe("the trace of a run", () => {
  it("has the host's phases and the device's time of the steps asked for", async () => {
    const events: RunEvent[] = [];
    const changes = { steps: 6, evalInterval: 3, checkpoints: { period: 3 }, profile: { skipSteps: 1, steps: 3 } };
    const input = tinyRun(temporaryFolder(), tinyPlan(changes), events);
    await runTraining(input);
    const path = input.folder.trace;
    expect(ofType(events, "note").map(({ message }) => message)).toEqual([
      `trace of steps 2–4: ${path} (Perfetto and chrome://tracing show it)`,
    ]);
    const { traceEvents } = JSON.parse(readFileSync(path, "utf8")) as { traceEvents: Bar[] };
    const bars = traceEvents.filter(({ ph }) => ph === "X");
    const phases = (step: number) => bars.filter(({ args }) => args.step === step).map(({ name }) => name);
    for (const step of [2, 4]) expect(phases(step).sort()).toEqual(["data", "dispatch", `step ${step}`, "wait"]);
    expect(phases(3).sort()).toEqual(["data", "dispatch", "evaluate", "save", "step 3", "wait"]);
    for (const step of [1, 5, 6]) expect(phases(step)).toEqual([]);
    // The host does one thing at a time.
    const host = bars.filter(({ tid }) => tid === 1).sort((a, b) => a.ts - b.ts);
    host.slice(1).forEach(({ ts }, i) => {
      expect(ts).toBeGreaterThanOrEqual(host[i]!.ts + host[i]!.dur - 1);
    });
  });

  it("shows that each step is handed over before the numbers of the one before are read", async () => {
    const input = tinyRun(temporaryFolder(), tinyPlan({ steps: 8, profile: { skipSteps: 0, steps: 8 } }));
    await runTraining({ ...input, plan: { ...input.plan, checkpoints: { period: 100 } } });
    const { traceEvents } = JSON.parse(readFileSync(input.folder.trace, "utf8")) as { traceEvents: Bar[] };
    const bar = (step: number, work: string) =>
      traceEvents.find(({ name, args }) => name === work && args.step === step)!;
    for (let step = 1; step < 8; step++) {
      const [next, wait] = [bar(step + 1, "dispatch"), bar(step, "wait")];
      expect(next.ts + next.dur, `step ${step + 1}`).toBeLessThanOrEqual(wait.ts);
    }
  });

  it("is not written where it is not asked for", async () => {
    const input = tinyRun(temporaryFolder(), tinyPlan({ steps: 2 }));
    await runTraining(input);
    expect(existsSync(input.folder.trace)).toBe(false);
  });
});
