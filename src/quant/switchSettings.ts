/** The switches of recipes as settings: which switch a key of the command line is, and how its words are the switch's values. */
import { recipeByName, recipeNames } from "./recipeNames.ts";

/** Key → the switch's name in its family; fp8_format says "hybrid" in words. */
export const switchSettings = {
  rht: "rht",
  rotation_size: "rotationSize",
  rotation_signs: "rotationSigns",
  stochastic_rounding: "stochasticRounding",
  weight_scaling: "weightScaling",
  scale_gain: "gain",
  scale_bound: "bound",
  row_scaled_activation: "rowScaledActivation",
  four_over_six: "fourOverSix",
  four_over_six_error: "fourOverSixError",
  mx_scale_rounding: "round",
  fp8_format: "hybrid",
  power_of_two_scales: "powerOfTwo",
  fp8_amax_history_len: "historyLength",
  fp8_amax_compute_algo: "algorithm",
  fp8_margin: "margin",
} as const satisfies Readonly<Record<string, string>>;

export type SwitchKey = keyof typeof switchSettings;
export const switchKeys = Object.keys(switchSettings) as readonly SwitchKey[];

/** A key's value that leaves the switch to the recipe. */
export const isLeftToRecipe = (value: string | number): boolean => value === "default" || value === -1;

/** Settings by key. */
export type SwitchValues = Readonly<Record<SwitchKey, string | number>>;

/** The switches that settings decide, in the recipe's terms. */
export function switchesOf(settings: SwitchValues): Readonly<Record<string, unknown>> {
  const set = switchKeys.filter((key) => !isLeftToRecipe(settings[key]));
  return Object.fromEntries(set.map((key) => [switchSettings[key], toSwitch(key, settings[key])]));
}

/** The recipe's switches as settings: those that it has and that one value says. */
export function settingsOfSwitches(switches: Readonly<Record<string, unknown>>): Partial<SwitchValues> {
  return Object.fromEntries(
    switchKeys.flatMap((key) => {
      const value = switches[switchSettings[key]];
      return value === undefined ? [] : [[key, toSetting(key, value)]];
    }),
  );
}

function toSwitch(key: SwitchKey, value: string | number): unknown {
  if (key === "fp8_format") return value === "hybrid";
  if (key === "rotation_size") return Number(value);
  return value === "true" ? true : value === "false" ? false : value;
}

function toSetting(key: SwitchKey, value: unknown): string | number {
  if (key === "fp8_format") return value === true ? "hybrid" : "e4m3";
  const isWord = typeof value === "boolean" || key === "rotation_size";
  return isWord ? String(value) : (value as string | number);
}

/** Whether the recipe of a name has the switch. */
export const hasSwitch = (recipe: string, key: SwitchKey): boolean =>
  Object.hasOwn(recipeByName(recipe).switches, switchSettings[key]);

/** The recipes that have a switch. */
export const recipesWith = (key: SwitchKey): string[] => recipeNames.filter((name) => hasSwitch(name, key));
