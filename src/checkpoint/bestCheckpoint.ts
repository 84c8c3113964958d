/**
 * A run's checkpoint with the lowest validation loss: best.json says which, and the link `best` beside it leads to its folder.
 * The record decides; the link is for people and other programs.
 */
import { lstatSync, readFileSync, readlinkSync } from "node:fs";
import { rename, rm, symlink, unlink } from "node:fs/promises";
import { join, relative } from "node:path";
import { z } from "zod";
import { UserError } from "../base/errors.ts";
import { reasonOf } from "../base/systemReason.ts";
import { looksLikeCheckpoint } from "./checkpointFault.ts";
import { notWritable, type RunFolder } from "./runFolder.ts";
import { checkpointPath } from "./stepFolders.ts";
import { writeJson } from "./wholeFolder.ts";

const bestSchema = z.object({
  step: z.int().nonnegative(),
  /** Mean cross-entropy of the validation, in nats a token. */
  loss: z.number(),
  /** What the loss is a mean over: losses over other numbers of tokens are not compared. */
  validTokens: z.int().nonnegative(),
  /** What it was computed in: losses in other precisions are not compared. Absent in older runs. */
  precision: z.string().optional(),
  /** Set: that was what the step trained in, which may have changed since; such losses are compared. */
  asTrained: z.boolean().optional(),
});

export type BestCheckpoint = z.infer<typeof bestSchema>;

/** undefined where none was chosen, or the one that was is no longer whole. */
export function bestCheckpoint(folder: RunFolder): BestCheckpoint | undefined {
  const record = readRecord(folder);
  return typeof record !== "string" && looksLikeCheckpoint(checkpointPath(folder.checkpoints, record.step))
    ? record
    : undefined;
}

/** What the record says, or why it says nothing. */
function readRecord({
  bestRecord,
}: RunFolder): BestCheckpoint | "is missing" | `can't be read (${string})` | "is damaged" {
  let text: string;
  try {
    text = readFileSync(bestRecord, "utf8");
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ENOENT" ? "is missing" : `can't be read (${reasonOf(error)})`;
  }
  try {
    return bestSchema.parse(JSON.parse(text));
  } catch {
    return "is damaged";
  }
}

/** Why a run's record does not lead to a best checkpoint; undefined where it does. */
export function bestRecordFault(folder: RunFolder): string | undefined {
  const record = readRecord(folder);
  if (typeof record === "string") return `${folder.bestRecord} ${record}`;
  const whole = looksLikeCheckpoint(checkpointPath(folder.checkpoints, record.step));
  return whole ? undefined : `${folder.bestRecord} names step ${record.step}, of which no whole checkpoint is there`;
}

/** @throws UserError where something that is no link lies in its place, which it would replace */
export function refuseBestPlace({ best }: RunFolder): void {
  const found = lstatSync(best, { throwIfNoEntry: false });
  if (found === undefined || found.isSymbolicLink()) return;
  throw new UserError(
    "E_OUTPUT",
    `${best} is ${found.isDirectory() ? "a folder" : "a file"}, and the link to the best checkpoint belongs there: move it away, or set keep_best_checkpoint=false`,
  );
}

/**
 * Makes a step's checkpoint the best one where its validation loss is the lowest so far; a step that has no checkpoint never
 * is. @returns a sentence where it is the best because its loss can't be compared with that of the best so far
 * @throws HalfbyteError where it can't be written
 */
export async function offerBestCheckpoint(folder: RunFolder, offered: BestCheckpoint): Promise<string | undefined> {
  if (!Number.isFinite(offered.loss) || !looksLikeCheckpoint(checkpointPath(folder.checkpoints, offered.step)))
    return undefined;
  const best = bestCheckpoint(folder);
  // A process that was killed may have left the link where it was.
  if (best !== undefined && comparable(best, offered) && !(offered.loss < best.loss)) {
    await link(folder, best.step);
    return undefined;
  }
  await write(folder, offered);
  if (best === undefined || comparable(best, offered)) return undefined;
  const over = ({ validTokens, precision }: BestCheckpoint) =>
    `over ${validTokens} tokens${precision === undefined ? "" : ` in ${precision}`}`;
  return (
    `the best checkpoint is chosen anew from step ${offered.step} on: its validation is ${over(offered)}, that of step ${best.step}, the best so far, ${over(best)}, ` +
    `and such losses are not compared (eval_steps, per_device_batch_size, eval_precision); the checkpoint of step ${best.step} is kept no longer for being the best`
  );
}

/**
 * What a run that starts finds: where the record leads to no whole checkpoint the best is chosen anew, or there is none.
 * @param evaluated the validations that count, by step; absent: none is to be chosen
 * @param damaged steps of checkpoints that were found damaged
 * @returns a sentence where that changed anything
 * @throws HalfbyteError where it can't be written
 */
export async function settleBest(
  folder: RunFolder,
  evaluated: readonly BestCheckpoint[] = [],
  damaged: ReadonlySet<number> = new Set(),
): Promise<string | undefined> {
  const isWhole = (step: number) => !damaged.has(step) && looksLikeCheckpoint(checkpointPath(folder.checkpoints, step));
  const record = readRecord(folder);
  if (typeof record !== "string" && isWhole(record.step)) return undefined;
  const whole = evaluated.filter(({ step, loss }) => Number.isFinite(loss) && isWhole(step));
  const last = whole.at(-1);
  const best = whole
    .filter((one) => comparable(one, last!))
    .reduce<BestCheckpoint | undefined>((a, b) => (a === undefined || b.loss < a.loss ? b : a), undefined);
  if (best !== undefined) await write(folder, best);
  else if (record === "is missing") return undefined;
  else await forget(folder);
  const why =
    typeof record === "string"
      ? `${folder.bestRecord} ${record}`
      : `the checkpoint of step ${record.step}, the best by validation, is ${damaged.has(record.step) ? "damaged" : "not there, or not whole"}`;
  const now =
    best === undefined
      ? "the next that is validated is the best"
      : `of those kept the best is that of step ${best.step}`;
  return `${why}: ${now}`;
}

/** Whether the lower loss is the better model. */
function comparable(a: BestCheckpoint, b: BestCheckpoint): boolean {
  if (a.validTokens !== b.validTokens) return false;
  if (a.precision === undefined || b.precision === undefined) return true;
  return a.precision === b.precision || (a.asTrained === true && b.asTrained === true);
}

async function write(folder: RunFolder, best: BestCheckpoint): Promise<void> {
  try {
    const unfinished = `${folder.bestRecord}.tmp`;
    await writeJson(unfinished, bestSchema.parse(best));
    await rename(unfinished, folder.bestRecord);
  } catch (error) {
    throw notWritable(folder.bestRecord, error);
  }
  await link(folder, best.step);
}

async function forget({ best, bestRecord }: RunFolder): Promise<void> {
  try {
    if (targetOf(best) !== undefined) await unlink(best);
    await rm(bestRecord, { force: true });
  } catch (error) {
    throw notWritable(bestRecord, error);
  }
}

async function link({ path, best, checkpoints }: RunFolder, step: number): Promise<void> {
  const target = relative(path, checkpointPath(checkpoints, step));
  if (targetOf(best) === target) return;
  try {
    const unfinished = join(path, ".best.tmp");
    await rm(unfinished, { force: true });
    await symlink(target, unfinished);
    await rename(unfinished, best);
  } catch (error) {
    throw notWritable(best, error);
  }
}

function targetOf(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch {
    return undefined;
  }
}
