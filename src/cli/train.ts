/** `halfbyte train`: trains a model, or goes on with a run. */
import { megabytes } from "../base/byteSize.ts";
import { peakMemory } from "../base/peakMemory.ts";
import { bestCheckpoint } from "../checkpoint/index.ts";
import { showConfig } from "../config/index.ts";
import { packingText, type SourceSize } from "../data/index.ts";
import { compareRuns } from "../metrics/index.ts";
import { configureDefaultClient } from "../pjrt/index.ts";
import { runTraining } from "../train/run.ts";
import { exitCodeOf } from "../train/stop.ts";
import { parseArguments } from "./arguments.ts";
import type { Command } from "./command.ts";
import { drawNumerics } from "./reportNumerics.ts";
import { idleStepsWarning } from "./resumption.ts";
import { runConsole } from "./runConsole.ts";
import { drawLosses } from "./runReport.ts";
import { configOf, sourceHelp } from "./settings.ts";
import { stopSignals } from "./stopSignals.ts";
import { precisionName, prepareRun, writeRunFolder } from "./trainingRun.ts";

export const command: Command = {
  help: `Usage: halfbyte train [PRESET] [key=value …] [--json]

Trains a Llama from scratch on text, prompts or chats, or on synthetic data, and saves it in base_output_directory/run_name. The same
run_name goes on from its newest whole checkpoint. SIGINT (Ctrl-C) or SIGTERM finishes the step, saves and exits 130 or
143; the same once more leaves at once.

  PRESET                  ${sourceHelp}
  config=FILE             a .json file of settings over PRESET, such as the config.json of a run
  dataset_path            training data: a file, a folder or a pattern (.txt, .jsonl, .parquet, …), or several: 'a,0.7;b,0.3'
  validation_fraction     share of it to hold out, by whole documents
  dataset_type=synthetic  no text needed: a rule that can be learnt
  tokenizer_path          byte (default), a tokenizer.json, tokenizer.model or .gguf file, or a folder with one,
                          such as \`halfbyte tokenizer train\` writes
  quantization            none (BF16), nvfp4, …
  steps, learning_rate, per_device_batch_size, max_target_length, run_name, base_output_directory, …
  --json                  one event a line on standard output, the text for people on standard error

Example: halfbyte train llama-tiny dataset_type=synthetic steps=100
         halfbyte train llama-tiny dataset_path=books validation_fraction=0.1 quantization=nvfp4 run_name=books-nvfp4
`,
  async run(args) {
    const { settings, flags, words } = parseArguments(args, { maxWords: 1 });
    const given = await configOf(words[0], settings);
    configureDefaultClient({ nativeKernels: given.compute.nativeKernels });
    const json = flags.has("json");
    const stream = json ? process.stderr : process.stdout;
    const say = (text: string) => void stream.write(`${text}\n`);

    const stop = stopSignals(say);
    const run = await prepareRun(given, say);
    const { config, folder, plan, data, resume, parameters, fullState } = run;
    say(showConfig(config).trimEnd());
    for (const note of config.notes) say(`note: ${note}`);
    if (data.size) say(sizeText(data.size));
    if (data.train.packing) say(packingText(data.train.packing));
    const idle = resume && idleStepsWarning(config, folder, resume);
    if (idle !== undefined) say(`warning: ${idle}`);
    writeRunFolder(run);

    const { steps, logPeriod } = config.run;
    const console = runConsole({ json, steps, logPeriod });
    const { stoppedBy, saved, summary } = await runTraining({
      name: precisionName(config),
      plan,
      data,
      folder,
      keys: config.keys,
      stop,
      onEvent: console.event,
      ...(resume && { resume }),
      ...(parameters && { parameters }),
      ...(fullState && { fullState }),
    }).finally(() => {
      stop.close();
      data.close?.();
    });

    if (stoppedBy !== undefined) {
      const next = saved ? `the same command resumes from ${saved.path}` : "nothing was saved";
      say(`stopped by ${stoppedBy}: ${next}`);
      return exitCodeOf(stoppedBy);
    }
    say(`\n${compareRuns([summary])}peak memory of the process: ${megabytes(peakMemory())}\n`);
    stream.write(drawLosses([{ name: summary.name, events: folder.events }], folder.path, stream));
    stream.write(drawNumerics(folder.events, folder.path, stream));
    const best = config.run.keepBestCheckpoint ? bestCheckpoint(folder) : undefined;
    if (best) say(`the lowest validation loss, ${best.loss.toFixed(4)}, came after step ${best.step}: ${folder.best}`);
    say(`the run is in ${folder.path}`);
    return 0;
  },
};

function sizeText({
  train,
  validation,
  bytes,
  sources = [],
}: NonNullable<Awaited<ReturnType<typeof prepareRun>>["data"]["size"]>) {
  const split = ({ tokens, documents }: typeof train) =>
    `${tokens.toLocaleString("en")} tokens in ${documents.toLocaleString("en")} document${documents === 1 ? "" : "s"}`;
  const both = ({ train, validation }: Pick<SourceSize, "train" | "validation">) =>
    `training ${split(train)}; validation ${validation ? split(validation) : "none"}`;
  const own = sources.map(({ source, ...size }) => `\n  ${source}: ${both(size)}`);
  return `text: ${megabytes(bytes)}; ${both({ train, ...(validation && { validation }) })}${own.join("")}`;
}
