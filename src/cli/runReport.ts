/** What a finished run says at its end: the numbers, the chart in the terminal and as a file. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { reasonOf } from "../base/systemReason.ts";
import { readEvents, svgChart, terminalAbilities, terminalChart } from "../metrics/index.ts";
import { lossChart, shownRun } from "../train/summary.ts";

export interface ChartedRun {
  readonly name: string;
  readonly events: string;
}

/** Draws the losses of runs into `folder`/loss.svg and returns the same for the terminal. */
export function drawLosses(runs: readonly ChartedRun[], folder: string, stream: NodeJS.WriteStream): string {
  const read = runs.map(({ name, events }) => shownRun(name, readEvents(events).events));
  const chart = lossChart(read, "Loss (nats per token)");
  const file = join(folder, "loss.svg");
  let where = file;
  try {
    writeFileSync(file, svgChart(chart));
  } catch (error) {
    where = `${file} can't be written (${reasonOf(error)})`;
  }
  return `${terminalChart(chart, { ...terminalAbilities(stream), height: 18 })}${where}\n`;
}
