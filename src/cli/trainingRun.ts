/** From a configuration to a run that can start: its plan, data, folder, and where it goes on. */
import { existsSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { refuseMistakes, UserError } from "../base/errors.ts";
import {
  type LoadedCheckpoint,
  loadCheckpoint,
  loadFullState,
  lockRun,
  makeRunFolder,
  type RunFolder,
  refuseRunFolder,
  runFolder,
  type StartingParameters,
  type StartingState,
  writing,
} from "../checkpoint/index.ts";
import {
  adamwSettings,
  type Config,
  evalPrecisions,
  laterPrecision,
  llamaConfig,
  lossScaleSettings,
  precisionPlan,
  withSettings,
  withTokenizerVocab,
} from "../config/index.ts";
import { loadParameters } from "../convert/onDemand.ts";
import { batchForm, type Dataset, isMixture, openDataset, requireTargetBytes } from "../data/index.ts";
import { rematPolicies } from "../models/rematPolicies.ts";
import { copyTokenizer, loadTokenizer, type Tokenizer } from "../tokenizers/index.ts";
import type { CheckpointPlan, RunPlan } from "../train/plan.ts";
import { refuseOtherData } from "../train/sameData.ts";
import { machineMistakes } from "./machineLimits.ts";
import { progressLine } from "./progressLine.ts";
import { continued, type PlaceToResume, placeToResume } from "./resumption.ts";

export interface PreparedRun {
  /** With everything filled in that was left open: run_name, vocab_size. */
  readonly config: Config;
  readonly folder: RunFolder;
  readonly plan: RunPlan;
  readonly data: Dataset;
  readonly resume?: LoadedCheckpoint & PlaceToResume;
  /** What a run that does not go on begins with, where not with random weights. */
  readonly parameters?: StartingParameters;
  /** The same with a whole state. */
  readonly fullState?: StartingState;
}

/**
 * All that can go wrong before anything is compiled goes wrong here. Nothing is written yet but the lock of a folder that is
 * there, which training, or the end of the process, releases.
 * @param say told in sentences what was found
 * @param opened the data, where they are open already
 * @throws UserError
 */
export async function prepareRun(given: Config, say: (text: string) => void, opened?: Dataset): Promise<PreparedRun> {
  const isText = given.data.datasetType !== "synthetic";
  const tokenizer = opened?.tokenizer ?? (isText ? loadTokenizer(given.data.tokenizerPath) : undefined);
  const sized = tokenizer ? withTokenizerVocab(given, tokenizer.vocabSize) : given;
  const named = withRunName(sized);
  const folder = runFolder(named.run.baseOutputDirectory, named.run.runName);
  refuseRunFolder(folder);
  // A live run deletes older checkpoints, so that what another process reads there means nothing.
  if (existsSync(folder.path)) lockRun(folder);
  const newest = await placeToResume(named, folder, say);
  const { config, moved } = newest ? continued(named, folder, newest, say) : { config: named, moved: [] };
  const plan = planOf(config);
  refuseMistakes(machineMistakes(config, plan), "things are wrong");
  const data = opened ?? (await openData(config, tokenizer, say));
  refuseTooLargeBatch(plan, data);
  if (data.validation) requireTargetBytes(data.validation, plan.evalSteps);
  const { evalSteps = 0 } = plan;
  if (data.validation && evalSteps > data.validation.batches) {
    say(
      `note: eval_steps=${evalSteps} is more than the ${data.validation.batches} batches of validation data there are`,
    );
  }
  if (newest === undefined) return { config, folder, plan, data, ...(await beginning(config, { plan, data }, say)) };
  const resume = { ...newest, ...(await loadCheckpoint(newest.path, plan.model)) };
  refuseOtherData(resume.progress.data, { data, folder, keys: config.keys, moved });
  for (const { key, before, after } of moved) say(`${key} was ${before} and is ${after}: the same contents`);
  for (const key of ["load_parameters_path", "load_full_state_path"] as const) {
    const path = config.keys[key];
    if (path !== undefined && path !== "")
      say(`${key}=${path} is where the run began; it goes on with its own weights`);
  }
  return { config, folder, plan, data, resume };
}

/** What a run begins with that is another's, and says so. @throws UserError */
async function beginning(
  { run }: Config,
  { plan, data: { tokenizer } }: Pick<PreparedRun, "plan" | "data">,
  say: (text: string) => void,
): Promise<Pick<PreparedRun, "parameters" | "fullState">> {
  if (run.loadParametersPath !== "") {
    const parameters = await loadParameters(run.loadParametersPath, plan.model);
    for (const note of [...parameters.notes, ...otherTokenizer(parameters.tokenizer, tokenizer)]) say(note);
    say(`weights from ${parameters.from}; the optimizer begins anew`);
    return { parameters };
  }
  if (run.loadFullStatePath === "") return {};
  const fullState = await loadFullState(run.loadFullStatePath, plan.model);
  const { step, data } = fullState.state.progress;
  if (step >= plan.steps) {
    throw new UserError(
      "E_LOAD_PARAMETERS",
      `load_full_state_path=${run.loadFullStatePath}: ${step} steps are done there, and steps=${plan.steps} counts those too: raise steps`,
    );
  }
  for (const note of [...fullState.notes, ...otherTokenizer(data.tokenizer, tokenizer)]) say(note);
  say(`state from ${fullState.from}: the run begins with step ${step + 1}, under its own settings`);
  return { fullState };
}

/** Says that a run begins with weights which another tokenizer's tokens made, where it has text too: that may be meant. */
function otherTokenizer(before: string | number | undefined, now: Tokenizer | undefined): string[] {
  if (before === undefined || now === undefined || before === now.hash) return [];
  return [
    `note: tokenizer_path=${now.name} is not the tokenizer that these weights were trained with (hash ${now.hash.slice(0, 12)}; theirs ${String(before).slice(0, 12)}): the same ids stand for other text`,
  ];
}

export function planOf(config: Config): RunPlan {
  const { data, optimizer, run, compute } = config;
  const remat = rematPolicies[compute.rematPolicy];
  const lossScale = lossScaleSettings(config);
  const later = laterPrecision(config);
  return {
    model: llamaConfig(config),
    precision: precisionPlan(config),
    ...(later && { laterPrecision: later }),
    evalPrecisions: evalPrecisions(config),
    ...(remat && { remat }),
    scanLayers: compute.scanLayers,
    zLoss: optimizer.zLossMultiplier,
    optimizer: adamwSettings(config),
    ...(lossScale && { lossScale }),
    schedule: optimizer.schedule,
    clippingThreshold: optimizer.gradientClippingThreshold,
    batchSize: data.perDeviceBatchSize,
    microBatches: optimizer.gradientAccumulationSteps,
    sequenceLength: data.maxTargetLength,
    batchForm: batchForm(data),
    ...(isMixture(data) && { sequenceLosses: true }),
    steps: run.steps,
    ...(run.evalInterval !== -1 && { evalInterval: run.evalInterval }),
    ...(run.evalSteps !== -1 && { evalSteps: run.evalSteps }),
    ...(run.enableCheckpointing && { checkpoints: checkpointPlan(run) }),
    seeds: { initWeights: run.initWeightsSeed, dataShuffle: run.dataShuffleSeed, rounding: run.roundingSeed },
    ...(run.telemetryPeriod > 0 && {
      telemetry: { period: run.telemetryPeriod, gradientCosine: run.telemetryGradientCosine },
    }),
    ...(run.profiler === "trace" && {
      profile: { skipSteps: run.skipFirstNStepsForProfiler, steps: run.profilerSteps },
    }),
    maxSkippedSteps: run.maxSkippedSteps,
  };
}

function checkpointPlan(run: Config["run"]): CheckpointPlan {
  const { checkpointPeriod: period, maxNumCheckpointsToKeep: keep, checkpointKeepPeriod: keepPeriod } = run;
  return {
    period,
    ...(keep !== -1 && { keep }),
    ...(keepPeriod !== -1 && { keepPeriod }),
    keepBest: run.keepBestCheckpoint,
  };
}

/** @throws UserError where a batch would hold a sequence of the training data twice */
function refuseTooLargeBatch({ batchSize, microBatches, sequenceLength }: RunPlan, { train }: Dataset): void {
  if (batchSize * microBatches <= train.windows) return;
  const times = microBatches > 1 ? ` times gradient_accumulation_steps=${microBatches}` : "";
  throw new UserError(
    "E_BATCH",
    `per_device_batch_size=${batchSize}${times} is more than the ${train.windows} training sequences of ${sequenceLength} tokens: lower it, or max_target_length, or add text`,
  );
}

/** What the linear layers compute in, for people: "bf16", "nvfp4", "float32". */
export function precisionName({ compute: { dtype, quantization } }: Config): string {
  return quantization !== "none" ? quantization : dtype === "bfloat16" ? "bf16" : dtype;
}

/** A name for a run that has none: its precision and the time. */
function withRunName(config: Config, now = new Date()): Config {
  if (config.run.runName !== "") return config;
  const recipe = precisionName(config);
  const time = now.toISOString().replace(/[-:]/g, "").replace("T", "-").slice(0, 15);
  const free = [`${recipe}-${time}`, `${recipe}-${time}-${process.pid}`].find(
    (name) => !existsSync(join(config.run.baseOutputDirectory, name)),
  );
  return withSettings(config, { run_name: free ?? `${recipe}-${time}-${process.hrtime.bigint()}` });
}

async function openData(
  { model, data, run, optimizer }: Config,
  tokenizer: Tokenizer | undefined,
  say: (text: string) => void,
): Promise<Dataset> {
  const progress = progressLine();
  try {
    return await openDataset(data, {
      vocabSize: model.vocabSize,
      shuffleSeed: run.dataShuffleSeed,
      microBatches: optimizer.gradientAccumulationSteps,
      ...(tokenizer && { tokenizer }),
      say(text) {
        progress.clear();
        say(text);
      },
      onProgress: ({ doing, bytes, of }) =>
        progress.show(
          `${doing === "hashing" ? "looking for tokens" : "tokenising"}: ${Math.round((100 * bytes) / of)} %`,
        ),
    });
  } finally {
    progress.clear();
  }
}

/**
 * Makes the run's folder, locks it and writes what is known before the first step: its configuration and its tokenizer.
 * @throws UserError where another process has the folder, before anything in it is changed
 */
export function writeRunFolder({ folder, config }: PreparedRun): void {
  makeRunFolder(folder);
  lockRun(folder);
  writing(folder.path, () => {
    const unfinished = `${folder.config}.tmp`;
    writeFileSync(unfinished, `${JSON.stringify(config.keys, null, 2)}\n`);
    renameSync(unfinished, folder.config);
    if (config.data.datasetType !== "synthetic") copyTokenizer(config.data.tokenizerPath, folder.tokenizer);
  });
}
