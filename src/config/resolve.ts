/**
 * From a preset and what the user set to one frozen configuration. Pure: the same input, the same result, no files
 * read. Layers, each over the one before: defaults, preset, a file's settings, overrides; a layer's model_name sets sizes
 * below its other keys. Then what is derived, and the rules between keys. All mistakes are told in one message.
 */
import { refuseMistakes, UserError } from "../base/errors.ts";
import { isWithinDocuments, strategyOf } from "../data/packingSettings.ts";
import { attentionNotes } from "../models/attentionNames.ts";
import { type ModelSizes, modelSizes } from "../models/modelSizes.ts";
import type { Schedule } from "../optim/index.ts";
import { settingsOfSwitches } from "../quant/index.ts";
import { type CamelKeys, camelKeys } from "./camelCase.ts";
import { effectRules, noEffect } from "./effect.ts";
import { fields } from "./fields.ts";
import { laterPrecisionOf } from "./precisionPhases.ts";
import { type PartialSettings, type ReadSettings, readSettings } from "./readSettings.ts";
import { rules } from "./rules.ts";
import { type GroupName, groups, type SettingKey, type Settings } from "./schema.ts";
import { planOf, quantizes, scheduleOf } from "./stages.ts";

type Group<G extends GroupName> = CamelKeys<Pick<Settings, Extract<keyof (typeof groups)[G]["shape"], SettingKey>>>;

/** A whole configuration, resolved and frozen, by groups; what the stages read. */
export interface Config {
  readonly model: Group<"model">;
  readonly data: Group<"data">;
  readonly optimizer: Group<"optimizer"> & { readonly schedule: Schedule };
  readonly run: Group<"run">;
  /** Where nothing is quantized, precisionPolicy, the numbers of BF16 blocks and the recipes' switches say nothing. */
  readonly compute: Group<"compute">;
  /** Every key that has an effect, resolved, by its command-line name: `resolve(keys)` gives this again, notes aside. */
  readonly keys: PartialSettings;
  /** The keys whose values nobody chose: they follow from others. */
  readonly derived: readonly SettingKey[];
  /** What the user should be told. */
  readonly notes: readonly string[];
}

/** Where the settings come from, for messages. */
export interface ResolveOptions {
  /** Settings of a file, between preset and overrides, and checked as strictly as these; `name` is for messages. */
  readonly file?: { readonly name: string; readonly settings: Readonly<Record<string, unknown>> };
  /** The user's module that made the preset. */
  readonly presetFile?: string;
  /** Settings to look at, not to run: what only a run needs may be missing. */
  readonly draft?: boolean;
}

/**
 * @param preset settings to start from; of these, keys without effect are left out silently.
 * @param overrides what the user set, by key; text is parsed. A key without effect is an error.
 * @throws UserError naming, for each mistake, the key, the value and the rule.
 */
export function resolve(
  preset: PartialSettings = {},
  overrides: Readonly<Record<string, unknown>> = {},
  { file, presetFile, draft = false }: ResolveOptions = {},
): Config {
  const base = readSettings(preset);
  const filed = readSettings(file?.settings ?? {});
  const own = readSettings(overrides);
  const before = layered(layered(defaults(), base.settings), filed.settings);
  const given = layered(before, own.settings);

  const doubtful = new Set([base, filed, own].flatMap((layer) => [...layer.doubtful]));
  const settings = derive(withoutIdle(given));
  const inFile = (name: string | undefined) => (mistake: UserError) =>
    name === undefined ? mistake : new UserError(mistake.code, `in ${name}: ${mistake.message}`);
  refuseMistakes(
    [
      ...base.mistakes.map(inFile(presetFile)),
      ...[...filed.mistakes, ...misplaced(filed, before, doubtful)].map(inFile(file?.name)),
      ...own.mistakes,
      ...misplaced(own, given, doubtful),
      ...contradictions(settings, [own, filed, base], doubtful, draft),
    ],
    "things are wrong",
  );

  const schedule = scheduleOf(settings);
  const plan = planOf(settings);
  if (quantizes(settings)) {
    settings.precision_policy = plan.policy;
    settings.first_layers_bf16 = plan.firstLayersBf16;
    settings.last_layers_bf16 = plan.lastLayersBf16;
    Object.assign(settings, settingsOfSwitches(plan.recipe.switches));
  }
  const group = <G extends GroupName>(name: G) =>
    camelKeys(pick(settings, Object.keys(groups[name].shape))) as Group<G>;
  const effective = allKeys().filter((key) => noEffect(key, settings) === undefined);
  return deepFreeze({
    model: group("model"),
    data: group("data"),
    optimizer: { ...group("optimizer"), schedule },
    run: group("run"),
    compute: group("compute"),
    keys: pick(settings, effective),
    derived: effective.filter((key) => given[key] !== settings[key]),
    notes: [
      ...neutralNotes([base, filed, own]),
      ...plan.notes,
      ...switchNotes(settings, schedule),
      ...attentionNotes(settings.attention),
      ...scheduleNotes({ run: settings, optimizer: { schedule } }),
    ],
  });
}

/** The configuration with some settings set that were left open; what a run needs was asked for when it was resolved. */
export function withSettings(config: Config, settings: PartialSettings): Config {
  const { notes, derived } = config;
  return deepFreeze({ ...resolve({ ...config.keys, ...settings }, {}, { draft: true }), notes, derived });
}

/** The configuration with the tokenizer's number of tokens where vocab_size was left to it. */
export function withTokenizerVocab(config: Config, tokenizerVocab: number): Config {
  return config.model.vocabSize === -1 ? withSettings(config, { vocab_size: tokenizerVocab }) : config;
}

const allKeys = (): SettingKey[] => [...fields().values()].map(({ key }) => key);

const defaults = () =>
  Object.fromEntries([...fields().values()].map(({ key, defaultValue }) => [key, defaultValue])) as Settings;

function layered(below: Settings, own: PartialSettings): Settings {
  const sizes = own.model_name === undefined || own.model_name === "custom" ? {} : modelSizes[own.model_name];
  // Two ways to say one thing: the later layer's counts.
  const warmup = own.warmup_steps_fraction !== undefined ? { warmup_steps: -1 } : {};
  return { ...below, ...sizes, ...warmup, ...own };
}

/** Keys without effect at their defaults, so that nothing reads what does not count. */
function withoutIdle(given: Settings): Settings {
  const idle = allKeys().filter((key) => noEffect(key, given) !== undefined);
  return { ...given, ...pick(defaults(), idle) };
}

/** Fills in what -1 leaves to other keys. */
function derive(given: Settings): Settings {
  const settings = { ...given };
  if (settings.head_dim === -1) settings.head_dim = settings.emb_dim / settings.num_query_heads;
  if (settings.vocab_size === -1 && settings.dataset_type === "synthetic") settings.vocab_size = 256;
  if (settings.vocab_size === -1 && settings.tokenizer_path === "byte") settings.vocab_size = 257;
  const { packing, reset_attention_mask: resetAttentionMask, dataset_type: datasetType } = settings;
  settings.packing = strategyOf({ packing, datasetType });
  settings.reset_attention_mask = isWithinDocuments({ packing, resetAttentionMask, datasetType }) ? "true" : "false";
  if (settings.learning_rate_schedule_steps === -1) settings.learning_rate_schedule_steps = settings.steps;
  return settings;
}

/** Settings of a layer that change a named model's sizes unasked, or that have no effect. */
function misplaced(own: ReadSettings, given: Settings, doubtful: ReadonlySet<SettingKey>): UserError[] {
  const keys = Object.keys(own.settings) as SettingKey[];
  const size = (key: SettingKey) =>
    given.model_name === "custom" ? undefined : modelSizes[given.model_name][key as keyof ModelSizes];
  const isChangedSize = (key: SettingKey) =>
    !given.override_model_config && size(key) !== undefined && size(key) !== own.settings[key];
  const decisive = (key: SettingKey) => effectRules.flatMap(({ keys, reads }) => (keys.includes(key) ? reads : []));
  const known = (key: SettingKey) => !decisive(key).some((read) => doubtful.has(read));

  const changed = doubtful.has("model_name") || doubtful.has("override_model_config") ? [] : keys.filter(isChangedSize);
  return [
    ...(changed.length === 0
      ? []
      : [
          new UserError(
            "E_MODEL_NAME",
            `${changed.map((key) => own.written[key]).join(", ")}: model_name=${given.model_name} sets the model's sizes; add override_model_config=true to change them, or leave model_name out`,
          ),
        ]),
    ...keys.filter(known).flatMap((key) => {
      const reason = noEffect(key, given);
      return reason === undefined ? [] : [new UserError("E_NO_EFFECT", `${own.written[key]} has no effect: ${reason}`)];
    }),
  ];
}

/** @param layers what was written, the highest first */
function contradictions(
  settings: Settings,
  layers: readonly ReadSettings[],
  doubtful: ReadonlySet<SettingKey>,
  draft: boolean,
): UserError[] {
  return rules
    .filter(({ reads, runOnly }) => !(draft && runOnly) && !reads.some((key) => doubtful.has(key)))
    .flatMap(({ reads, mistake }) => {
      const message = mistake(settings);
      if (message === undefined) return [];
      const named = reads.filter((key) => new RegExp(`\\b${key}\\b`).test(message));
      return [new UserError("E_VALUE", `${message}${otherwiseWritten(named, settings, layers)}`)];
    });
}

/** " (last_layers_bf16=14 is from mixed_precision_recipe=…)" for those of `keys` that were written by another name. */
function otherwiseWritten(keys: readonly SettingKey[], settings: Settings, layers: readonly ReadSettings[]): string {
  const origins = keys.flatMap((key) => {
    const written = layers.find((layer) => layer.written[key] !== undefined)?.written[key];
    return written === undefined || written.startsWith(`${key}=`) ? [] : [`${key}=${settings[key]} is from ${written}`];
  });
  return origins.length === 0 ? "" : ` (${origins.join("; ")})`;
}

function neutralNotes(layers: readonly ReadSettings[]): string[] {
  const neutral = layers.flatMap((layer) => layer.neutral);
  return neutral.length === 0
    ? []
    : [`accepted, for they ask for nothing else than what is done: ${neutral.join(", ")}`];
}

function switchNotes(settings: Settings, schedule: Schedule): string[] {
  const later = laterPrecisionOf(settings, schedule);
  if (later === undefined) return [];
  const { firstStep, precision } = later;
  if (firstStep > settings.steps) return [`step ${firstStep}, of precision_switch_step, comes after the last step`];
  return [`from step ${firstStep} on the precision is ${precision.name} (precision_switch_step)`];
}

/** What is worth knowing of a schedule beside the steps of its run. */
export function scheduleNotes({ run, optimizer }: ScheduledRun): string[] {
  const { decay } = optimizer.schedule;
  if (decay === undefined || decay.end >= run.steps) return [];
  return [`after step ${decay.end} (learning_rate_schedule_steps) the learning rate is ${decay.after} to the end`];
}

interface ScheduledRun {
  readonly run: { readonly steps: number };
  readonly optimizer: { readonly schedule: Schedule };
}

function pick(settings: Settings, keys: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(keys.map((key) => [key, settings[key as SettingKey]]));
}

function deepFreeze<T extends object>(value: T): T {
  for (const part of Object.values(value)) if (typeof part === "object" && part !== null) deepFreeze(part);
  return Object.freeze(value);
}
