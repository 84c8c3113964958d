/** `halfbyte report precision`: what each GEMM of a run computes in, told before anything is computed. */
import { writeFileSync } from "node:fs";
import { writing } from "../checkpoint/index.ts";
import { terminalAbilities } from "../metrics/index.ts";
import {
  type GroupedRow,
  groupedRows,
  type PrecisionReport,
  precisionReport,
  type ReportedRow,
} from "../train/precisionReport.ts";
import { parseArguments } from "./arguments.ts";
import type { Command } from "./command.ts";
import { table } from "./inspectText.ts";
import { type PictureOptions, pictureSvg, pictureText } from "./precisionPicture.ts";
import { sizedConfig, sourceHelp } from "./settings.ts";
import { planOf } from "./trainingRun.ts";

export const command: Command = {
  help: `Usage: halfbyte report precision [PRESET] [key=value …] [svg=FILE] [--json]

Lists what each GEMM of each linear layer computes in: the format, whether the machine multiplies it natively or it is
emulated and why, what is padded to whole blocks, and why a layer is excluded; then the share of the FLOPs in each format.
A run whose precision switches has a picture and a table for each phase. It needs no data and no weights.

  svg=FILE   writes the picture (layers by modules, a colour for each format) as an SVG file
  --json     the rows and shares of each phase as JSON on standard output

The configuration is what \`halfbyte train\` takes: PRESET, config=FILE and its other keys. PRESET is
  ${sourceHelp.replaceAll(/\n +/g, "\n  ")}

Example: halfbyte report precision llama-tiny quantization=nvfp4 precision_switch_step=100
`,
  async run(args) {
    const { settings, flags, words } = parseArguments(args, { maxWords: 1, ownKeys: ["svg"] });
    const { svg, ...keys } = settings;
    const report = precisionReport(planOf(await sizedConfig(words[0], keys)));
    const written = svg === undefined ? [] : [writePicture(report, svg)];
    const text = flags.has("json")
      ? `${JSON.stringify(report, null, 2)}\n`
      : [...reportText(report, terminalAbilities(process.stdout)), ...written, ""].join("\n");
    await new Promise((done) => process.stdout.write(text, done));
    return 0;
  },
};

function writePicture(report: PrecisionReport, path: string): string {
  writing(path, () => writeFileSync(path, pictureSvg(report)));
  return `the picture is in ${path}`;
}

function reportText(report: PrecisionReport, options: PictureOptions): string[] {
  const { recipe, policy, phases, validation } = report;
  return [
    `${recipe}, precision_policy=${policy}; validation in ${validation.map((name) => (name === "same" ? "training's precision" : name)).join(" and in ")}`,
    ...phases.flatMap((phase) => [
      "",
      `steps ${phase.firstStep} to ${phase.lastStep}: ${phase.name}`,
      ...pictureText(report, phase, options),
      "",
      ...table(
        "share of the FLOPs",
        ["format", "linear layers", "all matrix products"],
        phase.shares.map(({ format, ofLinear, ofAll }) => [format, percent(ofLinear), percent(ofAll)]),
      ),
      ...table(
        "GEMMs",
        ["layers", "modules", "GEMM", "format", "operands", "runs", "padding", "because of"],
        groupedRows(phase.rows).map(rowCells),
      ),
      ...emulationNotes(phase.rows),
    ]),
  ];
}

function rowCells({ layers, modules, gemm, name, format, runs, padding, reason }: GroupedRow): string[] {
  return [layers, modules, gemm, name, format, runs, padding || "none", reason];
}

/** What "emulated" means, and why. */
function emulationNotes(rows: readonly ReportedRow[]): string[] {
  const reasons = [...new Set(rows.flatMap(({ why }) => why))];
  if (reasons.length === 0) return [];
  return [
    "emulated: the values that the codes stand for are multiplied in BF16, exactly, and summed in FP32",
    ...reasons.map((reason) => `  ${reason}`),
  ];
}

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;
