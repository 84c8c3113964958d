/** The presets by name. To add one: a file, a row. */
import { UserError } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";
import type { PartialSettings } from "../config/index.ts";
import { demo } from "./demo.ts";
import { llama3_8b, llama3_70b, llama31_405b } from "./llama3.ts";
import { llamaTiny } from "./llamaTiny.ts";

/** A whole run's settings, made by a function without arguments. */
export type Preset = () => PartialSettings;

const table = {
  "llama-tiny": llamaTiny,
  "llama3-8b": llama3_8b,
  "llama3-70b": llama3_70b,
  "llama3.1-405b": llama31_405b,
  demo,
} as const satisfies Record<string, Preset>;

/** Names of Halfbyte's presets. */
export type PresetName = keyof typeof table;
/** Halfbyte's presets by name. */
export const presets: Readonly<Record<PresetName, Preset>> = table;

export const isPreset = (name: string): name is PresetName => Object.hasOwn(presets, name);

/** The settings of the preset `name`. @throws UserError where there is none of that name. */
export function presetByName(name: string): PartialSettings {
  if (isPreset(name)) return presets[name]();
  const names = Object.keys(presets);
  const near = nearest(name, names);
  throw new UserError(
    "E_PRESET",
    `unknown preset "${name}"; ${near === undefined ? `known are ${names.join(", ")}` : `did you mean "${near}"?`}`,
  );
}
