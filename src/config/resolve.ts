/**
 * From a preset and what the user set to one frozen configuration. Pure: the same input, the same result, no files
 * read. Order: defaults, preset, sizes of a model_name, overrides; then what is derived, and the rules between keys.
 */
import { invariant, UserError } from "../base/errors.ts";
import { modelSizes } from "../models/modelSizes.ts";
import type { Schedule } from "../optim/index.ts";
import { recipeByName } from "../quant/index.ts";
import { type CamelKeys, camelKeys } from "./camelCase.ts";
import { noEffect } from "./effect.ts";
import { fields } from "./fields.ts";
import { parseValue, showValue } from "./parseValue.ts";
import { type GroupName, groups, type SettingKey, type Settings } from "./schema.ts";
import { planOf, quantizes, scheduleOf } from "./stages.ts";
import { knownKey, unknownKey } from "./unknownKey.ts";

/** Some of the keys, with values of their types: what a preset is made of, and what a run's config.json holds. */
export type PartialSettings = Partial<Settings>;

type Group<G extends GroupName> = CamelKeys<Pick<Settings, Extract<keyof (typeof groups)[G]["shape"], SettingKey>>>;

export interface Config {
  readonly model: Group<"model">;
  readonly data: Group<"data">;
  readonly optimizer: Group<"optimizer"> & { readonly schedule: Schedule };
  readonly run: Group<"run">;
  /** Where nothing is quantized, precisionPolicy and the numbers of BF16 blocks say nothing. */
  readonly compute: Group<"compute">;
  /** Every key that has an effect, resolved, by its command-line name: `resolve(keys)` gives this again, notes aside. */
  readonly keys: PartialSettings;
  /** What the user should be told. */
  readonly notes: readonly string[];
}

/**
 * @param preset settings to start from; of these, keys without effect are left out silently.
 * @param overrides what the user set, by key; text is parsed. A key without effect is an error.
 * @throws UserError naming the key, the value and the rule.
 */
export function resolve(preset: PartialSettings = {}, overrides: Readonly<Record<string, unknown>> = {}): Config {
  const base = parseSettings(preset);
  const own = parseSettings(overrides);
  const defaults = Object.fromEntries([...fields.values()].map(({ key, defaultValue }) => [key, defaultValue]));
  const named = own.model_name ?? base.model_name ?? "custom";
  const sizes = named === "custom" ? {} : modelSizes[named];
  const layered = own.model_name === undefined ? { ...sizes, ...base, ...own } : { ...base, ...sizes, ...own };
  const given = { ...defaults, ...layered } as Settings;

  refuseChangedSizes(own, given);
  for (const key of Object.keys(own) as SettingKey[]) {
    const reason = noEffect(key, given);
    if (reason !== undefined) {
      throw new UserError("E_NO_EFFECT", `${key}=${showValue(own[key])} has no effect: ${reason}`);
    }
  }
  const idle = [...fields.values()].map(({ key }) => key).filter((key) => noEffect(key, given) !== undefined);
  const settings = derive({ ...given, ...pick(defaults as Settings, idle) });
  refuseContradictions(settings);
  const schedule = scheduleOf(settings);
  const plan = planOf(settings);
  if (quantizes(settings)) {
    settings.precision_policy = plan.policy;
    settings.last_layers_bf16 = plan.lastLayersBf16;
  }

  const group = <G extends GroupName>(name: G) =>
    camelKeys(pick(settings, Object.keys(groups[name].shape))) as Group<G>;
  const effective = [...fields.values()].map(({ key }) => key).filter((key) => noEffect(key, settings) === undefined);
  return deepFreeze({
    model: group("model"),
    data: group("data"),
    optimizer: { ...group("optimizer"), schedule },
    run: group("run"),
    compute: group("compute"),
    keys: pick(settings, effective),
    notes: [...plan.notes, ...scheduleNotes(settings, schedule)],
  });
}

/** The configuration with the tokenizer's number of tokens where vocab_size was left to it. */
export function withTokenizerVocab(config: Config, tokenizerVocab: number): Config {
  if (config.model.vocabSize !== -1) return config;
  return deepFreeze({ ...resolve({ ...config.keys, vocab_size: tokenizerVocab }), notes: config.notes });
}

/** Checks names and values of some keys; aliases become the keys they stand for. */
function parseSettings(given: Readonly<Record<string, unknown>>): PartialSettings {
  const parsed: Record<string, unknown> = {};
  const spelled: Record<string, string> = {};
  for (const [name, raw] of Object.entries(given)) {
    if (raw === undefined) continue;
    const key = knownKey(name);
    if (key === undefined) throw unknownKey(name);
    if (Object.hasOwn(parsed, key)) {
      throw new UserError("E_KEY", `${spelled[key]} and ${name} are the same setting: keep one`);
    }
    const field = fields.get(key);
    invariant(field !== undefined, `no field for ${key}`);
    const value = parseValue(name, raw, field.kind, field.rule);
    if (key === "quantization") requireRecipe(name, String(value));
    if (!field.accepts(value)) {
      throw new UserError("E_VALUE", `${name}=${showValue(raw)}: must be ${field.rule} (${field.doc})`);
    }
    parsed[key] = value;
    spelled[key] = name;
  }
  return parsed as PartialSettings;
}

/** Says more of a wrong name than that it is none of the list: that it is not built yet, or which is near. */
function requireRecipe(key: string, recipe: string): void {
  try {
    recipeByName(recipe);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    throw new UserError(error.code, `${key}=${recipe}: ${error.message}`);
  }
}

function refuseChangedSizes(own: PartialSettings, given: Settings): void {
  if (given.model_name === "custom" || given.override_model_config) return;
  const sizes = Object.entries(modelSizes[given.model_name]) as [SettingKey, unknown][];
  const [changed] = sizes.find(([key, size]) => own[key] !== undefined && own[key] !== size) ?? [];
  if (changed === undefined) return;
  throw new UserError(
    "E_MODEL_NAME",
    `${changed}=${own[changed]}: model_name=${given.model_name} sets the model's sizes; add override_model_config=true to change them, or leave model_name out`,
  );
}

/** Fills in what -1 leaves to other keys. */
function derive(given: Settings): Settings {
  const settings = { ...given };
  if (settings.head_dim === -1) {
    if (settings.emb_dim % settings.num_query_heads !== 0) {
      throw new UserError(
        "E_VALUE",
        `emb_dim=${settings.emb_dim} is no multiple of num_query_heads=${settings.num_query_heads}: change one, or set head_dim`,
      );
    }
    settings.head_dim = settings.emb_dim / settings.num_query_heads;
  }
  if (settings.vocab_size === -1 && settings.dataset_type === "synthetic") settings.vocab_size = 256;
  if (settings.vocab_size === -1 && settings.tokenizer_path === "byte") settings.vocab_size = 257;
  if (settings.learning_rate_schedule_steps === -1) settings.learning_rate_schedule_steps = settings.steps;
  return settings;
}

function refuseContradictions(settings: Settings): void {
  const fail = (message: string): never => {
    throw new UserError("E_VALUE", message);
  };
  const { num_query_heads: heads, num_kv_heads: kvHeads, head_dim: headDim } = settings;
  if (heads % kvHeads !== 0) {
    fail(`num_query_heads=${heads} is no multiple of num_kv_heads=${kvHeads}: each KV head serves equally many heads`);
  }
  if (headDim % 2 !== 0) fail(`head_dim=${headDim} is odd: rotary positions turn pairs of dimensions`);
  if (settings.dataset_type === "text" && settings.dataset_path === "") {
    fail("dataset_path is missing: set it to a text file, a folder or a pattern, or set dataset_type=synthetic");
  }
  const { dtype, quantization, initial_loss_scale: initial, min_loss_scale: minimum } = settings;
  if (dtype !== "bfloat16" && quantization !== "none") {
    fail(
      `quantization=${quantization} with dtype=${dtype}: recipes compute in BF16; set dtype=bfloat16, or quantization=none for ${dtype}`,
    );
  }
  if (initial < minimum)
    fail(`initial_loss_scale=${initial} is below min_loss_scale=${minimum}: raise one, or lower the other`);
  const { warmup_steps_fraction: warmup, wsd_decay_steps_fraction: decay } = settings;
  if (settings.lr_schedule_type === "wsd" && warmup + decay > 1) {
    fail(
      `warmup_steps_fraction=${warmup} and wsd_decay_steps_fraction=${decay} are longer than the schedule together: lower one`,
    );
  }
  const warmupSteps = scheduleOf(settings).warmupSteps;
  if (warmupSteps > settings.steps) {
    fail(
      `warm-up takes ${warmupSteps} steps (warmup_steps_fraction=${warmup} of learning_rate_schedule_steps=${settings.learning_rate_schedule_steps}), more than steps=${settings.steps}`,
    );
  }
}

function scheduleNotes({ steps }: Settings, { decay }: Schedule): string[] {
  if (decay === undefined || decay.end >= steps) return [];
  return [`after step ${decay.end} (learning_rate_schedule_steps) the learning rate is ${decay.after} to the end`];
}

function pick(settings: Settings, keys: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(keys.map((key) => [key, settings[key as SettingKey]]));
}

function deepFreeze<T extends object>(value: T): T {
  for (const part of Object.values(value)) if (typeof part === "object" && part !== null) deepFreeze(part);
  return Object.freeze(value);
}
