/** What of its settings a run may change when it goes on, and why; every other key stays as the run began. */
import { UserError } from "../base/errors.ts";
import { showValue } from "./parseValue.ts";
import type { PartialSettings } from "./readSettings.ts";
import type { SettingKey } from "./schema.ts";
import { type Difference, differences } from "./show.ts";

export interface ResumableKeys {
  readonly keys: readonly SettingKey[];
  /** Why they may change. */
  readonly why: string;
  /** Set: a change is one of rounding, which the run says. */
  readonly rounds?: true;
  /** Whether one of them may change to what it is now; absent: it may. */
  readonly allows?: (before: PartialSettings, now: PartialSettings, key: SettingKey) => boolean;
}

/** Where files are that a run reads. */
const pathKeys: readonly SettingKey[] = ["dataset_path", "eval_dataset_path", "tokenizer_path"];

/** How the sequences of a step are cut. */
const cutKeys: readonly SettingKey[] = ["per_device_batch_size", "gradient_accumulation_steps"];

/** The rows of the table in docs/checkpoints.md. */
export const resumable: readonly ResumableKeys[] = [
  {
    keys: ["run_name", "base_output_directory"],
    why: "they are how the run is found: its folder may be moved or renamed",
  },
  {
    keys: pathKeys,
    why: "as long as what they hold stays, and a mixture's order and shares (`5;3` are those of `0.5;0.3`): files may be moved or mounted elsewhere; their hashes are compared",
    allows: (before, now, key) => Boolean(before[key]) && Boolean(now[key]),
  },
  { keys: ["steps"], why: "where the run ends; a schedule stays as long as it began" },
  { keys: ["eval_interval", "eval_steps", "eval_precision"], why: "validation changes no state" },
  {
    keys: [
      "enable_checkpointing",
      "checkpoint_period",
      "max_num_checkpoints_to_keep",
      "checkpoint_keep_period",
      "keep_best_checkpoint",
    ],
    why: "what is saved and kept, not what is computed",
  },
  {
    keys: [
      "log_period",
      "telemetry_period",
      "telemetry_gradient_cosine",
      "profiler",
      "skip_first_n_steps_for_profiler",
      "profiler_steps",
    ],
    why: "what is told and measured, not what is computed",
  },
  { keys: ["max_skipped_steps"], why: "when to give up, not what is computed" },
  {
    keys: ["precision_switch_step", "precision_switch_gemms", "precision_switch_to"],
    why: "for steps to come; those that are done stay what they were",
  },
  {
    keys: cutKeys,
    why: "as long as their product stays: a step has the same sequences, however they are cut",
    rounds: true,
    allows: (before, now) => sequencesOf(before) === sequencesOf(now),
  },
  {
    keys: ["tokenize_workers", "remat_policy", "scan_layers", "packed_residuals", "attention"],
    why: "how the same numbers are computed, and in how much memory",
    rounds: true,
  },
  { keys: ["hardware", "native_kernels"], why: "a matter of the machine; the run says where other kernels compute" },
];

export const resumableKeys: readonly SettingKey[] = resumable.flatMap(({ keys }) => keys);

const sequencesOf = ({ per_device_batch_size: batch = 1, gradient_accumulation_steps: micro = 1 }: PartialSettings) =>
  batch * micro;

const show = (value: Difference["before"]) => (value === undefined ? "(without effect)" : showValue(value));

/** @throws UserError listing the keys that a resumed run may not change and does. */
export function refuseChangedRun(saved: PartialSettings, now: PartialSettings, run: string): void {
  const refused = resumable.flatMap(({ keys, allows }) => keys.filter((key) => allows?.(saved, now, key) === false));
  const changed = differences(saved, now).filter(({ key }) => refused.includes(key) || !resumableKeys.includes(key));
  if (changed.length === 0) return;
  // Another path may be why the others differ, as a tokenizer's is of vocab_size.
  const told = differences(saved, now).filter(
    (one) => pathKeys.includes(one.key) || changed.some(({ key }) => key === one.key),
  );
  const list = told.map(({ key, before, after }) => `  ${key}: ${show(before)} → ${show(after)}`);
  const sequences = changed.some(({ key }) => cutKeys.includes(key))
    ? `; per_device_batch_size times gradient_accumulation_steps must stay ${sequencesOf(saved)}`
    : "";
  throw new UserError(
    "E_RESUME",
    `${run} was started with other settings:\n${list.join("\n")}\nSet them back to resume it${sequences}, or choose another run_name; load_full_state_path=${run} begins a run of other settings with its whole state`,
  );
}

/** The paths that are others than when the run began; what they hold is to be compared. */
export const movedPaths = (saved: PartialSettings, now: PartialSettings): Difference[] =>
  differences(saved, now).filter(({ key }) => pathKeys.includes(key));

/** Says which changed settings make results differ in rounding from here on; undefined where none does. */
export function roundingNote(saved: PartialSettings, now: PartialSettings): string | undefined {
  const keys = resumable.filter(({ rounds }) => rounds).flatMap((row) => row.keys);
  const changed = differences(saved, now).filter(({ key }) => keys.includes(key));
  if (changed.length === 0) return undefined;
  // Another path may be why the others differ, as a tokenizer's is of vocab_size.
  const told = differences(saved, now).filter(
    (one) => pathKeys.includes(one.key) || changed.some(({ key }) => key === one.key),
  );
  const list = told.map(({ key, before, after }) => `${key} ${show(before)} → ${show(after)}`);
  return `from here on: ${list.join(", ")}; the same sequences, steps and learning rates, with other rounding`;
}
