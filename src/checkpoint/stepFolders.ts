/** A run's checkpoints by their steps: which there are, the newest that is whole, and the one that a path stands for. */
import { type Dirent, existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { UserError } from "../base/errors.ts";
import { checkpointFault } from "./checkpointFault.ts";
import { hasShards } from "./processShards.ts";

export interface CheckpointPlace {
  readonly step: number;
  readonly path: string;
}

export function checkpointPath(checkpoints: string, step: number): string {
  return join(checkpoints, `step-${String(step).padStart(8, "0")}`);
}

/** The checkpoints in a folder by step, whole or not: what is no folder is none. */
export function listCheckpoints(checkpoints: string): CheckpointPlace[] {
  if (!existsSync(checkpoints)) return [];
  return readdirSync(checkpoints, { withFileTypes: true })
    .flatMap((entry) => {
      const [, step] = /^step-(\d+)$/.exec(entry.name) ?? [];
      const path = join(checkpoints, entry.name);
      return step === undefined || !mayBeFolder(entry, path) ? [] : [{ step: Number(step), path }];
    })
    .sort((a, b) => a.step - b.step);
}

/** A link may lead to a folder; where the system does not say whether it does, it may. */
function mayBeFolder(entry: Dirent, path: string): boolean {
  if (!entry.isSymbolicLink()) return entry.isDirectory();
  try {
    return statSync(path).isDirectory();
  } catch {
    return true;
  }
}

/**
 * The newest checkpoint that is whole, or undefined. @param onDamaged told of newer ones that are not, and why
 * @throws UserError where the system can't read a newer one, which may be whole; it names the one to go on from without it
 */
export async function newestCheckpoint(
  checkpoints: string,
  onDamaged: (place: CheckpointPlace, fault: string) => void,
): Promise<CheckpointPlace | undefined> {
  for (const place of listCheckpoints(checkpoints).reverse()) {
    const fault = await checkpointFault(place.path).catch(async (error: unknown) => {
      if (!(error instanceof UserError)) throw error;
      throw new UserError(error.code, `${error.message}; ${await wayWithout(place, checkpoints)}`);
    });
    if (fault === undefined) return place;
    onDamaged(place, fault);
  }
  return undefined;
}

/** What to do about a checkpoint that the system can't read. */
async function wayWithout({ step, path }: CheckpointPlace, checkpoints: string): Promise<string> {
  for (const older of listCheckpoints(checkpoints).reverse()) {
    if (older.step >= step) continue;
    const fault = await checkpointFault(older.path).catch(() => "it can't be read");
    if (fault === undefined) return `make it readable, or move ${path} away to go on from step ${older.step}`;
  }
  return "make it readable; no older checkpoint is whole";
}

/** A checkpoint that is whole. */
export interface ChosenCheckpoint {
  /** Its folder. */
  readonly path: string;
  /** Newer ones of its run that are not whole, a sentence each that says why. */
  readonly passedOver: readonly string[];
}

/**
 * The checkpoint that a path stands for: a run's newest whole one, or the folder itself; undefined where it is neither.
 * @param refuse throws what says why there is none that is whole
 */
export async function chooseCheckpoint(
  path: string,
  refuse: (what: string) => never,
): Promise<ChosenCheckpoint | undefined> {
  const checkpoints = join(path, "checkpoints");
  if (existsSync(checkpoints)) {
    const passedOver: string[] = [];
    const newest = await newestCheckpoint(checkpoints, ({ path }, fault) =>
      passedOver.push(`${path} is not used: ${fault}`),
    );
    return { path: newest?.path ?? refuse(["the run has no whole checkpoint", ...passedOver].join("; ")), passedOver };
  }
  if (!hasShards(path, "params")) return undefined;
  const fault = await checkpointFault(path);
  return fault === undefined ? { path, passedOver: [] } : refuse(`the checkpoint is damaged: ${fault}`);
}
