/** Presets: whole run configurations by name, each a short function that returns settings. */

export { demo } from "./demo.ts";
export { llama3_8b, llama3_70b, llama31_405b } from "./llama3.ts";
export { llamaTiny } from "./llamaTiny.ts";
export { presetModules, readPreset, type UserPreset } from "./readPreset.ts";
export { isPreset, type Preset, type PresetName, presetByName, presets } from "./table.ts";
