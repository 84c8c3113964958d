/** `halfbyte report losses`: the losses of runs over their steps, of each source too, from their events. */
import { writeFileSync } from "node:fs";
import { UserError } from "../base/errors.ts";
import { writing } from "../checkpoint/index.ts";
import {
  compareRuns,
  latestByStep,
  notFiniteAsText,
  readEvents,
  svgChart,
  terminalAbilities,
  terminalChart,
} from "../metrics/index.ts";
import { newestSourceNames } from "../train/sourceNames.ts";
import { lossChart, type RunEvents, shownRun, trainingLosses } from "../train/summary.ts";
import { parseArguments } from "./arguments.ts";
import type { Command } from "./command.ts";
import { eventsFile } from "./eventsFile.ts";
import { runLabels } from "./runLabels.ts";

export const command: Command = {
  help: `Usage: halfbyte report losses RUN [RUN …] [svg=FILE] [--json]

Draws the losses of runs over their steps, also of a run that is still going: training smoothed, validation as dots, and of a run on a
mixture the training loss of each source. Below are the last ones as a table.

  RUN        folder of a run: base_output_directory/run_name
  svg=FILE   writes the chart as an SVG file
  --json     every step's and validation's losses as JSON on standard output

Example: halfbyte report losses runs/books-bf16 runs/books-nvfp4 svg=losses.svg
`,
  async run(args) {
    const { words, flags, settings } = parseArguments(args, {
      keys: ["svg"],
      maxWords: Number.POSITIVE_INFINITY,
    });
    if (words.length === 0) {
      throw new UserError(
        "E_ARGUMENT",
        "the run's folder is missing: halfbyte report losses base_output_directory/run_name",
      );
    }
    const labels = runLabels(words);
    const runs = words.map((path, i) => eventsOf(path, labels[i]!));
    const chart = lossChart(runs, "Loss (nats per token)");
    const { svg } = settings;
    if (svg !== undefined) writing(svg, () => writeFileSync(svg, svgChart(chart)));
    const text = flags.has("json")
      ? `${JSON.stringify(runs.map(lossesOf), notFiniteAsText, 2)}\n`
      : [
          terminalChart(chart, { ...terminalAbilities(process.stdout), height: 18 }),
          compareRuns(runs.map(summaryOf)),
          ...(svg === undefined ? [] : [`the chart is in ${svg}\n`]),
        ].join("\n");
    await new Promise((done) => process.stdout.write(text, done));
    return 0;
  },
};

/** @throws UserError where there is no run, or no step of it is done */
function eventsOf(path: string, label: string): RunEvents {
  const { events } = readEvents(eventsFile(path));
  if (!events.some(({ type }) => type === "step")) throw new UserError("E_RUN", `${path}: no step is done yet`);
  return shownRun(label, events);
}

function lossesOf({ name, events }: RunEvents) {
  return {
    name,
    training: latestByStep(events, "step").map(({ step, loss, validTokens, sources }) => ({
      ...{ step, loss, validTokens },
      ...(sources && { sources }),
    })),
    validation: latestByStep(events, "eval").map(({ step, loss, validTokens, bitsPerByte, sources }) => ({
      ...{ step, loss, validTokens, bitsPerByte },
      ...(sources && { sources }),
    })),
  };
}

/** As a finished run's summary, of what there is so far. */
function summaryOf({ name, events }: RunEvents) {
  const validation = latestByStep(events, "eval").at(-1);
  return {
    name,
    ...trainingLosses(latestByStep(events, "step"), newestSourceNames(events).training),
    ...(validation && { validationLoss: validation.loss, bitsPerByte: validation.bitsPerByte }),
  };
}
