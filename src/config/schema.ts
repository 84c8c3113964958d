/**
 * Every setting, grouped. Each stage has those it reads in its own settings.ts: name on the command line, default, meaning
 * and range. Names are MaxText's where the meaning is; -1 stands for "derived", and the documentation says from what.
 */
import { z } from "zod";
import { dataSettings } from "../data/settings.ts";
import { blockSettings, modelSettings } from "../models/settings.ts";
import { optimizerSettings } from "../optim/settings.ts";
import { precisionSettings } from "../quant/settings.ts";
import { runSettings } from "../train/settings.ts";

const computeSettings = z.object({ ...precisionSettings.shape, ...blockSettings.shape });

/** The folders of src whose settings.ts has a key, in the order of the groups. */
export const settingsOfStages = {
  models: { ...modelSettings.shape, ...blockSettings.shape },
  data: dataSettings.shape,
  optim: optimizerSettings.shape,
  quant: precisionSettings.shape,
  train: runSettings.shape,
} as const;

/** The groups in the order they are shown. */
export const groups = {
  model: modelSettings,
  data: dataSettings,
  optimizer: optimizerSettings,
  run: runSettings,
  compute: computeSettings,
} as const;

export type GroupName = keyof typeof groups;

/** Values of every key by its command-line name. */
export type Settings = z.output<typeof modelSettings> &
  z.output<typeof dataSettings> &
  z.output<typeof optimizerSettings> &
  z.output<typeof runSettings> &
  z.output<typeof computeSettings>;

export type SettingKey = keyof Settings;
