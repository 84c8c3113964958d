/** Where a run goes on, and what of its settings stays as it began. */
import { readFileSync } from "node:fs";
import { UserError } from "../base/errors.ts";
import { reasonOf } from "../base/systemReason.ts";
import {
  type CheckpointPlace,
  listCheckpoints,
  newestCheckpoint,
  type RunFolder,
  unfinishedFolders,
} from "../checkpoint/index.ts";
import {
  type Config,
  type Difference,
  laterPrecision,
  movedPaths,
  type PartialSettings,
  refuseChangedRun,
  resolve,
  roundingNote,
  scheduleNotes,
  withSettings,
} from "../config/index.ts";

export interface PlaceToResume extends CheckpointPlace {
  /** Steps of newer checkpoints, which are not whole. */
  readonly damaged: readonly number[];
}

/** The checkpoint a run goes on from, or undefined for a run from the beginning. @throws UserError where all are damaged */
export async function placeToResume(
  { run }: Config,
  folder: RunFolder,
  say: (text: string) => void,
): Promise<PlaceToResume | undefined> {
  if (listCheckpoints(folder.checkpoints).length === 0) return undefined;
  if (!run.enableCheckpointing) {
    throw new UserError(
      "E_RESUME",
      `${folder.path} has checkpoints, and enable_checkpointing=false neither resumes nor saves: choose another run_name`,
    );
  }
  const faults: string[] = [];
  const damaged: number[] = [];
  const newest = await newestCheckpoint(folder.checkpoints, ({ step, path }, fault) => {
    faults.push(`${path} is not used: ${fault}`);
    damaged.push(step);
  });
  if (newest === undefined) {
    throw new UserError(
      "E_RESUME",
      `none of the checkpoints in ${folder.checkpoints} is whole:\n  ${faults.join("\n  ")}\nRestore one, delete the folder to begin anew, or choose another run_name`,
    );
  }
  for (const path of unfinishedFolders(folder.checkpoints))
    say(`${path} was not finished: its process ended meanwhile`);
  for (const fault of faults) say(fault);
  return { ...newest, damaged };
}

/** What a run goes on with. */
export interface Continuation {
  readonly config: Config;
  /** Paths that are others than before: what they hold is to be compared. */
  readonly moved: readonly Difference[];
}

/** The configuration of a run that goes on. @throws UserError where it is another run's, or has no step left to do */
export function continued(
  now: Config,
  folder: RunFolder,
  { step, path }: CheckpointPlace,
  say: (text: string) => void,
): Continuation {
  const saved = savedConfig(folder, path);
  const config = withSavedSchedule(now, saved.keys, say);
  refuseChangedRun(saved.keys, config.keys, folder.path);
  refuseOtherPast(saved, config, step, folder.path);
  const { steps } = config.run;
  if (step > steps) {
    throw new UserError(
      "E_RESUME",
      `${folder.path} has done ${step} steps already, more than steps=${steps}: raise steps, or choose another run_name`,
    );
  }
  const note = roundingNote(saved.keys, config.keys);
  if (note !== undefined) say(note);
  say(step === steps ? `${path} is the last step already; raise steps to train on` : `resuming from ${path}`);
  return { config, moved: movedPaths(saved.keys, config.keys) };
}

/** The schedule stays as long as it was, where nobody set its length and more steps would stretch it. */
function withSavedSchedule(now: Config, saved: PartialSettings, say: (text: string) => void): Config {
  const key = "learning_rate_schedule_steps";
  const length = saved[key];
  if (length === undefined || length === now.keys[key] || !now.derived.includes(key)) return now;
  const config = withSettings(now, { [key]: length });
  say(`${key}=${length} stays as the run began; steps=${now.run.steps} does not stretch the schedule`);
  return { ...config, notes: [...config.notes, ...scheduleNotes(config)] };
}

/** Of steps to come that would change no weight, for the schedule has ended at a rate of 0; undefined where there are none. */
export function idleStepsWarning(
  { run, optimizer }: Config,
  folder: RunFolder,
  { step }: CheckpointPlace,
): string | undefined {
  const { decay } = optimizer.schedule;
  const { steps } = run;
  if (decay === undefined || decay.after !== 0 || Math.max(step, decay.end) >= steps) return undefined;
  const first = Math.max(step, decay.end) + 1;
  return (
    `${first === steps ? `step ${steps} trains` : `steps ${first} to ${steps} train`} at learning rate 0, which changes no weight: ` +
    `the schedule ended at step ${decay.end}. To train on, begin a new run with load_parameters_path=${folder.path} and another run_name; ` +
    "where a run is to be extended later, set learning_rate_schedule_steps to its whole length from the start"
  );
}

/** Precision may switch at another step than a run began with, as long as the steps that are done stay what they were. */
function refuseOtherPast(saved: Config, now: Config, step: number, run: string): void {
  const past = (config: Config) => {
    const later = laterPrecision(config);
    return later === undefined || later.firstStep > step ? undefined : { ...later, name: later.precision.name };
  };
  const [before, after] = [past(saved), past(now)];
  if (before?.firstStep === after?.firstStep && before?.name === after?.name) return;
  const show = (phase: typeof before) =>
    phase === undefined ? "had no switch of precision" : `went on as ${phase.name} from step ${phase.firstStep} on`;
  const { precision_switch_step: at, precision_switch_gemms: gemms, precision_switch_to: to } = saved.keys;
  const fix =
    before === undefined
      ? `precision_switch_step may only change to a step from ${step + 1} on`
      : `that is past; set precision_switch_step=${at} precision_switch_gemms=${gemms} precision_switch_to=${to} again`;
  throw new UserError(
    "E_RESUME",
    `${run} has done ${step} steps, which ${show(before)}: ${fix}, or choose another run_name`,
  );
}

/** The settings a run was started with; keys that are newer than the run are at their defaults. */
function savedConfig({ config, events }: RunFolder, checkpoint: string): Config {
  try {
    return resolve(JSON.parse(readFileSync(config, "utf8")), {}, { draft: true });
  } catch (error) {
    throw new UserError(
      "E_RESUME",
      `${config} can't be read (${reasonOf(error)}), so that nothing tells whether the settings are the run's: put it back, or begin another run_name with this one's state by load_full_state_path=${checkpoint}; the start events in ${events} have the settings it had`,
    );
  }
}
