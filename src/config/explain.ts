/** What keys mean, in words. */
import { effectRules } from "./effect.ts";
import { foreignKeys, isForeign } from "./elsewhere.ts";
import { type Field, fields } from "./fields.ts";
import { showValue } from "./parseValue.ts";
import { type GroupName, groups, settingsOfStages } from "./schema.ts";
import { aliases, sameValues, translations } from "./spellings.ts";
import { knownKey } from "./unknownKey.ts";

/** What a key means, may be, is by default, and who reads it; undefined for a name that is no key. */
export function explainKey(name: string): string | undefined {
  const field = fields.get(knownKey(name) ?? "");
  if (field !== undefined) return explainField(field);
  if (Object.hasOwn(translations, name)) {
    const { doc, rule } = translations[name]!;
    return `${name} (another spelling)\n  ${doc}.\n  Must be ${rule}.\n`;
  }
  if (!isForeign(name)) return undefined;
  const { neutral, reason } = foreignKeys[name]!;
  const values = neutral.map((value) => (value === "" ? "empty" : value)).join(", ");
  return `${name} (a key of MaxText)\n  Accepted where it asks for nothing: ${values}. Other values are refused:\n  ${reason}.\n`;
}

function explainField({ key, group, doc, rule, defaultValue }: Field): string {
  const spellings = Object.keys(aliases).filter((alias) => aliases[alias] === key);
  const values = Object.entries(sameValues[key] ?? {}).map(([other, own]) => `${other || "empty"} is ${own}`);
  const only = effectRules.filter(({ keys }) => keys.includes(key)).map((rule) => rule.only);
  return [
    `${key} (${group}; read by src/${stageOf(key)})`,
    `  ${doc}.`,
    `  Must be ${rule}. Default: ${showValue(defaultValue) || "empty"}.`,
    ...(only.length > 0 ? [`  Has an effect only ${only.join(", and ")}.`] : []),
    ...(spellings.length > 0 ? [`  Also written ${spellings.join(", ")}.`] : []),
    ...(values.length > 0 ? [`  Of values, ${values.join(", ")}.`] : []),
    "",
  ].join("\n");
}

/** The folder of src that a key's meaning is in. */
function stageOf(key: string): string {
  const [stage] = Object.entries(settingsOfStages).find(([, shape]) => Object.hasOwn(shape, key)) ?? ["config"];
  return stage;
}

/** One line for each key, by groups: name and meaning. */
export function explainKeys(): string {
  const width = Math.max(...[...fields.keys()].map((key) => key.length));
  const lines = (Object.keys(groups) as GroupName[]).flatMap((group) => [
    `# ${group}`,
    ...[...fields.values()]
      .filter((field) => field.group === group)
      .map(({ key, doc }) => `${key.padEnd(width)}  ${doc}`),
  ]);
  return `${lines.join("\n")}\n`;
}
