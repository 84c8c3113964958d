/**
 * What a process writes beside its place before it gets its name: a file or folder that tells by its own whose it is, so that what
 * a killed process left can go.
 */
import { createHash, randomBytes } from "node:crypto";
import { readdirSync, rmSync, statSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { isAlive } from "./processes.ts";

/** The ending of all of them. */
export const unfinished = ".tmp";

/** Of one whose process can't be told, as on another machine. It is written to all the time while there is such a process. */
const abandonedAfterMs = 3600_000;

/** Numbers of processes are of one machine; a cache may be shared by several. */
const machine = createHash("sha256").update(hostname()).digest("hex").slice(0, 8);

/** Another name at every call. */
export const unfinishedName = (name: string): string =>
  `${name}-${machine}-${process.pid}-${randomBytes(4).toString("hex")}${unfinished}`;

/** @param lastUsed milliseconds since 1970 */
export function isAbandoned(path: string, lastUsed: number): boolean {
  const [, where, pid] = /-([0-9a-f]{8})-(\d+)-[0-9a-f]{8}\.tmp$/.exec(path) ?? [];
  if (where === machine && !isAlive(Number(pid))) return true;
  return Date.now() - lastUsed > abandonedAfterMs;
}

/** Removes from a folder what was abandoned under names that begin with `prefix`. What can't be looked at or removed stays. */
export function removeAbandoned(folder: string, prefix = ""): void {
  for (const name of namesIn(folder)) {
    if (!name.startsWith(prefix) || !name.endsWith(unfinished)) continue;
    const path = join(folder, name);
    try {
      if (isAbandoned(path, lastChange(path))) rmSync(path, { recursive: true, force: true });
    } catch {
      // Not ours to remove, or gone meanwhile.
    }
  }
}

/** Of a folder, the newest of it and of its files. */
function lastChange(path: string): number {
  const stat = statSync(path);
  const inside = stat.isDirectory() ? readdirSync(path).map((name) => statSync(join(path, name)).mtimeMs) : [];
  return Math.max(stat.mtimeMs, ...inside);
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
