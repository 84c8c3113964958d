/** What the benchmark commands share: their environment, their end, their numbers. */
import { spawnSync } from "node:child_process";
import { accessSync, constants, existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { UserError } from "../src/base/errors.ts";
import { reasonOf } from "../src/base/systemReason.ts";
import { makeFolders, writing } from "../src/checkpoint/index.ts";
import { cacheFolder } from "../src/pjrt/index.ts";

const glibcTunables = readFileSync(new URL("../bin/glibc-tunables", import.meta.url), "utf8").trim();
const largeBlocks = join(cacheFolder(), "native", "large-blocks.so");

/**
 * What the launcher sets, so that the allocator keeps memory between steps (docs/performance.md): glibc's settings, and the allocator
 * of large blocks where it is built. Read at a process's start only.
 */
export const keptMemory: Readonly<Record<string, string | undefined>> = {
  GLIBC_TUNABLES: glibcTunables,
  ...(existsSync(largeBlocks) && !/[\s:$]/.test(largeBlocks) && { LD_PRELOAD: largeBlocks }),
};

/** For commands that time things in their own process: runs this one once more, starting with the allocator's settings, and ends. */
export function ensureKeptMemory(): void {
  if (process.env.GLIBC_TUNABLES !== undefined) return;
  const args = [...process.execArgv, ...process.argv.slice(1)];
  const env = { ...process.env, ...keptMemory };
  process.exit(spawnSync(process.execPath, args, { stdio: "inherit", env }).status ?? 1);
}

/** Runs a benchmark's main function: a user's mistake ends it with 2, another failure with 1. */
export function runBenchmark(main: (args: readonly string[]) => Promise<void>): void {
  main(process.argv.slice(2)).catch((error: unknown) => {
    process.stderr.write(`${error instanceof Error ? error.message : error}\n`);
    process.exit(error instanceof UserError ? 2 : 1);
  });
}

/** A setting that counts something. @throws UserError unless it is a whole number above 0 */
export function countOf(key: string, text: string): number {
  const count = Number(text);
  if (Number.isInteger(count) && count > 0) return count;
  throw new UserError("E_BENCH", `${key}=${text}: must be a whole number above 0`);
}

/**
 * For before measurements that take long: makes the folder of a file that will be written, such as that of svg=FILE.
 * @throws UserError where the file can't be written
 */
export function prepareOutputFile(key: string, path: string | undefined): void {
  if (path === undefined) return;
  const fail = (reason: string): never => {
    throw new UserError("E_BENCH", `${key}=${path} can't be written (${reason}): choose another file`);
  };
  try {
    const folder = dirname(resolve(path));
    makeFolders(folder);
    if (!statSync(folder).isDirectory()) fail("a part of the path is a file");
    if (!existsSync(path)) accessSync(folder, constants.W_OK | constants.X_OK);
    else if (statSync(path).isDirectory()) fail("it is a folder");
    else accessSync(path, constants.W_OK);
  } catch (error) {
    if (error instanceof UserError) throw error;
    fail(reasonOf(error));
  }
}

/** Writes a file of results, where one is wanted: after they were printed, so that a full disk does not lose them. */
export function writeOutputFile(path: string | undefined, text: () => string): void {
  if (path !== undefined) writing(path, () => writeFileSync(path, text()));
}

export const median = (list: readonly number[]): number =>
  [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)] ?? Number.NaN;
