/**
 * One point of a cost curve, in a process of its own: a training step compiled and run. Usage: tsx bench/curvePoint.ts REQUEST
 * (JSON); prints a `PointCost` as JSON.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { disposeTree, jit, putTree } from "../src/jit/index.ts";
import { type StepChoice, trainingStep } from "./trainingStep.ts";
import type { Sizes } from "./workload.ts";

export interface PointRequest extends StepChoice {
  readonly sizes: Sizes;
  /** Timed steps, 0 for none. */
  readonly steps: number;
  /** Measure how far the process grows in a step; its allocator should give freed memory back. */
  readonly memory: boolean;
}

export interface PointCost {
  readonly compileSeconds: number;
  /** Process CPU time of all threads. */
  readonly compileCpuSeconds: number;
  /** What XLA says that a run allocates: temporaries, and results that take no argument's place. */
  readonly plannedBytes: number;
  /** Of the best of several steps after one that is not timed. */
  readonly seconds?: number;
  /** The least process CPU time of a step, all threads. */
  readonly cpuSeconds?: number;
  readonly loss?: number;
  /** How far resident memory peaks in a step above what it was before. */
  readonly grownBytes?: number;
}

const cpuSecondsSince = (start: NodeJS.CpuUsage): number => {
  const { user, system } = process.cpuUsage(start);
  return (user + system) / 1e6;
};

async function measurePoint(request: PointRequest): Promise<PointCost> {
  const { train, state: start, batch, scalars } = trainingStep(request.sizes, request);
  const step = jit(train, { donate: [0], name: "train_step" });

  let state = await putTree(start);
  const [started, cpu] = [performance.now(), process.cpuUsage()];
  const executable = await step.compile(state, batch, scalars(1));
  const compileSeconds = (performance.now() - started) / 1000;
  const compileCpuSeconds = cpuSecondsSince(cpu);
  const { temporaryBytes, outputBytes, aliasBytes } = executable.memoryStats();
  const cost = { compileSeconds, compileCpuSeconds, plannedBytes: temporaryBytes + outputBytes - aliasBytes };

  let count = 0;
  const runStep = async (): Promise<number> => {
    const result = await step(state as never, batch as never, scalars(++count));
    const loss = (await result.metrics.loss.toHost()).data[0] as number;
    state = result.state as never;
    disposeTree(result.metrics);
    return loss;
  };
  if (request.steps > 0 || request.memory) await runStep();
  const grownBytes = request.memory ? await growthOf(runStep) : undefined;
  const timed = { seconds: Number.POSITIVE_INFINITY, cpuSeconds: Number.POSITIVE_INFINITY, loss: Number.NaN };
  for (let i = 0; i < request.steps; i++) {
    const [wall, used] = [performance.now(), process.cpuUsage()];
    timed.loss = await runStep();
    timed.seconds = Math.min(timed.seconds, (performance.now() - wall) / 1000);
    timed.cpuSeconds = Math.min(timed.cpuSeconds, cpuSecondsSince(used));
  }
  return { ...cost, ...(request.steps > 0 && timed), ...(grownBytes !== undefined && { grownBytes }) };
}

/** Linux alone tells and resets a process's peak. */
async function growthOf(run: () => Promise<unknown>): Promise<number> {
  const resident = (key: string): number => {
    const [, kilobytes] =
      new RegExp(`^${key}:\\s+(\\d+) kB`, "m").exec(readFileSync("/proc/self/status", "utf8")) ?? [];
    return 1024 * Number(kilobytes);
  };
  // The step before gives its memory back a moment after its result is there.
  await setTimeout(500);
  const before = resident("VmRSS");
  writeFileSync("/proc/self/clear_refs", "5");
  await run();
  return resident("VmHWM") - before;
}

const cost = await measurePoint(JSON.parse(process.argv[2]!) as PointRequest);
process.stdout.write(`${JSON.stringify(cost)}\n`, () => process.exit(0));
