/** The configuration as text: all of it, and what two differ in. */
import { UserError } from "../base/errors.ts";
import { fields } from "./fields.ts";
import { showValue } from "./parseValue.ts";
import type { PartialSettings } from "./readSettings.ts";
import type { Config } from "./resolve.ts";
import { type GroupName, groups, type SettingKey } from "./schema.ts";

/** A `key=value` line for each key that has an effect, by groups, each under a `# group` line. */
export function showConfig(config: Config): string {
  const lines = (Object.keys(groups) as GroupName[]).flatMap((group) => [
    `# ${group}`,
    ...[...fields.values()]
      .filter((field) => field.group === group && config.keys[field.key] !== undefined)
      .map(({ key }) => `${key}=${showValue(config.keys[key])}`),
  ]);
  return `${lines.join("\n")}\n`;
}

export interface Difference {
  readonly key: SettingKey;
  /** undefined where the key has no effect there. */
  readonly before: string | number | boolean | undefined;
  readonly after: string | number | boolean | undefined;
}

/** The keys in which two configurations differ, in the order of the groups. */
export function differences(before: PartialSettings, after: PartialSettings): Difference[] {
  return [...fields.values()]
    .map(({ key }) => ({ key, before: before[key], after: after[key] }))
    .filter((difference) => difference.before !== difference.after);
}

/** Keys that may change when a run is resumed: they move its end, or only what is printed and saved. */
export const resumableKeys: readonly SettingKey[] = [
  "steps",
  "eval_interval",
  "eval_steps",
  "eval_precision",
  "enable_checkpointing",
  "checkpoint_period",
  "max_num_checkpoints_to_keep",
  "checkpoint_keep_period",
  "keep_best_checkpoint",
  "max_skipped_steps",
  "telemetry_period",
  "telemetry_gradient_cosine",
  "profiler",
  "skip_first_n_steps_for_profiler",
  "profiler_steps",
  "log_period",
  // Of steps to come; those that are done are compared where the run goes on.
  "precision_switch_step",
  "precision_switch_gemms",
  "precision_switch_to",
  // A matter of the machine, as whether kernels are there: the run says where they change.
  "native_kernels",
  // What it must run on changes nothing of what it computes.
  "hardware",
  // Where the run lies is how it was found.
  "run_name",
  "base_output_directory",
];

/** @throws UserError listing the keys that a resumed run may not change and does. */
export function refuseChangedRun(saved: PartialSettings, now: PartialSettings, run: string): void {
  const changed = differences(saved, now).filter(({ key }) => !resumableKeys.includes(key));
  if (changed.length === 0) return;
  const show = (value: Difference["before"]) => (value === undefined ? "(without effect)" : showValue(value));
  const list = changed.map(({ key, before, after }) => `  ${key}: ${show(before)} → ${show(after)}`);
  throw new UserError(
    "E_RESUME",
    `${run} was started with other settings:\n${list.join("\n")}\nSet them back to resume it, or choose another run_name`,
  );
}
