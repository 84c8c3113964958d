/**
 * The cache folder and how things get into it: made in a temporary folder beside the target, then renamed, so a folder with its
 * final name is always whole. A run that was killed leaves a temporary folder; the next run removes it.
 */
import { createHash, randomBytes } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from "node:fs";
import { homedir, hostname } from "node:os";
import { dirname, join, resolve } from "node:path";
import { SetupError } from "./process.mjs";

/** The folder that holds plugins, datasets, tokens and compiled programs. */
export function cacheRoot() {
  const set = process.env.HALFBYTE_CACHE;
  return set ? resolve(set) : join(homedir(), ".cache", "halfbyte");
}

/** SHA-256 of a small file, hexadecimal. @param {string} path */
export const hashOf = (path) => createHash("sha256").update(readFileSync(path)).digest("hex");

const TEMPORARY = /^\.tmp-(.+)-(\d+)-[0-9a-f]{8}$/;
const DAY_MS = 24 * 3600 * 1000;

/** @type {Set<string>} */
const ours = new Set();

/** Removes the temporary folders and locks of this run; for signal handlers. */
export function removeTemporaries() {
  for (const folder of ours) rmSync(folder, { recursive: true, force: true });
}

/** @param {number} pid */
function alive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return /** @type {NodeJS.ErrnoException} */ (error).code === "EPERM";
  }
}

/**
 * Removes what killed runs left in `parent`: temporaries of a dead process here, or of another host a day old.
 * @param {string} parent
 */
export function sweepTemporaries(parent) {
  if (!existsSync(parent)) return;
  for (const name of readdirSync(parent)) {
    const [, host, pid] = name.match(TEMPORARY) ?? [];
    if (host === undefined) continue;
    const folder = join(parent, name);
    const stale =
      host === hostname()
        ? !alive(Number(pid))
        : Date.now() - (statSync(folder, { throwIfNoEntry: false })?.mtimeMs ?? Date.now()) > DAY_MS;
    if (stale) rmSync(folder, { recursive: true, force: true });
  }
}

/** @param {string} parent */
function temporaryIn(parent) {
  const folder = join(parent, `.tmp-${hostname()}-${process.pid}-${randomBytes(4).toString("hex")}`);
  ours.add(folder);
  return folder;
}

/**
 * Makes `target` whole or not at all. `fill` gets an empty work folder and returns the folder inside it to publish.
 * Where another run publishes first, its result stays. A broken folder with the target's name is replaced.
 * @param {string} target
 * @param {{ isWhole: () => boolean, fill: (work: string) => Promise<string> }} steps
 */
export async function publish(target, { isWhole, fill }) {
  const parent = dirname(target);
  try {
    mkdirSync(parent, { recursive: true });
    sweepTemporaries(parent);
  } catch (error) {
    throw new SetupError(
      "E_CACHE",
      `The cache folder ${parent} can't be written (${/** @type {Error} */ (error).message}): set HALFBYTE_CACHE to a folder of yours.`,
    );
  }
  const work = temporaryIn(parent);
  const old = temporaryIn(parent);
  try {
    mkdirSync(work);
    const result = await fill(work);
    if (existsSync(target) && !isWhole()) moveAway(target, old);
    try {
      renameSync(result, target);
    } catch (error) {
      if (!isWhole()) throw error;
    }
  } finally {
    for (const folder of [work, old]) {
      rmSync(folder, { recursive: true, force: true });
      ours.delete(folder);
    }
  }
}

/** @param {string} from @param {string} to */
function moveAway(from, to) {
  try {
    renameSync(from, to);
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== "ENOENT") throw error;
  }
}

/**
 * Runs `action` while no other process on this machine runs one under the same lock. The lock is a symbolic link whose target is
 * the owner's process id (made and filled in one step); the lock of a dead process is taken over.
 * @template T
 * @param {string} lock
 * @param {() => Promise<T>} action
 * @param {(pid: number) => void} waiting called once when another run holds the lock
 * @returns {Promise<T>}
 */
export async function withLock(lock, action, waiting) {
  let told = false;
  while (!tryLock(lock, process.pid)) {
    const owner = lockOwner(lock);
    if (owner === undefined) continue;
    if (alive(owner)) {
      if (!told) waiting(owner);
      told = true;
      await new Promise((done) => setTimeout(done, 100));
    } else takeAway(lock, owner);
  }
  ours.add(lock);
  try {
    return await action();
  } finally {
    rmSync(lock, { force: true });
    ours.delete(lock);
  }
}

/** @param {string} lock @param {number} pid */
function tryLock(lock, pid) {
  try {
    symlinkSync(String(pid), lock);
    return true;
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === "EEXIST") return false;
    throw error;
  }
}

/** @param {string} lock */
function lockOwner(lock) {
  try {
    return Number(readlinkSync(lock));
  } catch {
    return undefined;
  }
}

/**
 * Removes a dead owner's lock. Another run may have done so and locked in between: then what was moved is put back.
 * @param {string} lock @param {number} owner
 */
function takeAway(lock, owner) {
  const moved = `${lock}-dead-${process.pid}`;
  moveAway(lock, moved);
  const found = lockOwner(moved);
  if (found !== undefined && found !== owner) tryLock(lock, found);
  rmSync(moved, { force: true });
}
