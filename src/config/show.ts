/** The configuration as text: all of it, and what two differ in. */
import { fields } from "./fields.ts";
import { showValue } from "./parseValue.ts";
import type { PartialSettings } from "./readSettings.ts";
import type { Config } from "./resolve.ts";
import { type GroupName, groups, type SettingKey } from "./schema.ts";

/** A `key=value` line for each key that has an effect, by groups, each under a `# group` line. */
export function showConfig(config: Config): string {
  const lines = (Object.keys(groups) as GroupName[]).flatMap((group) => [
    `# ${group}`,
    ...[...fields().values()]
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
  return [...fields().values()]
    .map(({ key }) => ({ key, before: before[key], after: after[key] }))
    .filter((difference) => difference.before !== difference.after);
}
