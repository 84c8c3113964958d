/**
 * Configuration: a preset's settings and the user's `key=value` in, one frozen `Config` out.
 * A new key is a row in the settings.ts of the stage that reads it (default, meaning, range); rules between keys are in
 * resolve.ts, and where a key has no effect in effect.ts.
 */

export { modelSizes } from "../models/modelSizes.ts";
export { foreignKeys } from "./elsewhere.ts";
export { explainKey, explainKeys, factsOf, type KeyFacts } from "./explain.ts";
export { type Field, fields, type ValueKind } from "./fields.ts";
export { parseValue } from "./parseValue.ts";
export {
  type EvalPrecision,
  evalPrecisions,
  type LaterPrecision,
  laterPrecision,
} from "./precisionPhases.ts";
export { type PartialSettings, readSettings } from "./readSettings.ts";
export {
  type Config,
  type ResolveOptions,
  resolve,
  scheduleNotes,
  withSettings,
  withTokenizerVocab,
} from "./resolve.ts";
export { movedPaths, refuseChangedRun, resumable, resumableKeys, roundingNote } from "./resuming.ts";
export type { SettingKey, Settings } from "./schema.ts";
export { type Difference, differences, showConfig } from "./show.ts";
export { adamwSettings, llamaConfig, lossScaleSettings, precisionPlan } from "./stages.ts";
export { knownKey, meantName, settableNames, unknownKey } from "./unknownKey.ts";
