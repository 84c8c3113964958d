/**
 * Folders that are whole or not there: filled under a temporary name beside their place, with a manifest of sizes and
 * hashes written last, flushed, then renamed.
 */
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { mkdir, open, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { z } from "zod";
import { UserError } from "../base/errors.ts";
import { fileHash } from "../base/fileHash.ts";
import { isAlive } from "../base/processes.ts";
import { reasonOf } from "../base/systemReason.ts";

export const manifestName = "manifest.json";

const manifestSchema = z.object({
  format: z.literal(1),
  files: z.record(z.string(), z.object({ bytes: z.int().nonnegative(), sha256: z.string() })),
});

export type FileRecord = z.infer<typeof manifestSchema>["files"][string];

/** A name beside a folder that tells whose work it is, so that what a dead process left is known. */
const hiddenName = (folder: string, kind: "tmp" | "old") =>
  join(dirname(folder), `.${basename(folder)}.${kind}-${process.pid}`);
const temporaryPattern = /^\.(.+)\.(tmp|old)-(\d+)$/;

/** `writeFolder` with a manifest: `fill` returns what it wrote. */
export async function writeWholeFolder(
  folder: string,
  fill: (folder: string) => Promise<Readonly<Record<string, FileRecord>>>,
): Promise<void> {
  await writeFolder(folder, async (temporary) => {
    const files = await fill(temporary);
    await writeJson(join(temporary, manifestName), { format: 1, files });
  });
}

/**
 * Fills a folder by `fill`, which gets the temporary folder, and puts it in place. A folder of that name is replaced. Where
 * anything fails nothing has changed.
 */
export async function writeFolder(folder: string, fill: (folder: string) => Promise<void>): Promise<void> {
  const temporary = hiddenName(folder, "tmp");
  const parent = dirname(folder);
  await mkdir(parent, { recursive: true });
  try {
    await rm(temporary, { recursive: true, force: true });
    await mkdir(temporary);
    await fill(temporary);
    await flush(temporary);
    // Renaming onto a folder is not possible. If the process dies in between, both are there under other names.
    const old = hiddenName(folder, "old");
    if (existsSync(folder)) await rename(folder, old);
    await rename(temporary, folder);
    await flush(parent);
    await rm(old, { recursive: true, force: true });
  } catch (error) {
    await rm(temporary, { recursive: true, force: true }).catch(() => {});
    throw error;
  }
}

/** Removes a folder, which is there whole until it is gone. */
export async function removeFolder(folder: string): Promise<void> {
  const old = hiddenName(folder, "old");
  await rename(folder, old);
  await rm(old, { recursive: true, force: true });
}

/** Writes JSON and flushes it; returns its size and hash. */
export async function writeJson(path: string, value: unknown): Promise<FileRecord> {
  const text = Buffer.from(`${JSON.stringify(value, null, 2)}\n`);
  const file = await open(path, "w");
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  return { bytes: text.length, sha256: createHash("sha256").update(text).digest("hex") };
}

/** Makes what a folder holds (names, not contents) outlast a power cut. */
async function flush(folder: string): Promise<void> {
  const handle = await open(folder, "r");
  await handle.sync().finally(() => handle.close());
}

/**
 * Why a folder is not whole: its manifest is missing or a file is not what it says. undefined where it is whole.
 * @param onRead told how many bytes were read since the last time
 * @throws UserError where that can't be told, because the system can't read a file and nothing is wrong with the others
 */
export async function faultOf(folder: string, onRead?: (bytes: number) => void): Promise<string | undefined> {
  const files = manifestOf(folder);
  if (typeof files === "string") return files;
  let unread: { readonly path: string; readonly error: unknown } | undefined;
  for (const [name, { bytes, sha256 }] of Object.entries(files)) {
    const path = join(folder, name);
    try {
      const fault = unreadFault(path, name, bytes);
      if (fault !== undefined) return fault;
      if ((await fileHash(path, onRead)) !== sha256)
        return `${name} has changed since it was written (its hash differs)`;
    } catch (error) {
      unread ??= { path, error };
    }
  }
  return unread && unreadable(unread.path, unread.error);
}

/** What tells without reading that a file is not the one. @throws the system's error where it says nothing of it */
function unreadFault(path: string, name: string, bytes?: number): string | undefined {
  try {
    const found = statSync(path);
    // Reading a pipe or a device might never end.
    if (!found.isFile()) return `${name} is ${found.isDirectory() ? "a folder" : "no file"}`;
    return found.size === (bytes ?? found.size) ? undefined : `${name} has ${found.size} bytes instead of ${bytes}`;
  } catch (error) {
    const { code = "" } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return `${name} is missing`;
    if (code === "ENOTDIR" || code === "ELOOP") return `${name} is no file (${reasonOf(error)})`;
    throw error;
  }
}

/** Whether the manifest and the files' sizes agree; contents are not read. What the system can't read does not look whole. */
export function looksWhole(folder: string): boolean {
  try {
    const files = manifestOf(folder);
    if (typeof files === "string") return false;
    return Object.entries(files).every(([name, { bytes }]) => statSync(join(folder, name)).size === bytes);
  } catch {
    return false;
  }
}

/** What a folder's manifest lists, or what is wrong with the manifest. @throws UserError where the system can't read it */
export function manifestOf(folder: string): Readonly<Record<string, FileRecord>> | string {
  const path = join(folder, manifestName);
  let text: string;
  try {
    const fault = unreadFault(path, manifestName);
    if (fault !== undefined) return existsSync(path) ? fault : `it has no ${manifestName}`;
    text = readFileSync(path, "utf8");
  } catch (error) {
    return unreadable(path, error);
  }
  try {
    return manifestSchema.parse(JSON.parse(text)).files;
  } catch {
    return `${manifestName} is damaged`;
  }
}

/** A file that the system can't read may be whole: nothing is decided about it. */
export function unreadable(path: string, error: unknown): never {
  throw new UserError(
    "E_CHECKPOINT",
    `${path} can't be read (${reasonOf(error)}): it may be whole, so nothing is done`,
  );
}

/** The folders that processes that died had begun to write in `parent`. */
export function unfinishedFolders(parent: string): string[] {
  if (!existsSync(parent)) return [];
  return readdirSync(parent).flatMap((name) => {
    const [, folder, kind, pid] = temporaryPattern.exec(name) ?? [];
    return folder !== undefined && kind === "tmp" && !isAlive(Number(pid)) ? [join(parent, folder)] : [];
  });
}

/** Removes what processes that died while writing left in `parent`. @param of only what was to become this folder */
export async function removeLeftovers(parent: string, of?: string): Promise<void> {
  if (!existsSync(parent)) return;
  for (const name of readdirSync(parent)) {
    const [, folder, , pid] = temporaryPattern.exec(name) ?? [];
    if (pid === undefined || (of !== undefined && folder !== of)) continue;
    if (Number(pid) !== process.pid && isAlive(Number(pid))) continue;
    await rm(join(parent, name), { recursive: true, force: true });
  }
}
