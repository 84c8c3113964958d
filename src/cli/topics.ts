/** What `halfbyte explain` knows beside keys: presets, models and recipes by their names. */
import { llamaConfig, type PartialSettings, resolve } from "../config/index.ts";
import { modelSizes } from "../models/modelSizes.ts";
import { isPreset, presetByName, presets } from "../presets/index.ts";
import { describeGemm, gemmNames, recipeByName, recipeNames, settingsOfSwitches } from "../quant/index.ts";
import { countParameters } from "../train/plan.ts";

export interface Topic {
  readonly kind: "preset" | "model" | "recipe";
  readonly name: string;
  readonly text: string;
}

export const topicNames = (): string[] => [...Object.keys(presets), ...Object.keys(modelSizes), ...recipeNames];

/** Everything of that name. */
export function topicsOf(name: string): Topic[] {
  return [
    ...(isPreset(name) ? [{ kind: "preset" as const, name, text: presetText(name) }] : []),
    ...(Object.hasOwn(modelSizes, name) ? [{ kind: "model" as const, name, text: modelText(name) }] : []),
    ...(recipeNames.includes(name) ? [{ kind: "recipe" as const, name, text: recipeText(name) }] : []),
  ];
}

/** The names by kind, for the list of everything. */
export function topicList(): string {
  return [
    `# presets (halfbyte train PRESET)\n${Object.keys(presets).join(", ")}`,
    `# models (model_name=…)\n${Object.keys(modelSizes).join(", ")}`,
    `# recipes (quantization=…)\n${recipeNames.join(", ")}\n`,
  ].join("\n");
}

const asLines = (settings: PartialSettings) => Object.entries(settings).map(([key, value]) => `  ${key}=${value}`);

function presetText(name: string): string {
  return [`${name} (preset)`, ...asLines(presetByName(name)), `  Run it: halfbyte train ${name}`, ""].join("\n");
}

function modelText(name: string): string {
  const settings = { model_name: name, dataset_type: "synthetic" } as PartialSettings;
  const parameters = countParameters(llamaConfig(resolve(settings)));
  const sizes = modelSizes[name as keyof typeof modelSizes];
  const vocabulary = sizes.vocab_size === undefined ? " with 256 tokens" : "";
  return [
    `${name} (model_name)`,
    `  ${parameters.toLocaleString("en")} parameters${vocabulary}; override_model_config=true lets keys change these:`,
    ...asLines(sizes),
    "",
  ].join("\n");
}

function recipeText(name: string): string {
  const { precision, policy, firstLayersBf16, lastLayersBf16, notes, switches } = recipeByName(name);
  const settings = Object.entries(settingsOfSwitches(switches)).map(([key, value]) => `${key}=${value}`);
  const kept = [
    ...(firstLayersBf16 === 0 ? [] : [`the first ${firstLayersBf16}`]),
    ...(lastLayersBf16 === 0 ? [] : [`the last ${lastLayersBf16}`]),
  ];
  const layers = kept.length === 0 ? "no block stays in BF16" : `${kept.join(" and ")} of the blocks stay in BF16`;
  return [
    `${name} (quantization)`,
    ...gemmNames.map((gemm) => `  ${gemm}: ${describeGemm(precision[gemm])}`),
    `  precision_policy=${policy}; ${layers}`,
    ...(settings.length === 0 ? [] : [`  switches: ${settings.join(" ")}`]),
    ...notes.map((note) => `  ${note}`),
    "",
  ].join("\n");
}
