/**
 * Folders that are whole or not there: filled under a temporary name beside their place, with a manifest of sizes and
 * hashes written last, flushed, then renamed.
 */
import { createHash } from "node:crypto";
import { createReadStream, existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { mkdir, open, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { z } from "zod";
import { UserError } from "../base/errors.ts";
import { isAlive } from "./processes.ts";
import { reasonOf } from "./runFolder.ts";

const manifestName = "manifest.json";

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
 * @throws UserError where that can't be told, because the system can't read a file
 */
export async function faultOf(folder: string): Promise<string | undefined> {
  const files = manifestOf(folder);
  if (typeof files === "string") return files;
  for (const [name, { bytes, sha256 }] of Object.entries(files)) {
    const path = join(folder, name);
    const found = await measure(path).catch((error: unknown) =>
      isMissing(error) ? undefined : unreadable(path, error),
    );
    if (found === undefined) return `${name} is missing`;
    if (found.bytes !== bytes) return `${name} has ${found.bytes} bytes instead of ${bytes}`;
    if (found.sha256 !== sha256) return `${name} has changed since it was written (its hash differs)`;
  }
  return undefined;
}

/** Whether the manifest and the files' sizes agree; contents are not read. */
export function looksWhole(folder: string): boolean {
  const files = manifestOf(folder);
  if (typeof files === "string") return false;
  return Object.entries(files).every(
    ([name, { bytes }]) => statSync(join(folder, name), { throwIfNoEntry: false })?.size === bytes,
  );
}

/** What a folder's manifest lists, or what is wrong with the manifest. */
function manifestOf(folder: string): Readonly<Record<string, FileRecord>> | string {
  const path = join(folder, manifestName);
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    return isMissing(error) ? `it has no ${manifestName}` : unreadable(path, error);
  }
  try {
    return manifestSchema.parse(JSON.parse(text)).files;
  } catch {
    return `${manifestName} is damaged`;
  }
}

const isMissing = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === "ENOENT";

/** A file that the system can't read may be whole: nothing is decided about it. */
function unreadable(path: string, error: unknown): never {
  throw new UserError(
    "E_CHECKPOINT",
    `${path} can't be read (${reasonOf(error)}): it may be whole, so nothing is done`,
  );
}

async function measure(path: string): Promise<FileRecord> {
  const hash = createHash("sha256");
  let bytes = 0;
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20 })) {
    hash.update(chunk as Buffer);
    bytes += (chunk as Buffer).length;
  }
  return { bytes, sha256: hash.digest("hex") };
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
