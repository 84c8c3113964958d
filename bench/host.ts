/** What surrounds the training step: start-up, the host between steps, data, checkpoints; each against its target. */
import { loadavg } from "node:os";
import { UserError } from "../src/base/errors.ts";
import { parseArguments } from "../src/cli/arguments.ts";
import { countOf, runBenchmark } from "./command.ts";
import { type DataRate, measureData } from "./hostData.ts";
import { type DiskRates, measureDisk } from "./hostDisk.ts";
import { leastSteps, measureRun, type RunCosts } from "./hostRun.ts";
import { workloadByName } from "./workload.ts";

const help = `What surrounds the training step, each figure with its target:

    npm run bench:host -- [workload=L8] [steps=8] [rounds=3] [--json]

  start-up     a run's command to its first completed step, the compile cache warm as it is
  host         time that the device waits for the host between steps; work of the host for a step
  data         encoding, packing and cutting text, in tokens a second of process CPU time, against the training rate
  checkpoint   what training waits for; bytes a second against plain files of the same sizes, written and synced

steps=… are the run's (at least ${leastSteps}), a checkpoint in their middle. rounds=… are of the checkpoint and the plain files, alternating, the best
counts. Figures of a machine that does other work are too high: the command prints its load.

Example:
    npm run bench:host -- workload=tiny steps=40
`;

interface Figure {
  readonly name: string;
  readonly value: string;
  /** What it should be. Absent: it has no target. */
  readonly target?: string;
  readonly met?: boolean;
}

async function main(args: readonly string[]): Promise<void> {
  const { settings, flags } = parseArguments(args, { keys: ["workload", "steps", "rounds"] });
  if (flags.has("help")) {
    process.stdout.write(help);
    return;
  }
  const workload = workloadByName(settings.workload ?? "L8");
  const steps = countOf("steps", settings.steps ?? "8");
  if (steps < leastSteps) {
    throw new UserError(
      "E_BENCH",
      `steps=${steps}: must be at least ${leastSteps}, so that a step after a traced one is timed`,
    );
  }
  const rounds = countOf("rounds", settings.rounds ?? "3");
  const load = loadavg()[0]!;
  const run = await measureRun(workload, steps);
  const data = await measureData(workload);
  const disk = await measureDisk(workload, rounds);
  if (flags.has("json")) {
    process.stdout.write(`${JSON.stringify({ workload: workload.name, load, run, data, disk })}\n`);
    return;
  }
  const figures = [...runFigures(run), ...data.map((rate) => dataFigure(rate, run)), ...diskFigures(disk)];
  const width = Math.max(...figures.map(({ name }) => name.length));
  process.stdout.write(`${workload.name}; load ${load.toFixed(1)}\n\n`);
  for (const { name, value, target, met } of figures) {
    const verdict = target === undefined ? "" : `${met ? "met" : "NOT met"}: ${target}`;
    process.stdout.write(`${name.padEnd(width)}  ${value.padStart(24)}  ${verdict}\n`);
  }
}

const seconds = (value: number) => `${value.toFixed(2)} s`;
const ms = (value: number) => `${value.toFixed(2)} ms`;
const percent = (value: number) => `${(100 * value).toFixed(1)} %`;
const gigabytes = (value: number) => `${(value / 1e9).toFixed(2)} GB/s`;

function runFigures({ startUp, host, checkpoint }: RunCosts): Figure[] {
  const step = host.step / 1000;
  const idle = host.deviceIdle / host.step;
  const blocked = checkpoint.blocked / step;
  return [
    { name: "start: Node, configuration, data, plugin", value: seconds(startUp.ready) },
    { name: "start: compiled, state made", value: seconds(startUp.compiled - startUp.ready) },
    { name: "start: first step", value: seconds(startUp.firstStep - startUp.compiled) },
    { name: "start-up", value: seconds(startUp.firstStep), target: "at most 6 s", met: startUp.firstStep <= 6 },
    { name: "host: a step", value: ms(host.step) },
    { name: "host: work for a step", value: `${ms(host.work)}, ${percent(host.work / host.step)}` },
    {
      name: "host: device waits between steps",
      value: `${ms(host.deviceIdle)}, ${percent(idle)}`,
      ...{ target: "at most 2 % of a step", met: idle <= 0.02 },
    },
    { name: "host: steps handed over ahead", value: `${host.fed} of ${host.steps}` },
    {
      name: "checkpoint: training waits",
      value: `${ms(1000 * checkpoint.blocked)}, ${percent(blocked)}`,
      ...{ target: "at most 10 % of a step", met: blocked <= 0.1 },
    },
    { name: "checkpoint: on disk beside training", value: seconds(checkpoint.seconds) },
  ];
}

function dataFigure({ what, tokensPerSecond, megabytesPerSecond }: DataRate, run: RunCosts): Figure {
  const times = tokensPerSecond / run.tokensPerSecond;
  const read = megabytesPerSecond === undefined ? "" : `${megabytesPerSecond.toFixed(1)} MB/s, `;
  return {
    name: `data: ${what}`,
    value: `${read}${(tokensPerSecond / 1e6).toFixed(2)} M tokens/s`,
    ...{ target: `20 × the training rate; it is ${times.toFixed(0)} ×`, met: times >= 20 },
  };
}

function diskFigures({ bytes, disk, checkpoint }: DiskRates): Figure[] {
  const share = checkpoint / disk;
  return [
    { name: "disk: plain files", value: gigabytes(disk) },
    {
      name: `checkpoint: ${(bytes / 1e6).toFixed(0)} MB, hashed`,
      value: gigabytes(checkpoint),
      ...{ target: `70 % of the disk's rate; it is ${percent(share)}`, met: share >= 0.7 },
    },
  ];
}

runBenchmark(main);
