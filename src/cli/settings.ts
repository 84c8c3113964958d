/** Where a command's settings come from: a preset, a file, the command line. */
import { existsSync } from "node:fs";
import { extname, join } from "node:path";
import { UserError } from "../base/errors.ts";
import {
  type Config,
  type PartialSettings,
  type ResolveOptions,
  resolve,
  withTokenizerVocab,
} from "../config/index.ts";
import { isPreset, presetByName, presetModules, presets, readPreset } from "../presets/index.ts";
import { loadTokenizer } from "../tokenizers/index.ts";
import { readSettingsFile, type SettingsFile, withRecipeFile } from "./settingsFile.ts";

/** Settings to start from, in the terms of `resolve`. */
export interface SettingsSource {
  readonly preset?: PartialSettings;
  /** The module that made the preset, where it is the user's own. */
  readonly presetFile?: string;
  readonly file?: SettingsFile;
}

/** For help texts: what a PRESET on the command line may be. */
export const sourceHelp = `settings to start from: ${Object.keys(presets).join(", ")}; a module of your own
                          (mine.mjs: export default (presets) => ({ ...presets.demo(), steps: 50 });),
                          a .json file of settings, or the folder of a run`;

/** What `word` stands for: a preset's name, a module that makes one, a JSON file, a run's folder. @throws UserError */
export async function settingsSource(word: string): Promise<SettingsSource> {
  if (isPreset(word)) return { preset: presetByName(word) };
  if (presetModules.includes(extname(word))) {
    return { preset: await readPreset(word, presets), presetFile: word };
  }
  if (extname(word) === ".json") return { file: readSettingsFile(word) };
  if ([".yml", ".yaml"].includes(extname(word))) {
    throw new UserError(
      "E_CONFIG",
      `${word}: YAML is not read; leave out MaxText's base.yml, whose defaults are not ours, and write other settings as .json`,
    );
  }
  const ofRun = join(word, "config.json");
  if (existsSync(ofRun)) return { file: readSettingsFile(ofRun) };
  if (word.includes("/")) throw new UserError("E_CONFIG", `${word} is no folder of a run: it has no config.json`);
  return { preset: presetByName(word) };
}

/** The configuration of a command line: PRESET, `config=FILE` and the other settings. @throws UserError */
export async function configOf(
  word: string | undefined,
  settings: Readonly<Record<string, unknown>>,
  options: Pick<ResolveOptions, "draft"> = {},
): Promise<Config> {
  const { source, own } = await settingsOf(word, settings);
  const { preset, ...origin } = source;
  return resolve(preset, own, { ...options, ...origin });
}

/** A configuration to look at, with all of the model's sizes; a text data set needs no text for it, only its tokenizer. */
export async function sizedConfig(
  word: string | undefined,
  settings: Readonly<Record<string, unknown>>,
): Promise<Config> {
  const config = await configOf(word, settings, { draft: true });
  if (config.model.vocabSize !== -1) return config;
  return withTokenizerVocab(config, loadTokenizer(config.data.tokenizerPath).vocabSize);
}

/** The settings of a command line, not resolved yet. */
export async function settingsOf(
  word: string | undefined,
  settings: Readonly<Record<string, unknown>>,
): Promise<{ readonly source: SettingsSource; readonly own: Readonly<Record<string, unknown>> }> {
  const { config, ...own } = withRecipeFile(settings);
  const source = word === undefined ? {} : await settingsSource(word);
  if (config === undefined) return { source, own };
  if (source.file !== undefined) {
    throw new UserError("E_KEY", `${word} and config=${config} are two files of settings: keep one`);
  }
  return { source: { ...source, file: readSettingsFile(String(config)) }, own };
}
