/** Which of a run's checkpoints stay when another one is saved. */

import { looksLikeCheckpoint } from "./checkpointFault.ts";
import { checkpointPath, listCheckpoints } from "./stepFolders.ts";
import { removeFolder } from "./wholeFolder.ts";

export interface Retention {
  /** How many of the newest stay; absent: all. */
  readonly last?: number;
  /** Those of steps that it divides stay for good; absent: none. */
  readonly period?: number;
  /** The step of one that stays in any case. */
  readonly best?: number;
  /** Steps of checkpoints that are known to be damaged: they count as nothing and stay. */
  readonly damaged?: ReadonlySet<number>;
}

/** Of the steps of whole checkpoints, in their order, those that go. */
export function expendableSteps(steps: readonly number[], { last, period, best }: Retention): number[] {
  if (last === undefined) return [];
  return steps.slice(0, -last).filter((step) => step !== best && (period === undefined || step % period !== 0));
}

/**
 * Deletes what `retention` lets go. Only whole ones count: damaged ones are no checkpoints and nothing that may be deleted
 * unasked. Those of later steps than the one just saved are not older, and can't take its place.
 */
export async function deleteOlder(checkpoints: string, saved: number, retention: Retention): Promise<void> {
  if (retention.last === undefined) return;
  const steps = listCheckpoints(checkpoints)
    .filter(
      ({ step, path }) =>
        step === saved || (step < saved && !retention.damaged?.has(step) && looksLikeCheckpoint(path)),
    )
    .map(({ step }) => step);
  for (const step of expendableSteps(steps, retention)) await removeFolder(checkpointPath(checkpoints, step));
}
