/** A user's own preset: a module whose default export is a function from Halfbyte's presets to settings. */
import { existsSync } from "node:fs";
import { extname, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { UserError } from "../base/errors.ts";
import type { PartialSettings } from "../config/index.ts";
import { type Preset, type PresetName, presetByName } from "./table.ts";

/** `export default (presets) => ({ ...presets["llama-tiny"](), steps: 50 });` */
export type UserPreset = (presets: Readonly<Record<PresetName, Preset>>) => PartialSettings;

export const presetModules = [".js", ".mjs", ".ts", ".mts"];

/** @throws UserError where the module can't be loaded or is no preset */
export async function readPreset(
  path: string,
  presets: Readonly<Record<PresetName, Preset>>,
): Promise<PartialSettings> {
  const fail = (reason: string): never => {
    throw new UserError("E_PRESET", `${path}: ${reason}`);
  };
  if (!existsSync(path)) fail("there is no such file");
  const stripsTypes = (process.features as { typescript?: string | false }).typescript;
  if (/\.m?ts$/.test(extname(path)) && !stripsTypes) {
    fail(`Node.js ${process.versions.node} loads no TypeScript: write it as .mjs, or compile it`);
  }
  const module = await import(pathToFileURL(resolve(path)).href).catch((error: Error) =>
    fail(`can't be loaded (${error.message})`),
  );
  if (typeof module.default !== "function") {
    fail("its default export must be a function that returns settings: export default (presets) => ({ … })");
  }
  let settings: unknown;
  try {
    settings = await module.default(namingUnknown(presets));
  } catch (error) {
    fail(error instanceof Error ? error.message : String(error));
  }
  if (typeof settings !== "object" || settings === null || Array.isArray(settings)) {
    fail("its default export must return an object of settings: export default (presets) => ({ … })");
  }
  return settings as PartialSettings;
}

/** The presets, where a name that is none is refused with the nearest one, not undefined. */
function namingUnknown(presets: Readonly<Record<PresetName, Preset>>): typeof presets {
  return new Proxy(presets, {
    get: (target, key) => {
      // What promises and JSON look for on any object is no preset that is asked for.
      if (typeof key === "string" && !(key in target) && key !== "then" && key !== "toJSON") presetByName(key);
      return Reflect.get(target, key);
    },
  });
}
