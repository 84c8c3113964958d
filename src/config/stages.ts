/** What the configuration says to each stage, in that stage's own terms. */
import { UserError } from "../base/errors.ts";
import { type LlamaConfig, llamaModules } from "../models/llama.ts";
import { type AdamWSettings, type LossScaleSettings, makeSchedule, type Schedule } from "../optim/index.ts";
import {
  isQuantized,
  type PrecisionPlan,
  parseOverrides,
  recipeByName,
  resolvePrecision,
  type SwitchKey,
  switchesOf,
} from "../quant/index.ts";
import { precisionSettings } from "../quant/settings.ts";
import type { Config } from "./resolve.ts";
import type { Settings } from "./schema.ts";

/** The model's sizes. `vocab_size` must be known: see `withTokenizerVocab`. */
export function llamaConfig({ model, compute }: Config): LlamaConfig {
  const multiple = model.makeVocabSizeDivisibleBy;
  const rows = Math.ceil(model.vocabSize / multiple) * multiple;
  return {
    numLayers: model.numDecoderLayers,
    embDim: model.embDim,
    mlpDim: model.mlpDim,
    numHeads: model.numQueryHeads,
    numKvHeads: model.numKvHeads,
    headDim: model.headDim,
    vocabSize: model.vocabSize,
    ...(rows > model.vocabSize && { paddedVocabSize: rows }),
    ropeTheta: model.ropeTheta,
    ...(model.ropeType === "llama3.1" && {
      ropeScaling: {
        kind: "llama3",
        factor: model.ropeFactor,
        lowFreqFactor: model.ropeLowFreqFactor,
        highFreqFactor: model.ropeHighFreqFactor,
        originalMaxPosition: model.originalMaxPositionEmbeddings,
      },
    }),
    normEps: model.normEps,
    tieEmbeddings: model.logitsViaEmbedding,
    dtype: compute.dtype,
  };
}

/** How every linear layer computes. */
export function precisionPlan({ keys }: Config): PrecisionPlan {
  return planOf({ ...precisionSettings.parse({}), ...keys } as Settings);
}

/** The linear layers of a block. */
export const modules: readonly string[] = llamaModules;

/** The settings that decide how every linear layer computes. */
export type PrecisionSettings = Pick<
  Settings,
  | "quantization"
  | "num_decoder_layers"
  | "precision_policy"
  | "first_layers_bf16"
  | "last_layers_bf16"
  | "precision_overrides"
  | "packed_residuals"
  | SwitchKey
>;

/** The same of settings by key. @throws UserError where they contradict each other or quantize nothing */
export function planOf(settings: PrecisionSettings): PrecisionPlan {
  const { precision_policy: policy, first_layers_bf16: first, last_layers_bf16: last } = settings;
  const overrides = parseOverrides(settings.precision_overrides);
  const plan = resolvePrecision({
    recipe: recipeByName(settings.quantization, switchesOf(settings)),
    numLayers: settings.num_decoder_layers,
    ...(policy !== "default" && { policy }),
    ...(first !== -1 && { firstLayersBf16: first }),
    ...(last !== -1 && { lastLayersBf16: last }),
    overrides,
    modules,
    packedResiduals: settings.packed_residuals,
  });
  if (overrides.length > 0) checkEveryLinear(plan);
  return plan;
}

/** GEMMs of different recipes that don't go together are told before anything is computed. @throws UserError */
export function checkEveryLinear({ precision, numLayers }: PrecisionPlan): void {
  for (let layer = 0; layer < numLayers; layer++) for (const module of modules) precision(module, layer);
}

/** Whether the quantization of this name has GEMMs in fewer than 16 bits. */
export function quantizes({ quantization }: Pick<Settings, "quantization">): boolean {
  return isQuantized(recipeByName(quantization).precision);
}

/** Whether a rule of precision_overrides does; one that can't be read is told elsewhere, and counts as one that does. */
export function overrideQuantizes({ precision_overrides }: Pick<Settings, "precision_overrides">): boolean {
  try {
    return parseOverrides(precision_overrides).some(({ recipe }) => isQuantized(recipe.precision));
  } catch (error) {
    if (error instanceof UserError) return true;
    throw error;
  }
}

/** The learning rate: step n, from 1, uses `learningRate(schedule, n)`. */
export function scheduleOf(
  settings: Pick<
    Settings,
    | "lr_schedule_type"
    | "learning_rate"
    | "steps"
    | "learning_rate_schedule_steps"
    | "lr_after_schedule"
    | "warmup_steps_fraction"
    | "warmup_steps"
    | "learning_rate_final_fraction"
    | "wsd_decay_steps_fraction"
  >,
): Schedule {
  return makeSchedule({
    kind: settings.lr_schedule_type,
    learningRate: settings.learning_rate,
    steps: settings.steps,
    scheduleSteps: settings.learning_rate_schedule_steps,
    after: settings.lr_after_schedule,
    ...(settings.warmup_steps !== -1 && { warmupSteps: settings.warmup_steps }),
    warmupStepsFraction: settings.warmup_steps_fraction,
    finalFraction: settings.learning_rate_final_fraction,
    decayStepsFraction: settings.wsd_decay_steps_fraction,
  });
}

export function adamwSettings({ optimizer }: Config): AdamWSettings {
  return { b1: optimizer.adamB1, b2: optimizer.adamB2, eps: optimizer.adamEps, weightDecay: optimizer.adamWeightDecay };
}

/** How the loss is scaled, where the dtype needs it. */
export function lossScaleSettings({ optimizer, compute }: Config): LossScaleSettings | undefined {
  if (compute.dtype !== "float16") return undefined;
  return {
    initial: optimizer.initialLossScale,
    minimum: optimizer.minLossScale,
    growthFactor: optimizer.lossScaleGrowthFactor,
    backoffFactor: optimizer.lossScaleBackoffFactor,
    growthInterval: optimizer.lossScaleGrowthInterval,
  };
}
