/**
 * A run's checkpoint with the lowest validation loss: best.json says which, and the link `best` beside it leads to its folder.
 * The record decides; the link is for people and other programs.
 */
import { readFileSync, readlinkSync } from "node:fs";
import { rename, rm, symlink } from "node:fs/promises";
import { join, relative } from "node:path";
import { z } from "zod";
import { notWritable, type RunFolder } from "./runFolder.ts";
import { checkpointPath } from "./stepFolders.ts";
import { looksWhole, writeJson } from "./wholeFolder.ts";

const bestSchema = z.object({
  step: z.int().nonnegative(),
  /** Mean cross-entropy of the validation, in nats a token. */
  loss: z.number(),
  /** What the loss is a mean over: losses over other numbers of tokens are not compared. */
  validTokens: z.int().nonnegative(),
});

export type BestCheckpoint = z.infer<typeof bestSchema>;

/** undefined where none was chosen, or the one that was is no longer whole. */
export function bestCheckpoint(folder: RunFolder): BestCheckpoint | undefined {
  try {
    const best = bestSchema.parse(JSON.parse(readFileSync(folder.bestRecord, "utf8")));
    return looksWhole(checkpointPath(folder.checkpoints, best.step)) ? best : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Makes a step's checkpoint the best one where its validation loss is the lowest so far; a step that has no checkpoint never
 * is. @throws HalfbyteError where it can't be written
 */
export async function offerBestCheckpoint(folder: RunFolder, offered: BestCheckpoint): Promise<void> {
  const path = checkpointPath(folder.checkpoints, offered.step);
  const { step, loss, validTokens } = offered;
  if (!Number.isFinite(loss) || !looksWhole(path)) return;
  const best = bestCheckpoint(folder);
  const isBetter = best === undefined || best.validTokens !== validTokens || loss < best.loss;
  try {
    if (isBetter) {
      const unfinished = `${folder.bestRecord}.tmp`;
      await writeJson(unfinished, { step, loss, validTokens } satisfies BestCheckpoint);
      await rename(unfinished, folder.bestRecord);
    }
    // A process that was killed may have left it where it was.
    await link(folder, checkpointPath(folder.checkpoints, isBetter ? step : best.step));
  } catch (error) {
    throw notWritable(folder.bestRecord, error);
  }
}

/** No checkpoint of these steps, which were found damaged, is the best any more. @throws HalfbyteError where the record can't be removed */
export async function forgetDamagedBest(folder: RunFolder, damaged: ReadonlySet<number>): Promise<void> {
  const best = bestCheckpoint(folder);
  if (best === undefined || !damaged.has(best.step)) return;
  try {
    await rm(folder.best, { force: true });
    await rm(folder.bestRecord, { force: true });
  } catch (error) {
    throw notWritable(folder.bestRecord, error);
  }
}

async function link({ path, best }: RunFolder, checkpoint: string): Promise<void> {
  const target = relative(path, checkpoint);
  if (targetOf(best) === target) return;
  const unfinished = join(path, ".best.tmp");
  await rm(unfinished, { force: true });
  await symlink(target, unfinished);
  await rename(unfinished, best);
}

function targetOf(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch {
    return undefined;
  }
}
