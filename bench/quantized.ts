/**
 * What quantized training costs: the step of each recipe over the BF16 step of the same program. Halfbyte's recipes over
 * Halfbyte's BF16, and PyTorch's emulated layers over PyTorch's compiled BF16, on the same weights and tokens, in one run.
 *
 * A recipe alternates with its BF16 step, so that both meet the same machine; only these two processes live at a time.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { UserError } from "../src/base/errors.ts";
import { parseArguments } from "../src/cli/arguments.ts";
import { textTable } from "../src/metrics/index.ts";
import { type BarChart, svgBars, terminalBars } from "./barChart.ts";
import {
  checkPeerName,
  lastSteps,
  lossDifference,
  median,
  type Peer,
  runBenchmark,
  spread,
  startPeer,
  torchQuantizations,
} from "./peer.ts";
import { workloadByName, writeWorkloadFiles } from "./workload.ts";

/** Halfbyte's recipes that are measured when no peers are named. */
const ownRecipes = [
  "nvfp4:all_linear",
  "nvfp4:mlp_only",
  "mxfp4",
  "mxfp8",
  "fp8_current_scaling",
  "fp8_delayed_scaling",
  "fp8_block_scaling",
] as const;

/** The BF16 step that a peer's name is measured against. */
const baseOf = (peer: string): string => (peer.startsWith("torch") ? "torch" : "halfbyte-bf16");

const help = `What quantized training costs: each recipe's step over the BF16 step of the same program.

    npm run bench:quantized -- [workload=L8] [rounds=3] [steps=1] [peers=halfbyte-mxfp8,torch-torchao-mxfp8,…] [svg=FILE] [--json]

Each peer alternates with its BF16 step (halfbyte-bf16 or torch) for rounds × steps; only these two are alive at a time.
Without peers: ${ownRecipes.map((name) => `halfbyte-${name}`).join(", ")},
${torchQuantizations.map((name) => `torch-${name}`).join(", ")}.
svg=FILE also writes the bars as an SVG file.

Example:
    npm run bench:quantized -- workload=tiny rounds=2 svg=cost.svg

\`bash bench/peers/setup.sh\` installs the Python peers first. Run it on a machine that does nothing else.
`;

interface Row {
  readonly peer: string;
  readonly base: string;
  readonly compileSeconds: number;
  readonly medianSeconds: number;
  readonly spread: number;
  /** The BF16 steps that alternated with this peer's. */
  readonly baseMedianSeconds: number;
  readonly baseSpread: number;
  /** Its median step over the BF16 step's. */
  readonly ratio: number;
  readonly lossDifference: number;
  readonly losses: readonly (number | null)[];
}

interface Skipped {
  readonly peer: string;
  readonly reason: string;
}

async function main(args: readonly string[]): Promise<void> {
  const { settings, flags } = parseArguments(args, { keys: ["workload", "rounds", "steps", "peers", "svg"] });
  if (flags.has("help")) {
    process.stdout.write(help);
    return;
  }
  const workloadName = settings.workload ?? "L8";
  const workload = workloadByName(workloadName);
  const rounds = countOf("rounds", settings.rounds ?? "3");
  const steps = countOf("steps", settings.steps ?? "1");
  const all = [...ownRecipes.map((name) => `halfbyte-${name}`), ...torchQuantizations.map((name) => `torch-${name}`)];
  const names = settings.peers?.split(",") ?? all;
  names.forEach(checkPeerName);

  const folder = await mkdtemp(join(tmpdir(), "halfbyte-bench-"));
  try {
    const files = await writeWorkloadFiles(folder, workload, 4);
    const start = (name: string) => startPeer(name, workloadName, files);
    const [rows, skipped]: [Row[], Skipped[]] = [[], []];
    for (const base of new Set(names.map(baseOf))) {
      const others = names.filter((name) => baseOf(name) === base && name !== base);
      for (const result of await measureFamily(start, base, others, { rounds, steps })) {
        if ("ratio" in result) rows.push(result);
        else skipped.push(result);
      }
    }
    const chart = chartOf(rows, workloadName);
    if (settings.svg !== undefined) await writeFile(settings.svg, svgBars(chart));
    if (flags.has("json")) process.stdout.write(`${JSON.stringify({ workload, rounds, steps, rows, skipped })}\n`);
    else process.stdout.write(reportText(rows, skipped, chart));
    if (skipped.length > 0) process.exitCode = 1;
  } finally {
    await rm(folder, { recursive: true });
  }
}

function countOf(key: string, text: string): number {
  const count = Number(text);
  if (Number.isInteger(count) && count > 0) return count;
  throw new UserError("E_BENCH", `${key}=${text}: must be a whole number above 0`);
}

/** Measures each of `others` in alternation with the base, which stays alive. A peer that ends is skipped, with its reason. */
async function measureFamily(
  start: (name: string) => Peer,
  baseName: string,
  others: readonly string[],
  { rounds, steps }: { readonly rounds: number; readonly steps: number },
): Promise<(Row | Skipped)[]> {
  const results: (Row | Skipped)[] = [];
  const base = await startReady(start, baseName);
  try {
    for (const name of others) {
      let peer: Peer | undefined;
      try {
        peer = await startReady(start, name);
        await base.reset();
        for (let round = 1; round <= rounds; round++) {
          for (const each of [base, peer]) await each.run(steps);
          const times = [base, peer].map((each) => `${each.name} ${lastSteps(each, steps)}`);
          process.stderr.write(`round ${round}/${rounds}: ${times.join(", ")}\n`);
        }
        results.push(rowOf(peer, base));
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        process.stderr.write(`${name}: skipped: ${reason}\n`);
        results.push({ peer: name, reason });
      } finally {
        peer?.stop();
      }
    }
  } finally {
    base.stop();
  }
  return results;
}

async function startReady(start: (name: string) => Peer, name: string): Promise<Peer> {
  const peer = start(name);
  process.stderr.write(`${peer.name}: compiling …\n`);
  try {
    await peer.ready();
    return peer;
  } catch (error) {
    peer.stop();
    throw error;
  }
}

function rowOf(peer: Peer, base: Peer): Row {
  if (peer.losses.some((loss) => loss === null)) throw new Error(`${peer.name}: a loss is not finite`);
  const [medianSeconds, baseMedianSeconds] = [median(peer.seconds), median(base.seconds)];
  return {
    peer: peer.name,
    base: base.name,
    compileSeconds: peer.compileSeconds,
    medianSeconds,
    spread: spread(peer.seconds),
    baseMedianSeconds,
    baseSpread: spread(base.seconds),
    ratio: medianSeconds / baseMedianSeconds,
    lossDifference: lossDifference(peer.losses, base.losses),
    losses: [...peer.losses],
  };
}

function chartOf(rows: readonly Row[], workloadName: string): BarChart {
  const bases = [...new Set(rows.map(({ base }) => base))];
  return {
    title: `Step of each recipe over the BF16 step of the same program, workload ${workloadName}`,
    label: (value) => `${value.toFixed(2)} ×`,
    bars: rows.map(({ peer, base, ratio }) => ({ name: peer, value: ratio, group: bases.indexOf(base) })),
  };
}

function reportText(rows: readonly Row[], skipped: readonly Skipped[], chart: BarChart): string {
  const share = (value: number) => `${(100 * value).toFixed(0)} %`;
  const head = ["peer", "median s", "spread", "BF16 s", "spread", "over BF16", "loss differs", "compile s"];
  const cells = rows.map((row) => [
    row.peer,
    row.medianSeconds.toFixed(3),
    share(row.spread),
    row.baseMedianSeconds.toFixed(3),
    share(row.baseSpread),
    `${row.ratio.toFixed(2)} ×`,
    `${(100 * row.lossDifference).toFixed(2)} %`,
    row.compileSeconds.toFixed(1),
  ]);
  const missing = skipped.map(({ peer, reason }) => `skipped ${peer}: ${reason}\n`).join("");
  const measured = rows.length === 0 ? "" : `${textTable([head, ...cells])}\n${terminalBars(chart)}`;
  return measured + missing;
}

runBenchmark(main);
