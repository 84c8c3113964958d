/** What keys mean, in words. */
import { effectRules } from "./effect.ts";
import { foreignKeys, isForeign } from "./elsewhere.ts";
import { type Field, fields } from "./fields.ts";
import { showValue } from "./parseValue.ts";
import { type GroupName, groups, type SettingKey, settingsOfStages } from "./schema.ts";
import { aliases, sameValues, translations } from "./spellings.ts";
import { knownKey } from "./unknownKey.ts";

/** What a key means, may be, is by default, and who reads it; undefined for a name that is no key. */
export function explainKey(name: string): string | undefined {
  const field = fields().get(knownKey(name) ?? "");
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

/** What is known of a key, for programs. */
export interface KeyFacts {
  readonly key: SettingKey;
  readonly group: GroupName;
  readonly meaning: string;
  /** What a value may be: "an integer at least 1". */
  readonly rule: string;
  readonly default: string | number | boolean;
  /** The folder of src whose code reads it. */
  readonly readBy: string;
  /** Where it counts: "with lr_schedule_type=wsd"; all of them; none: always. */
  readonly hasEffectOnly: readonly string[];
  /** Other names of the same key. */
  readonly aliases: readonly string[];
  /** Other words for values, with what they are. */
  readonly sameValues: Readonly<Record<string, string>>;
}

export function factsOf({ key, group, doc, rule, defaultValue }: Field): KeyFacts {
  return {
    key,
    group,
    meaning: doc,
    rule,
    default: defaultValue,
    readBy: `src/${stageOf(key)}`,
    hasEffectOnly: effectRules.filter(({ keys }) => keys.includes(key)).map((rule) => rule.only),
    aliases: Object.keys(aliases).filter((alias) => aliases[alias] === key),
    sameValues: sameValues[key] ?? {},
  };
}

function explainField(field: Field): string {
  const facts = factsOf(field);
  const { key, group, meaning, rule, hasEffectOnly: only } = facts;
  const values = Object.entries(facts.sameValues).map(([other, own]) => `${other || "empty"} is ${own}`);
  return [
    `${key} (${group}; read by ${facts.readBy})`,
    `  ${meaning}.`,
    `  Must be ${rule}. Default: ${showValue(facts.default) || "empty"}.`,
    ...(only.length > 0 ? [`  Has an effect only ${only.join(", and ")}.`] : []),
    ...(facts.aliases.length > 0 ? [`  Also written ${facts.aliases.join(", ")}.`] : []),
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
  const width = Math.max(...[...fields().keys()].map((key) => key.length));
  const lines = (Object.keys(groups) as GroupName[]).flatMap((group) => [
    `# ${group}`,
    ...[...fields().values()]
      .filter((field) => field.group === group)
      .map(({ key, doc }) => `${key.padEnd(width)}  ${doc}`),
  ]);
  return `${lines.join("\n")}\n`;
}
