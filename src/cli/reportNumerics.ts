/** `halfbyte report numerics`: what quantization did to a run's tensors, from its events. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { UserError } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";
import { reasonOf } from "../base/systemReason.ts";
import {
  allTensors,
  latestByStep,
  type NumericsRecord,
  type NumericsView,
  notFiniteAsText,
  numericsHeatMap,
  numericsOverTime,
  numericsTable,
  readEvents,
  type SiteStatistic,
  type SiteTensor,
  svgHeatMap,
  terminalAbilities,
  terminalChart,
  terminalHeatMap,
} from "../metrics/index.ts";
import { parseArguments } from "./arguments.ts";
import type { Command } from "./command.ts";
import { eventsFile } from "./eventsFile.ts";

/** Statistics by the names that the command line has for them. */
const statisticNames: Readonly<Record<string, SiteStatistic>> = {
  snr: "snrDb",
  underflow: "underflowPercent",
  saturated: "saturatedPercent",
  zero_blocks: "zeroBlocksPercent",
  scale_underflow: "scaleUnderflowPercent",
  amax: "amax",
  tensor_scale: "tensorScale",
};

export const command: Command = {
  help: `Usage: halfbyte report numerics RUN [step=N] [tensor=…] [statistic=…] [--json]

Shows what quantization did to the tensors of a run's linear layers: the worst of them as a table, all of them as a heat map of
layers × modules, and how the statistic went over the measured steps. A run measures every telemetry_period-th step.

  RUN            folder of the run: base_output_directory/run_name
  step=N         a measured step (default: the last one)
  tensor=…       x (the layer's input), w (its weight) or dy (the gradient of its result); default: all three
  statistic=…    snr (default), underflow, saturated, zero_blocks, scale_underflow, amax or tensor_scale
  --json         the records of the step, or of all measured steps where none is named, as JSON on standard output

Example: halfbyte report numerics runs/books-nvfp4 tensor=dy statistic=underflow
`,
  async run(args) {
    const { words, flags, settings } = parseArguments(args, { keys: ["step", "tensor", "statistic"], maxWords: 1 });
    const [path] = words;
    if (path === undefined) {
      throw new UserError(
        "E_ARGUMENT",
        "the run's folder is missing: halfbyte report numerics base_output_directory/run_name",
      );
    }
    const records = recordsOf(path);
    const view = viewOf(settings);
    const record = recordAt(records, settings.step, path);
    if (flags.has("json")) {
      const shown = settings.step === undefined ? records : [record];
      const sites = (record: NumericsRecord) => record.sites.filter(({ tensor }) => view.tensors.includes(tensor));
      process.stdout.write(`${asJson(shown.map((record) => ({ ...record, sites: sites(record) })))}\n`);
      return 0;
    }
    const abilities = terminalAbilities(process.stdout);
    const overTime =
      records.filter((record) => hasStatistic(record, view)).length > 1
        ? terminalChart(numericsOverTime(records, view), { ...abilities, height: 16 })
        : "";
    const heat = hasStatistic(record, view) ? terminalHeatMap(numericsHeatMap(record, view), abilities) : "";
    process.stdout.write(
      [numericsTable(record, view, process.stdout.columns), heat, overTime].filter((text) => text !== "").join("\n"),
    );
    return 0;
  },
};

const hasStatistic = ({ sites }: NumericsRecord, { statistic, tensors }: NumericsView): boolean =>
  sites.some((site) => tensors.includes(site.tensor) && site[statistic] !== undefined);

/** The end of a run's report: table, heat map, and the map as numerics.svg; empty where nothing was measured. */
export function drawNumerics(events: string, folder: string, stream: NodeJS.WriteStream): string {
  const records = latestByStep(readEvents(events).events, "numerics");
  const view: NumericsView = { statistic: "snrDb", tensors: allTensors };
  // The last steps of a run may be in BF16: what quantization did is seen before.
  const record = records.findLast((record) => hasStatistic(record, view)) ?? records.at(-1);
  if (record === undefined) return "";
  const map = numericsHeatMap(record, view);
  const table = numericsTable(record, view, stream.columns);
  if (!hasStatistic(record, view)) return `\n${table}`;
  const file = join(folder, "numerics.svg");
  let where = file;
  try {
    writeFileSync(file, svgHeatMap(map));
  } catch (error) {
    where = `${file} can't be written (${reasonOf(error)})`;
  }
  return `\n${table}\n${terminalHeatMap(map, terminalAbilities(stream))}${where}\n`;
}

/** @throws UserError where there is no run, or none of its steps was measured */
function recordsOf(path: string): NumericsRecord[] {
  const records = latestByStep(readEvents(eventsFile(path)).events, "numerics");
  if (records.length > 0) return records;
  throw new UserError(
    "E_NUMERICS",
    `no step of ${path} was measured: train with telemetry_period=N, steps between measurements`,
  );
}

function recordAt(records: readonly NumericsRecord[], step: string | undefined, path: string): NumericsRecord {
  if (step === undefined) return records.at(-1)!;
  const found = records.find((record) => String(record.step) === step);
  if (found !== undefined) return found;
  const steps = records.map((record) => record.step);
  const list =
    steps.length > 12 ? `${steps.slice(0, 6).join(", ")}, …, ${steps.slice(-3).join(", ")}` : steps.join(", ");
  throw new UserError("E_NUMERICS", `step=${step}: the measured steps of ${path} are ${list}`);
}

function viewOf({ tensor, statistic = "snr" }: Readonly<Record<string, string>>): NumericsView {
  const oneOf = (key: string, value: string, names: readonly string[]) => {
    if (names.includes(value)) return;
    const near = nearest(value, names);
    throw new UserError(
      "E_NUMERICS",
      `${key}=${value}: must be one of ${names.join(", ")}${near ? `; did you mean ${near}?` : ""}`,
    );
  };
  oneOf("statistic", statistic, Object.keys(statisticNames));
  if (tensor !== undefined) oneOf("tensor", tensor, allTensors);
  return { statistic: statisticNames[statistic]!, tensors: tensor === undefined ? allTensors : [tensor as SiteTensor] };
}

const asJson = (value: unknown): string => JSON.stringify(value, notFiniteAsText, 2);
