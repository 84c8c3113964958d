/**
 * What quantized training costs: the step of each recipe over the BF16 step of the same program. Halfbyte's recipes over
 * Halfbyte's BF16, and PyTorch's emulated layers over PyTorch's compiled BF16, on the same weights and tokens, in one run.
 *
 * A recipe alternates with its BF16 step, so that both meet the same machine; only these two processes live at a time.
 */
import { parseArguments } from "../src/cli/arguments.ts";
import { textTable } from "../src/metrics/index.ts";
import { measureFamily, type Row, type Skipped } from "./alternate.ts";
import { type BarChart, svgBars, terminalBars } from "./barChart.ts";
import { countOf, prepareOutputFile, runBenchmark, writeOutputFile } from "./command.ts";
import { setUpPython, startPeer } from "./peer.ts";
import { peerByName, torchQuantizations } from "./peerNames.ts";
import { withWorkloadFiles, workloadByName } from "./workload.ts";

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
const baseOf = (peer: string): string => (peer.startsWith("torch") ? "torch-compile" : "halfbyte-bf16");

const help = `What quantized training costs: each recipe's step over the BF16 step of the same program.

    npm run bench:quantized -- [workload=L8] [rounds=3] [steps=1] [peers=halfbyte-mxfp8,torch-torchao-mxfp8,…] [svg=FILE] [--json]

Each peer alternates with its BF16 step (halfbyte-bf16 or torch-compile) for rounds × steps; only these two are alive at a time.
Without peers: ${ownRecipes.map((name) => `halfbyte-${name}`).join(", ")},
${torchQuantizations.map((name) => `torch-${name}`).join(", ")}.
svg=FILE also writes the bars as an SVG file.

Example:
    npm run bench:quantized -- workload=tiny rounds=2 svg=cost.svg

\`bash bench/peers/setup.sh\` installs the Python peers first. Run it on a machine that does nothing else.
`;

async function main(args: readonly string[]): Promise<void> {
  const { settings, flags } = parseArguments(args, { keys: ["workload", "rounds", "steps", "peers", "svg"] });
  if (flags.has("help")) {
    process.stdout.write(help);
    return;
  }
  const workload = workloadByName(settings.workload ?? "L8");
  const schedule = {
    rounds: countOf("rounds", settings.rounds ?? "3"),
    steps: countOf("steps", settings.steps ?? "1"),
  };
  const all = [...ownRecipes.map((name) => `halfbyte-${name}`), ...torchQuantizations.map((name) => `torch-${name}`)];
  const names = settings.peers?.split(",") ?? all;
  const choices = names.map((name) => peerByName(name, workload));
  prepareOutputFile("svg", settings.svg);
  setUpPython(choices);

  const measured = await withWorkloadFiles(workload, async (files) => {
    const [rows, skipped]: [Row[], Skipped[]] = [[], []];
    for (const base of new Set(names.map(baseOf))) {
      const others = choices.filter(({ name }) => baseOf(name) === base && name !== base);
      const start = (choice: (typeof choices)[number]) => startPeer(choice, workload, files);
      const family = await measureFamily(start, peerByName(base, workload), others, schedule);
      rows.push(...family.rows);
      skipped.push(...family.skipped);
    }
    return { rows, skipped };
  });
  const { rows, skipped } = measured;
  const chart = chartOf(rows, workload.name);
  if (flags.has("json")) process.stdout.write(`${JSON.stringify({ workload, ...schedule, ...measured })}\n`);
  else process.stdout.write(reportText(rows, skipped, chart));
  writeOutputFile(settings.svg, () => svgBars(chart));
  if (skipped.length > 0) process.exitCode = 1;
}

function chartOf(rows: readonly Row[], workloadName: string): BarChart {
  const bases = [...new Set(rows.map(({ base }) => base.peer))];
  return {
    title: `Step of each recipe over the BF16 step of the same program, workload ${workloadName}`,
    label: (value) => `${value.toFixed(2)} ×`,
    bars: rows.map(({ peer, base, ratio }) => ({ name: peer, value: ratio, group: bases.indexOf(base.peer) })),
  };
}

function reportText(rows: readonly Row[], skipped: readonly Skipped[], chart: BarChart): string {
  const share = (value: number) => `${(100 * value).toFixed(0)} %`;
  const head = ["peer", "median s", "spread", "BF16 s", "spread", "over BF16", "loss differs", "compile s"];
  const cells = rows.map((row) => [
    row.peer,
    row.medianSeconds.toFixed(3),
    share(row.spread),
    row.base.medianSeconds.toFixed(3),
    share(row.base.spread),
    `${row.ratio.toFixed(2)} ×`,
    `${(100 * row.lossDifference).toFixed(2)} %`,
    row.ready.compileSeconds.toFixed(1),
  ]);
  const missing = skipped.map(({ peer, reason }) => `skipped ${peer}: ${reason}\n`).join("");
  const measured = rows.length === 0 ? "" : `${textTable([head, ...cells])}\n${terminalBars(chart)}`;
  return measured + missing;
}

runBenchmark(main);
