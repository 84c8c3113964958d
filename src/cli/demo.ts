/** `halfbyte demo`: the same small Llama learns real English in BF16 and in NVFP4, and what that costs. */
import { join } from "node:path";
import { megabytes } from "../base/byteSize.ts";
import { refuseMistakes, UserError } from "../base/errors.ts";
import { peakMemory } from "../base/peakMemory.ts";
import { type Config, type PartialSettings, precisionPlan, readSettings, resolve } from "../config/index.ts";
import { type Dataset, trainingTexts } from "../data/index.ts";
import {
  compareRuns,
  evalLine,
  formatDuration,
  gapPercent,
  percent,
  type RunEvent,
  type RunSummary,
  stepTimer,
} from "../metrics/index.ts";
import { presetByName } from "../presets/index.ts";
import { isQuantized, switchKeys } from "../quant/index.ts";
import { type RunOutcome, runTraining } from "../train/run.ts";
import { exitCodeOf, type StopRequest, type StopSignal } from "../train/stop.ts";
import { parseArguments } from "./arguments.ts";
import { cachedTokenizer } from "./cachedTokenizer.ts";
import type { Command } from "./command.ts";
import { demoTextFolder } from "./demoText.ts";
import { type ProgressLine, progressLine } from "./progressLine.ts";
import { drawLosses } from "./runReport.ts";
import { settingsOf } from "./settings.ts";
import { stopSignals } from "./stopSignals.ts";
import { prepareRun, writeRunFolder } from "./trainingRun.ts";

/** Keys that concern the quantized run alone. */
const quantizedOnly = [
  "quantization",
  ...switchKeys,
  "precision_policy",
  "first_layers_bf16",
  "last_layers_bf16",
  "precision_overrides",
  "precision_switch_step",
  "precision_switch_gemms",
  "precision_switch_to",
  "packed_residuals",
  "rounding_seed",
];
const samplePrompt = "The state of the Union is";

/** What the user types to start Halfbyte: the launcher tells. */
const halfbyte = process.env.HALFBYTE_COMMAND ?? "halfbyte";

interface DemoRun {
  readonly name: string;
  readonly config: Config;
}

interface FinishedRun {
  readonly name: string;
  readonly folder: string;
  readonly events: string;
  readonly summary: RunSummary;
  readonly sample: string | undefined;
  /** Bytes on the device that the compiler planned for a step. */
  readonly stepBytes: number | undefined;
}

export const command: Command = {
  help: `Usage: halfbyte demo [key=value …] [--json]

Trains one small Llama on the State of the Union speeches twice, from the same seed on the same data: in BF16 and in NVFP4.
Then it shows validation losses and their gap, speed, a sample of text of each, and a chart. Under four minutes on two cores.

  steps=N                   steps of each run, for a shorter or longer demo
  quantization=RECIPE       the recipe to compare with BF16 (default nvfp4)
  dataset_path=PATH         your own text instead
  base_output_directory=DIR where the two runs go (default demo-run/TIME); those of an earlier demo are continued
  key=value                 any other key of \`halfbyte train\` but run_name, for both runs
  --json                    the result as one JSON object on standard output, the text for people on standard error

Example: halfbyte demo
         halfbyte demo steps=40 quantization=te_nvfp4
`,
  async run(args) {
    const { settings, flags } = parseArguments(args);
    const json = flags.has("json");
    const stream = json ? process.stderr : process.stdout;
    const say = (text: string) => void stream.write(`${text}\n`);
    const begin = performance.now();
    const progress = progressLine();

    const { source, own } = await settingsOf(undefined, settings);
    const asked = readSettings({ ...source.file?.settings, ...own });
    refuseMistakes(asked.mistakes, "things are wrong");
    const runs = await configureRuns(asked.settings, say, progress);
    const base = runs[0]!.config.run.baseOutputDirectory;
    const stop = stopSignals(say);
    const finished: FinishedRun[] = [];
    let data: Dataset | undefined;
    for (const [index, run] of runs.entries()) {
      const outcome = await trainOne(run, { data, say, progress, stop, runsLeft: runs.length - index - 1 });
      if (outcome.stoppedBy !== undefined) return stopped(outcome.stoppedBy, base, say);
      finished.push(outcome);
      data = outcome.data;
    }
    stop.close();
    data?.close?.();

    const seconds = (performance.now() - begin) / 1000;
    say(resultText(finished, seconds));
    stream.write(drawLosses(finished, base, stream));
    say(nextCommands(finished, runs));
    if (json) process.stdout.write(`${JSON.stringify(resultJson(finished, seconds, base))}\n`);
    return 0;
  },
};

/** The two configurations: equal but for the precision of the linear layers. */
async function configureRuns(
  settings: PartialSettings,
  say: (text: string) => void,
  progress: ProgressLine,
): Promise<DemoRun[]> {
  if (settings.run_name !== undefined) {
    throw new UserError(
      "E_DEMO",
      `run_name=${settings.run_name} does nothing here, for the demo names its two runs: set base_output_directory=DIR, the folder of both`,
    );
  }
  const ownText = settings.dataset_type === "synthetic" || settings.dataset_path !== undefined;
  const time = new Date().toISOString().replace(/[-:]/g, "").replace("T", "-").slice(0, 15);
  const withText = (folder: () => string) => ({
    ...(!ownText && { dataset_path: folder() }),
    base_output_directory: join("demo-run", time),
    ...settings,
  });
  const quantization = settings.quantization ?? "nvfp4";
  // Wrong settings are said before a missing text, and before the vocabulary is made, which takes a while.
  checkSettings(
    withText(() => "the demo's text"),
    quantization,
  );

  const given = withText(demoTextFolder);
  const common = commonSettings(given);
  const preset = presetByName("demo");
  const tokenizer = await demoTokenizer(resolve(preset, common), settings, say, progress);
  const shared = { ...common, ...(tokenizer !== undefined && { tokenizer_path: tokenizer }) };
  const quantizedSettings = { ...given, ...shared, quantization };
  return [
    { name: "bf16", config: resolve(preset, { ...shared, run_name: "bf16" }) },
    { name: quantization, config: resolve(preset, { ...quantizedSettings, run_name: quantization }) },
  ];
}

const commonSettings = (given: PartialSettings): PartialSettings =>
  Object.fromEntries(Object.entries(given).filter(([key]) => !quantizedOnly.includes(key)));

/** @throws UserError where one of the two runs can't be configured, or the second is no quantized one. */
function checkSettings(given: PartialSettings, quantization: string): void {
  const preset = presetByName("demo");
  resolve(preset, commonSettings(given));
  const { recipe } = precisionPlan(resolve(preset, { ...given, quantization }));
  if (isQuantized(recipe.precision)) return;
  throw new UserError(
    "E_DEMO",
    `quantization=${quantization} quantizes nothing, and BF16 is what the demo compares with: choose nvfp4 or another recipe`,
  );
}

/** A vocabulary of the training text alone, where none is given. */
async function demoTokenizer(
  { data, model }: Config,
  settings: PartialSettings,
  say: (text: string) => void,
  progress: ProgressLine,
): Promise<string | undefined> {
  if (data.datasetType === "synthetic" || settings.tokenizer_path !== undefined) return undefined;
  const text = await trainingTexts(data);
  const begin = performance.now();
  const { folder, wasCached } = await cachedTokenizer(text, model.vocabSize, ({ tokens, of }) =>
    progress.show(`learning a vocabulary: ${tokens} of ${of} tokens`),
  );
  progress.clear();
  const how = wasCached ? "from the cache" : `learned in ${formatDuration((performance.now() - begin) / 1000)}`;
  say(`text: ${text.documents} documents to train on (${megabytes(text.bytes)}), ${text.heldOut} held out`);
  say(`vocabulary: ${model.vocabSize} tokens of the training text, ${how}`);
  return folder;
}

interface TrainOneOptions {
  readonly data: Dataset | undefined;
  readonly say: (text: string) => void;
  readonly progress: ProgressLine;
  readonly stop: StopRequest;
  /** Runs that follow this one. */
  readonly runsLeft: number;
}

type OneRun = (FinishedRun & { readonly data: Dataset; readonly stoppedBy?: undefined }) | { stoppedBy: StopSignal };

async function trainOne({ name, config }: DemoRun, options: TrainOneOptions): Promise<OneRun> {
  const { say, stop } = options;
  const run = await prepareRun(config, say, options.data);
  for (const note of config.notes) say(`note: ${note}`);
  writeRunFolder(run);
  const shown = demoConsole(name, run.plan.steps, options);
  const { plan, folder, data, resume, parameters } = run;
  const outcome: RunOutcome = await runTraining({
    name,
    plan,
    data,
    folder,
    keys: run.config.keys,
    stop,
    samplePrompt,
    onEvent: shown.event,
    ...(resume && { resume }),
    ...(parameters && { parameters }),
  });
  options.progress.clear();
  if (outcome.stoppedBy !== undefined) return { stoppedBy: outcome.stoppedBy };
  const { sample, stepBytes } = shown.seen;
  return { name, folder: folder.path, events: folder.events, summary: outcome.summary, sample, stepBytes, data };
}

/** A run's events as a line that moves on a terminal, and as a line now and then elsewhere. */
function demoConsole(name: string, steps: number, { say, progress, runsLeft }: TrainOneOptions) {
  const timer = stepTimer();
  const seen: { sample: string | undefined; stepBytes: number | undefined } = {
    sample: undefined,
    stepBytes: undefined,
  };
  const period = Math.max(1, Math.round(steps / 12));
  const event = (event: RunEvent): void => {
    if (event.type === "start") {
      const parameters = (event.parameters / 1e6).toFixed(1);
      say(
        `\n${name}: ${parameters} M parameters, ${(event.flopsPerToken / 1e6).toFixed(1)} MFLOP a token; compiling …`,
      );
    } else if (event.type === "compile") {
      const { argumentBytes = 0, temporaryBytes = 0 } = event.memory;
      seen.stepBytes = argumentBytes + temporaryBytes;
      say(`${name}: compiled in ${formatDuration(event.seconds)}`);
    } else if (event.type === "step") {
      timer.add(event.seconds);
      // The runs that follow take about as long.
      const left = timer.left(steps - event.step + runsLeft * steps);
      const line = `${name}  step ${event.step}/${steps}  loss ${event.loss.toFixed(3)}  ${Math.round(event.tokensPerSecond)} tokens/s  left: ${formatDuration(left)}`;
      if (process.stderr.isTTY) progress.show(line);
      else if (event.step === 1 || event.step % period === 0) say(line);
    } else if (event.type === "eval") {
      progress.clear();
      say(`${name}  ${evalLine(event)}`);
    } else if (event.type === "skip" || event.type === "note") {
      progress.clear();
      say(event.message);
    } else if (event.type === "sample") seen.sample = event.text;
  };
  return { event, seen };
}

function stopped(signal: StopSignal, base: string, say: (text: string) => void): number {
  say(`stopped by ${signal}: \`${halfbyte} demo base_output_directory=${base}\` goes on where it was`);
  return exitCodeOf(signal);
}

function gapOf([baseline, other]: readonly FinishedRun[]): number | undefined {
  const [before, after] = [baseline?.summary.validationLoss, other?.summary.validationLoss];
  return before === undefined || after === undefined ? undefined : gapPercent(before, after);
}

function resultText(runs: readonly FinishedRun[], seconds: number): string {
  const gap = gapOf(runs);
  const memory = runs.map(({ name, stepBytes }) => `${name} ${stepBytes === undefined ? "?" : megabytes(stepBytes)}`);
  const samples = runs.flatMap(({ name, sample }) =>
    sample === undefined ? [] : [`${name} writes: ${samplePrompt}${sample.replaceAll(/\s+/g, " ")}`],
  );
  return [
    "",
    compareRuns(runs.map(({ summary }) => summary)).trimEnd(),
    "",
    ...(gap === undefined
      ? []
      : [
          `${runs[1]!.name} ends ${percent(gap)} from bf16 in validation loss, after ${formatDuration(seconds)} in all`,
        ]),
    `memory: a step takes ${memory.join(", ")} (FP4 is emulated in BF16 here, which saves none); process peak ${megabytes(peakMemory())}`,
    "",
    ...samples.flatMap((text) => [text, ""]),
  ].join("\n");
}

function nextCommands(finished: readonly FinishedRun[], runs: readonly DemoRun[]): string {
  const tokenizer = runs[0]!.config.data.tokenizerPath;
  return [
    "",
    "Try next:",
    `  ${halfbyte} demo quantization=te_nvfp4            # FP4 in the MLPs alone`,
    `  ${halfbyte} demo steps=3000                       # longer: does the gap close?`,
    `  ${halfbyte} train demo dataset_path=YOUR_TEXT tokenizer_path=${tokenizer} quantization=nvfp4`,
    `The runs are in ${finished.map(({ folder }) => folder).join(" and ")}`,
  ].join("\n");
}

function resultJson(runs: readonly FinishedRun[], seconds: number, base: string) {
  return {
    runs: runs.map(({ folder, summary, sample, stepBytes }) => ({ folder, ...summary, sample, stepBytes })),
    gapPercent: gapOf(runs),
    seconds,
    peakRssBytes: peakMemory(),
    chart: join(base, "loss.svg"),
  };
}
