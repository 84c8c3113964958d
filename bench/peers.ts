/**
 * Halfbyte, PyTorch and JAX on the same weights, tokens and optimizer, side by side in one run: a claim of speed is a ratio of this
 * table.
 */
import { cpus } from "node:os";
import { UserError } from "../src/base/errors.ts";
import { parseArguments } from "../src/cli/arguments.ts";
import { measureFamily, type Schedule } from "./alternate.ts";
import { svgBars } from "./barChart.ts";
import { countOf, prepareOutputFile, runBenchmark, writeOutputFile } from "./command.ts";
import { setUpPython, startPeer } from "./peer.ts";
import { defaultPeers, type PeerChoice, peerByName } from "./peerNames.ts";
import {
  bestPeer,
  failuresOf,
  lossTolerance,
  type Result,
  reportText,
  shareOfPeak,
  speedChart,
} from "./peersReport.ts";
import { allWorkloads, type Workload, withWorkloadFiles, workloadByName } from "./workload.ts";

const help = `Halfbyte, PyTorch and JAX side by side: the step of a workload, on the same weights, tokens and optimizer.

    npm run bench:peers -- [workloads=L8] [rounds=3] [steps=3] [peers=…] [svg=FILE] [out=FILE] [--json]

workloads  names with commas between, or all: ${allWorkloads.join(", ")}
           (-fp32: true FP32; -eval: forward pass and loss alone; -tied: the embedding is the head)
peers      the first is the one the others are compared with; each other alternates with it for rounds × steps, and only these two
           are alive at a time. Without it: halfbyte, halfbyte-nvfp4:mlp_only where BF16 is trained, torch-eager, torch-compile, jax.
           halfbyte[-RECIPE[:POLICY]][@native|@plain]   with native kernels, or without; else as HALFBYTE_NATIVE_KERNELS says
           torch-eager, torch-compile[:SETTING+SETTING] softmax, sdpa, rows, blocks, max-autotune and an allocator
           jax[:SETTING+SETTING]                        einsum, library, unrolled, scan, compute, wide and an allocator
           allocators: system, glibc, jemalloc, tcmalloc; bench/peers/README.md says what each means
svg, out   write the bars as an SVG file, the results as JSON

It ends with 1 where losses differ by more than ${100 * lossTolerance} % or a peer could not run. The first use installs PyTorch and JAX.
Run it on a machine that does nothing else.

Example:
    npm run bench:peers -- workloads=L8,W rounds=5 svg=speed.svg
`;

async function main(args: readonly string[]): Promise<void> {
  const keys = ["workloads", "rounds", "steps", "peers", "svg", "out"];
  const { settings, flags } = parseArguments(args, { keys });
  if (flags.has("help")) {
    process.stdout.write(help);
    return;
  }
  const { workloads: names = "L8", svg, out } = settings;
  const schedule = {
    rounds: countOf("rounds", settings.rounds ?? "3"),
    steps: countOf("steps", settings.steps ?? "3"),
  };
  const plans = (names === "all" ? allWorkloads : names.split(",")).map((name) => {
    const workload = workloadByName(name);
    return { workload, peers: choicesOf(settings.peers?.split(",") ?? defaultPeers(workload), workload) };
  });
  prepareOutputFile("svg", svg);
  prepareOutputFile("out", out);
  setUpPython(plans.flatMap(({ peers }) => peers));

  const results: Result[] = [];
  const failures: string[] = [];
  for (const { workload, peers } of plans) {
    try {
      const result = await measure(workload, peers, schedule);
      results.push(result);
      failures.push(...failuresOf(result, peers));
    } catch (error) {
      failures.push(`${workload.name}: ${error instanceof Error ? error.message : error}`);
    }
    process.stderr.write(`${workload.name}: done\n`);
  }
  const json = () => `${JSON.stringify(record(results, schedule, failures))}\n`;
  process.stdout.write(flags.has("json") ? json() : results.length > 0 ? reportText(results) : "");
  writeOutputFile(out, json);
  writeOutputFile(svg, () => svgBars(speedChart(results)));
  for (const failure of failures) process.stderr.write(`${failure}\n`);
  if (failures.length > 0) process.exitCode = 1;
}

/** @throws UserError for an unknown name, or one given twice */
function choicesOf(names: readonly string[], workload: Workload): PeerChoice[] {
  const choices = names.map((name) => peerByName(name, workload));
  const twice = choices.find(({ name }, i) => choices.findIndex((other) => other.name === name) < i);
  if (twice) throw new UserError("E_BENCH", `peers: ${twice.name} stands there twice`);
  return choices;
}

async function measure(
  workload: Workload,
  [base, ...others]: readonly PeerChoice[],
  schedule: Schedule,
): Promise<Result> {
  process.stderr.write(`${workload.name}: drawing weights …\n`);
  const family = await withWorkloadFiles(workload, (files) =>
    measureFamily((choice) => startPeer(choice, workload, files), base!, others, schedule),
  );
  return { workload, family };
}

function record(results: readonly Result[], schedule: Schedule, failures: readonly string[]): object {
  return {
    machine: { cpu: cpus()[0]?.model, cores: cpus().length, node: process.version },
    ...schedule,
    workloads: results.map((result) => {
      const { workload, family } = result;
      const best = bestPeer(family);
      return {
        workload,
        tokensPerSecond: (workload.batch * workload.seq) / family.base.medianSeconds,
        shareOfBf16Peak: shareOfPeak(result, family.base),
        best: best && { peer: best.peer, ratio: best.ratio, ratioRange: best.ratioRange },
        ...family,
      };
    }),
    failures,
  };
}

runBenchmark(main);
