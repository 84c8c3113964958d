/** The tables and bars of `npm run bench:peers`. */
import { flopsPerToken, textTable } from "../src/metrics/index.ts";
import type { Family, Row } from "./alternate.ts";
import { type BarChart, terminalBars } from "./barChart.ts";
import { isUnquantized, type PeerChoice } from "./peerNames.ts";
import { configOf, type Workload } from "./workload.ts";

/** What was measured of a workload. */
export interface Result {
  readonly workload: Workload;
  readonly family: Family;
}

/** Losses of peers that compute in the same precision agree within this, relative. */
export const lossTolerance = 0.01;

/** Model FLOP/s of the workload's step as a share of the measured BF16 matrix peak; undefined in FP32, which has another. */
export function shareOfPeak({ workload, family }: Result, { medianSeconds }: Row): number | undefined {
  const peak = family.base.ready.peakFlopsPerSecond;
  if (peak === undefined || workload.dtype !== "bfloat16") return undefined;
  // Forward is one of three products of each weight.
  const perToken = flopsPerToken(configOf(workload), workload.seq) / (workload.forward ? 3 : 1);
  return (perToken * workload.batch * workload.seq) / medianSeconds / peak;
}

export const isPythonPeer = ({ peer }: Row): boolean => !peer.startsWith("halfbyte");

/** The fastest of the peers that are not Halfbyte. */
export function bestPeer({ rows }: Family): Row | undefined {
  return rows.filter(isPythonPeer).sort((a, b) => a.ratio - b.ratio)[0];
}

/** Peers that ended, and those that computed something else. */
export function failuresOf({ workload: { name }, family }: Result, choices: readonly PeerChoice[]): string[] {
  const [base] = choices;
  const compared = choices
    .filter((choice) => isUnquantized(choice) && isUnquantized(base!))
    .map((choice) => choice.name);
  return [
    ...family.skipped.map(({ peer, reason }) => `${name}: ${peer} could not be measured: ${reason}`),
    ...family.rows
      .filter(({ peer, lossDifference }) => compared.includes(peer) && !(lossDifference <= lossTolerance))
      .map(({ peer, lossDifference }) => {
        const percent = (100 * lossDifference).toFixed(2);
        return `${name}: losses of ${peer} differ by ${percent} % from those of ${family.base.peer}; at most ${100 * lossTolerance} % may`;
      }),
  ];
}

const times = (value: number) => `${value.toFixed(2)} ×`;
const percent = (value: number, digits = 0) => `${(100 * value).toFixed(digits)} %`;
const seconds = (value: number) => value.toFixed(value < 0.1 ? 4 : 3);

/** The table of one workload: each peer, the base's time in the same rounds, and how many times as fast the base is. */
export function workloadTable(result: Result): string {
  const { workload, family } = result;
  const tokens = workload.batch * workload.seq;
  const base = shortName(family.base.peer);
  const head = ["peer", "median s", "spread", "tokens/s", "BF16 peak", `${base} s`];
  const cells = [family.base, ...family.rows].map((row) => {
    const isBase = row === family.base;
    const share = shareOfPeak(result, row);
    return [
      row.peer,
      seconds(row.medianSeconds),
      percent(row.spread),
      (tokens / row.medianSeconds).toFixed(0),
      share === undefined ? "–" : percent(share),
      isBase ? "" : seconds(row.base.medianSeconds),
      isBase ? "" : times(row.ratio),
      isBase ? "" : row.ratioRange.map((ratio) => ratio.toFixed(2)).join("–"),
      isBase ? "" : percent(row.lossDifference, 2),
      row.ready.compileSeconds.toFixed(1),
    ];
  });
  const skipped = family.skipped.map(({ peer, reason }) => `skipped ${peer}: ${reason}\n`).join("");
  const table = textTable([[...head, `${base} is`, "by round", "loss differs", "compile s"], ...cells]);
  return `${describe(workload)}\n\n${table}${skipped}${settingsText([family.base, ...family.rows])}`;
}

const shortName = (peer: string): string => (peer.startsWith("halfbyte") ? "Halfbyte" : peer);

function describe(w: Workload): string {
  const model = `${w.layers} layers, hidden ${w.hidden}, ${w.heads} heads / ${w.kv} kv, FFN ${w.ffn}, vocabulary ${w.vocab}`;
  const variant = [w.dtype === "float32" ? "FP32" : "BF16", ...(w.tied ? ["tied head"] : [])].join(", ");
  const what = w.forward ? "forward pass and loss" : "training step";
  return `Workload ${w.name}: ${what}, ${model}, ${variant}, batch ${w.batch} × ${w.seq} tokens`;
}

/** A line a peer: versions and settings. */
function settingsText(rows: readonly Row[]): string {
  const pairs = (of: object) => Object.entries(of).filter(([key, value]) => !hidden.has(key) && value);
  const line = ({ peer, ready: { versions, settings } }: Row) =>
    `${peer}: ${[...pairs(versions), ...pairs(settings)].map(([key, value]) => `${key} ${value}`).join(", ")}\n`;
  return `\n${rows.map(line).join("")}`;
}

/** Of the settings: what the name of the allocator says already. */
const hidden = new Set(["glibcTunables", "preload", "python", "numpy"]);

/** A row a workload: the best peer, and how fast Halfbyte is beside it. */
export function summaryTable(results: readonly Result[]): string {
  const head = ["workload", "Halfbyte tokens/s", "BF16 peak", "best peer", "Halfbyte is", "by round"];
  const cells = results.map((result) => {
    const { workload, family } = result;
    const best = bestPeer(family);
    const share = shareOfPeak(result, family.base);
    return [
      workload.name,
      ((workload.batch * workload.seq) / family.base.medianSeconds).toFixed(0),
      share === undefined ? "–" : percent(share),
      best?.peer ?? "–",
      best ? times(best.ratio) : "–",
      best ? best.ratioRange.map((ratio) => ratio.toFixed(2)).join("–") : "–",
    ];
  });
  return textTable([head, ...cells]);
}

/** Speeds as bars, the base's being 1. */
export function speedChart(results: readonly Result[]): BarChart {
  const bars = results.flatMap(({ workload, family }, index) =>
    [family.base, ...family.rows].map(({ peer, ratio }) => ({
      name: results.length > 1 ? `${workload.name} ${peer}` : peer,
      value: 1 / ratio,
      group: results.length > 1 ? index : peer.startsWith("halfbyte") ? 0 : 1,
    })),
  );
  const base = new Set(results.map(({ family }) => family.base.peer));
  const names = results.map(({ workload }) => workload.name).join(", ");
  return { title: `Speed beside ${[...base].join(" and ")}: ${names}`, label: times, bars };
}

/** All that was measured, for a terminal. */
export function reportText(results: readonly Result[]): string {
  const summary = results.length > 1 ? `${summaryTable(results)}\n` : "";
  const tables = results.map((result) => `${workloadTable(result)}\n`).join("");
  return `${tables}${summary}${terminalBars(speedChart(results))}`;
}
