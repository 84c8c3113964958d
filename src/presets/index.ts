/** Presets: whole run configurations by name, each a short function that returns settings. To add one: a file, a row. */
import { UserError } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";
import type { PartialSettings } from "../config/index.ts";
import { demo } from "./demo.ts";
import { llamaTiny } from "./llamaTiny.ts";

export type Preset = () => PartialSettings;

export const presets: Readonly<Record<string, Preset>> = {
  "llama-tiny": llamaTiny,
  demo,
};

/** The settings of the preset `name`. @throws UserError where there is none of that name. */
export function presetByName(name: string): PartialSettings {
  const preset = Object.hasOwn(presets, name) ? presets[name] : undefined;
  if (preset !== undefined) return preset();
  const names = Object.keys(presets);
  const near = nearest(name, names);
  throw new UserError(
    "E_PRESET",
    `unknown preset "${name}"; ${near === undefined ? `known are ${names.join(", ")}` : `did you mean "${near}"?`}`,
  );
}

export { demo, llamaTiny };
