/** Whether each of a run's checkpoints is whole, by the hash of every file. */
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { UserError } from "../base/errors.ts";
import { checkpointFault } from "./checkpointFault.ts";
import { type CheckpointPlace, listCheckpoints } from "./stepFolders.ts";

export interface CheckedCheckpoint extends CheckpointPlace {
  /** What its files take. */
  readonly bytes: number;
  /** Whether every file is what its manifest says; unknown where the system can't read one, and nothing is wrong with the others. */
  readonly state: "whole" | "damaged" | "unknown";
  /** Why it is not whole, or not known. */
  readonly fault?: string;
}

/**
 * All checkpoints of a folder, the oldest first; one that is deleted meanwhile is left out.
 * @param onRead told of the bytes that were read, of all there are
 */
export async function* checkCheckpoints(
  checkpoints: string,
  onRead: (done: number, of: number) => void = () => {},
): AsyncGenerator<CheckedCheckpoint> {
  const places = listCheckpoints(checkpoints).map((place) => ({ ...place, bytes: bytesIn(place.path) }));
  const all = places.reduce((sum, { bytes }) => sum + bytes, 0);
  let done = 0;
  for (const place of places) {
    const count = (bytes: number) => {
      done += bytes;
      onRead(done, all);
    };
    const found = await checkpointFault(place.path, count).then(
      (fault) => (fault === undefined ? { state: "whole" as const } : { state: "damaged" as const, fault }),
      (error: unknown) => {
        if (error instanceof UserError) return { state: "unknown" as const, fault: error.message };
        throw error;
      },
    );
    if (found.state === "whole" || existsSync(place.path)) yield { ...place, ...found };
  }
}

/** As far as the system tells. */
function bytesIn(folder: string): number {
  try {
    return readdirSync(folder).reduce(
      (sum, name) => sum + (statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0),
      0,
    );
  } catch {
    return 0;
  }
}
