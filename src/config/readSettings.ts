/** Settings as they were written to settings by key: names, spellings and values are checked, every mistake collected. */
import { UserError } from "../base/errors.ts";
import { refusedAttention } from "../models/attentionNames.ts";
import { isCustomRecipe, recipeByName } from "../quant/index.ts";
import { isForeign, refusedElsewhere } from "./elsewhere.ts";
import { type Field, fields } from "./fields.ts";
import { parseValue, showValue, unquoted } from "./parseValue.ts";
import type { SettingKey, Settings } from "./schema.ts";
import { nearestChoice, sameValues, type Translation, translations } from "./spellings.ts";
import { knownKey, meantKey, unknownKey } from "./unknownKey.ts";

/** Some of the keys, with values of their types: what a preset is made of, and what a run's config.json holds. */
export type PartialSettings = Partial<Settings>;

export interface ReadSettings {
  readonly settings: PartialSettings;
  /** How each key was written: "lr_decay_iters=90". */
  readonly written: Readonly<Partial<Record<SettingKey, string>>>;
  readonly mistakes: readonly UserError[];
  /** Keys of which nothing is known because of a mistake. */
  readonly doubtful: ReadonlySet<SettingKey>;
  /** Settings of other programs that ask for nothing here, as they were written. */
  readonly neutral: readonly string[];
}

export function readSettings(given: Readonly<Record<string, unknown>>): ReadSettings {
  const settings: Partial<Record<SettingKey, unknown>> = {};
  const written: Partial<Record<SettingKey, string>> = {};
  const mistakes: UserError[] = [];
  const doubtful = new Set<SettingKey>();
  const neutral: string[] = [];

  const set = (key: SettingKey, value: unknown, as: string): void => {
    const before = written[key];
    if (before !== undefined && settings[key] !== value) {
      throw new UserError("E_KEY", `${before} and ${as} say different things of the same setting, ${key}: keep one`);
    }
    settings[key] = value;
    written[key] ??= as;
  };
  const read = (name: string, raw: unknown): void => {
    const as = `${name}=${showValue(raw)}`;
    const key = knownKey(name);
    if (key !== undefined) set(key, checkedValue(fields().get(key)!, name, raw), as);
    else if (Object.hasOwn(translations, name)) {
      for (const [part, value] of Object.entries(translate(translations[name]!, name, raw))) {
        set(part as SettingKey, checkedValue(fields().get(part)!, part, value, as), as);
      }
    } else if (isForeign(name)) {
      const reason = refusedElsewhere(name, raw);
      if (reason !== undefined) throw new UserError("E_UNSUPPORTED", `${as}: ${reason}`);
      neutral.push(as);
    } else throw unknownKey(name);
  };

  for (const [name, raw] of Object.entries(given)) {
    if (raw === undefined) continue;
    try {
      read(name, raw);
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      mistakes.push(error);
      const meant = meantKey(name);
      if (meant !== undefined) doubtful.add(meant);
    }
  }
  return { settings: settings as PartialSettings, written, mistakes, doubtful, neutral };
}

/** @param as what was written, where that is not `name=raw` */
function checkedValue(field: Field, name: string, raw: unknown, as = `${name}=${showValue(raw)}`): unknown {
  const { key, kind, rule, choices } = field;
  if (key === "quantization") {
    const text = typeof raw === "object" && raw !== null ? JSON.stringify(raw) : raw;
    return checkedRecipe(String(translated(key, parseValue(name, text, kind, rule))), as);
  }
  if (key === "attention") refuseAttention(unquoted(String(raw)), as);
  let value: unknown;
  try {
    // A choice between true, false and what is derived is written in words, in a preset perhaps as a boolean.
    const word = choices?.includes(String(raw)) ? String(raw) : raw;
    value = translated(key, parseValue(name, word, kind, rule));
    if (field.accepts(value)) return value;
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
  }
  const near = choices && typeof raw === "string" ? nearestChoice(key, unquoted(raw), choices) : undefined;
  const hint = near === undefined ? "" : `; did you mean ${near}?`;
  const subject = as.startsWith(`${name}=`) ? "" : `${name}=${showValue(raw)} `;
  throw new UserError("E_VALUE", `${as}: ${subject}must be ${rule}${hint} (${field.group}: ${field.doc})`);
}

/** Kernels of other systems that do something else: refused with the reason. */
function refuseAttention(kernel: string, as: string): void {
  const reason = Object.hasOwn(refusedAttention, kernel) ? refusedAttention[kernel] : undefined;
  if (reason !== undefined) throw new UserError("E_VALUE", `${as}: ${reason}; leave it out`);
}

function translated(key: SettingKey, value: string | number | boolean): string | number | boolean {
  const same = sameValues[key];
  return same !== undefined && typeof value === "string" && Object.hasOwn(same, value) ? same[value]! : value;
}

/** Says more of a wrong name than that it is none of the list: that it is not built yet, or which is near. */
function checkedRecipe(recipe: string, as: string): string {
  try {
    const { name } = recipeByName(recipe);
    return isCustomRecipe(recipe) ? JSON.stringify(inKeyOrder(JSON.parse(recipe))) : name;
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    throw new UserError(error.code, `${isCustomRecipe(recipe) ? "quantization" : as}: ${error.message}`);
  }
}

/** The same with the keys of all objects in order, so that one recipe is one text however it was written. */
function inKeyOrder(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(inKeyOrder);
  if (typeof value !== "object" || value === null) return value;
  const sorted = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(sorted.map(([key, part]) => [key, inKeyOrder(part)]));
}

function translate(
  { kind, rule, doc, toSettings }: Translation,
  name: string,
  raw: unknown,
): Readonly<Record<string, unknown>> {
  const settings = toSettings(parseValue(name, raw, kind, rule) as never);
  if (typeof settings === "object") return settings;
  const why = settings ?? `must be ${rule} (${doc})`;
  throw new UserError("E_VALUE", `${name}=${showValue(raw)}: ${why}`);
}
