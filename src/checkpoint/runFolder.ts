/** Where a run keeps its things: BASE/RUN/{config.json, events.jsonl, tokenizer/, checkpoints/, best.json, best}. */
import {
  accessSync,
  constants,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, resolve } from "node:path";
import { HalfbyteError, UserError } from "../base/errors.ts";
import { isAlive, startOf } from "../base/processes.ts";
import { reasonOf } from "../base/systemReason.ts";

export interface RunFolder {
  readonly path: string;
  /** The resolved keys. */
  readonly config: string;
  readonly events: string;
  readonly tokenizer: string;
  readonly checkpoints: string;
  /** Which checkpoint has the lowest validation loss, and a link to it. */
  readonly bestRecord: string;
  readonly best: string;
  /** Where the host's time goes in some steps, where asked for. */
  readonly trace: string;
}

export function runFolder(base: string, run: string): RunFolder {
  const path = join(base, run);
  return {
    path,
    config: join(path, "config.json"),
    events: join(path, "events.jsonl"),
    tokenizer: join(path, "tokenizer"),
    checkpoints: join(path, "checkpoints"),
    bestRecord: join(path, "best.json"),
    best: join(path, "best"),
    trace: join(path, "trace.json"),
  };
}

/** @throws UserError where it, or what a run writes into there, can't be made or written, as far as that can be told without doing it */
export function refuseRunFolder({ path, checkpoints }: RunFolder): void {
  for (const written of [path, checkpoints]) refuseFolder(path, written);
}

/** @param written a folder in that of the run, or that one */
function refuseFolder(path: string, written: string): void {
  let folder = resolve(written);
  while (!existsSync(folder)) folder = dirname(folder);
  const fail = (reason: string): never => {
    throw new UserError(
      "E_OUTPUT",
      `the run's folder ${path} can't be written (${reason}): choose another base_output_directory or run_name`,
    );
  };
  if (!statSync(folder).isDirectory()) fail(`${folder} is a file`);
  try {
    accessSync(folder, constants.W_OK | constants.X_OK);
  } catch (error) {
    fail(`${folder}: ${reasonOf(error)}`);
  }
}

/** Makes the folder. @throws HalfbyteError where it can't be made */
export function makeRunFolder({ path }: RunFolder): void {
  writing(path, () => makeFolders(resolve(path)));
}

/** Makes a folder and those above it, one by one: where a file system answers ENOENT, as /proc does, Node's own recursive way never ends. */
export function makeFolders(path: string): void {
  if (existsSync(path)) return;
  makeFolders(dirname(path));
  try {
    mkdirSync(path);
  } catch (error) {
    // Another process may have been quicker.
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}

/** Files of the locks that this process has. */
const held = new Map<string, RunFolder>();

/**
 * Keeps other processes out of a run's folder until the returned function is called or this process ends: a file with
 * its number and the time it began, which count as long as there is such a process. A process may lock again what it has; the first
 * release counts. @throws UserError where another process has the run
 */
export function lockRun(folder: RunFolder): () => void {
  const { path } = folder;
  const file = lockFile(folder);
  const claim = () => writeWithOwner(file);
  if (!claimed(file, claim)) {
    // Of processes that find the same lock of a dead one, one at a time may look again and take it over.
    const takeover = `${file}.takeover`;
    const owner = runOwner(folder);
    if (owner !== undefined && owner !== process.pid) throw inUse(path, owner, file);
    if (owner === undefined) {
      if (isBeingWritten(file)) throw inUse(path, undefined, file);
      if (!claimed(takeover, () => writeFileSync(takeover, "", { flag: "wx" }))) throw inUse(path, undefined, takeover);
      try {
        const since = runOwner(folder);
        if (since !== undefined) throw inUse(path, since, file);
        rmSync(file, { force: true });
        if (!claimed(file, claim)) throw inUse(path, runOwner(folder), file);
      } finally {
        rmSync(takeover, { force: true });
      }
    }
  }
  // Commands may end at once, by a signal or a mistake that they found.
  if (held.size === 0) process.once("exit", releaseRunLocks);
  held.set(file, folder);
  return () => release(file, folder);
}

/** Makes a lock that is not there, with its owner in it from the first moment on. @throws the system's error */
function writeWithOwner(file: string): void {
  const owner = `${process.pid} ${startOf(process.pid) ?? ""}`.trim();
  const unfinished = `${file}.${process.pid}`;
  try {
    writeFileSync(unfinished, owner);
    linkSync(unfinished, file);
  } catch (error) {
    if (!withoutLinks.includes((error as NodeJS.ErrnoException).code ?? "")) throw error;
    writeFileSync(file, owner, { flag: "wx" });
  } finally {
    rmSync(unfinished, { force: true });
  }
}

/** What file systems that have no hard links answer. */
const withoutLinks = ["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS"];

/**
 * Whether a lock has no owner yet because it was made just now, as locks are where there are no hard links. One that stays
 * empty is of a process that died over it.
 */
function isBeingWritten(file: string): boolean {
  const found = statSync(file, { throwIfNoEntry: false });
  return found?.size === 0 && Math.abs(Date.now() - found.mtimeMs) < 5000;
}

/** Whether `claim` made a file that was not there. @throws HalfbyteError where it can't be written */
function claimed(file: string, claim: () => void): boolean {
  try {
    writing(file, claim);
    return true;
  } catch (error) {
    if (((error as Error).cause as NodeJS.ErrnoException | undefined)?.code === "EEXIST") return false;
    throw error;
  }
}

const inUse = (path: string, owner: number | undefined, file: string): UserError =>
  new UserError(
    "E_RUN_IN_USE",
    `${path} is in use by ${owner === undefined ? "another process" : `process ${owner}`}: wait for it, or choose another run_name (if that is no training run, delete ${file})`,
  );

function release(file: string, folder: RunFolder): void {
  if (!held.delete(file)) return;
  if (held.size === 0) process.off("exit", releaseRunLocks);
  if (runOwner(folder) === process.pid) rmSync(file, { force: true });
}

/** Of all locks that this process has; the end of a process does it, unless that ends at once. */
export function releaseRunLocks(): void {
  for (const [file, folder] of [...held]) release(file, folder);
}

/** The process that has the run, or undefined where none has. */
export function runOwner(folder: RunFolder): number | undefined {
  try {
    const [owner = "", began] = readFileSync(lockFile(folder), "utf8").split(" ");
    const pid = Number(owner);
    // Numbers of processes are used again.
    if (!isAlive(pid) || (began !== undefined && began !== (startOf(pid) ?? began))) return undefined;
    return pid;
  } catch {
    return undefined;
  }
}

const lockFile = ({ path }: RunFolder): string => join(path, "run.lock");

/** Runs `action`, turning what the system says of a file into one sentence. */
export function writing<T>(path: string, action: () => T): T {
  try {
    return action();
  } catch (error) {
    throw notWritable(path, error);
  }
}

/** What the system says against writing a path, as a sentence; any other error as it is. */
export function notWritable(path: string, cause: unknown): unknown {
  if (cause instanceof HalfbyteError || !(cause instanceof Error && "syscall" in cause)) return cause;
  return new HalfbyteError("E_WRITE", `${path === "" ? '""' : path}: can't be written (${reasonOf(cause)})`, { cause });
}
