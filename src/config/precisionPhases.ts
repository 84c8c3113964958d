/** Precision that is not the same throughout: a switch in the middle of a run, and that of validation. */
import { UserError } from "../base/errors.ts";
import type { Schedule } from "../optim/index.ts";
import {
  delayedOperand,
  gemmNames,
  isQuantized,
  linearTensors,
  type PrecisionPlan,
  type Recipe,
  recipeByName,
  switchesOf,
  switchKeys,
  switchPrecision,
} from "../quant/index.ts";
import { precisionSettings } from "../quant/settings.ts";
import type { Config } from "./resolve.ts";
import type { Settings } from "./schema.ts";
import { checkEveryLinear, modules, type PrecisionSettings, planOf, quantizes } from "./stages.ts";

/** The precision from a step on. */
export interface LaterPrecision {
  readonly firstStep: number;
  readonly precision: PrecisionPlan;
}

type SwitchSettings = Pick<Settings, "precision_switch_step" | "precision_switch_gemms" | "precision_switch_to">;

/** The precision after the switch, where there is one. @throws UserError where it never comes or changes nothing */
export function laterPrecisionOf(settings: PrecisionSettings & SwitchSettings, schedule: Schedule) {
  const { precision_switch_step: written, precision_switch_gemms: gemms, precision_switch_to: to } = settings;
  if (written === "never") return undefined;
  const as = `precision_switch_step=${written}`;
  const firstStep = written === "decay" ? decayBegin(schedule) : Number(written);
  if (firstStep === undefined) {
    throw new UserError("E_POLICY", `${as}: the learning rate's schedule has no decay: set the number of a step`);
  }
  if (firstStep < 2) {
    const where = written === "decay" ? ": the learning rate decays from the first step on" : "";
    throw new UserError("E_POLICY", `${as}${where}: there is nothing before step ${firstStep}; set a step from 2 on`);
  }
  const recipe = recipeInRun(to, settings);
  if (isDelayedRecipe(recipe)) {
    throw new UserError(
      "E_POLICY",
      `precision_switch_to=${to}: its scales come from the steps before, of which a run that begins otherwise has none`,
    );
  }
  const before = planOf(settings);
  const precision = switchPrecision(before, { recipe, gemms });
  checkEveryLinear(precision);
  if (!changes(before, precision)) {
    throw new UserError("E_POLICY", `${as}: precision_switch_to=${to} is what these GEMMs compute in already`);
  }
  return { firstStep, precision } satisfies LaterPrecision;
}

/** First step below the peak of the learning rate. */
function decayBegin({ decay }: Schedule): number | undefined {
  return decay === undefined || decay.start === decay.end ? undefined : decay.start + 1;
}

function changes(before: PrecisionPlan, after: PrecisionPlan): boolean {
  for (let layer = 0; layer < before.numLayers; layer++) {
    for (const module of modules) {
      const [a, b] = [before.precision(module, layer), after.precision(module, layer)];
      if (gemmNames.some((gemm) => JSON.stringify(a[gemm]) !== JSON.stringify(b[gemm]))) return true;
    }
  }
  return false;
}

const isDelayedRecipe = ({ precision }: Recipe): boolean =>
  linearTensors.some((tensor) => delayedOperand(precision, tensor) !== undefined);

/** The settings of a configuration, with the precision's defaults where they have no effect. */
const complete = ({ keys }: Config) => ({ ...precisionSettings.parse({}), ...keys }) as Settings;

/** The precision of a run's later steps, where it is another. */
export function laterPrecision(config: Config): LaterPrecision | undefined {
  return laterPrecisionOf(complete(config), config.optimizer.schedule);
}

/** The recipe of a name: that of the run's own quantization has the run's switches. */
const recipeInRun = (name: string, settings: PrecisionSettings): Recipe =>
  recipeByName(name, name === settings.quantization ? switchesOf(settings) : {});

/** What validation computes in: as training does at that step, or as a recipe does. */
export type EvalPrecision = "same" | PrecisionPlan;

/** The precisions of validation, the first for its main loss. @throws UserError for unknown names and repetitions */
export function evalPrecisionsOf(settings: PrecisionSettings & Pick<Settings, "eval_precision">): EvalPrecision[] {
  const { eval_precision: text } = settings;
  if (text.includes("{") || text.includes(".json")) {
    throw new UserError(
      "E_POLICY",
      `eval_precision=${text}: a recipe of your own can't be named here: train in it (quantization=) and validate in same`,
    );
  }
  const names = text.split(",").map((name) => name.trim());
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined) throw new UserError("E_POLICY", `eval_precision=${text} names ${twice} twice`);
  return names.map((name) => {
    if (name === "same") return "same";
    try {
      const recipe = recipeInRun(name, settings);
      if (isDelayedRecipe(recipe)) {
        throw new UserError("E_POLICY", "scales of delayed scaling come from training, which same computes as");
      }
      return evalPlan(name, recipe, settings);
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      throw new UserError(error.code, `eval_precision=${text}: must be same or a recipe: ${error.message}`);
    }
  });
}

/**
 * The run's plan with another recipe in place of its own: what the run keeps in BF16 stays so, and its overrides count. BF16
 * is BF16 throughout.
 */
function evalPlan(quantization: string, recipe: Recipe, settings: PrecisionSettings): PrecisionPlan {
  const { num_decoder_layers } = settings;
  const defaults: PrecisionSettings = { ...precisionSettings.parse({}), num_decoder_layers };
  if (!isQuantized(recipe.precision)) return planOf({ ...defaults, quantization });
  const run = planOf(settings);
  const switches = quantization === settings.quantization ? settings : defaults;
  return planOf({
    ...defaults,
    ...Object.fromEntries(switchKeys.map((key) => [key, switches[key]])),
    quantization,
    precision_overrides: settings.precision_overrides,
    ...(quantizes(settings) && {
      precision_policy: run.policy,
      first_layers_bf16: run.firstLayersBf16,
      last_layers_bf16: run.lastLayersBf16,
    }),
  });
}

export const evalPrecisions = (config: Config): EvalPrecision[] => evalPrecisionsOf(complete(config));
