/**
 * Entries of a cache on disk: files named by their key, written whole or not at all by renaming, checked when read, the
 * longest unused removed first. Several processes may read, write and remove at once: a file that vanishes is a miss.
 */
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { removeAbandoned, unfinished, unfinishedName } from "../base/unfinishedFiles.ts";

const magic = Buffer.from("halfbyte compiled program 1\n");
const keyBytes = 32;
const sumBytes = 32;
/** magic, key, sha256 of the content, its length as u64 */
const headerBytes = magic.length + keyBytes + sumBytes + 8;
const suffix = ".bin";
/** Listing a folder costs time for every file. */
const maxEntries = 4096;
/** What removal leaves, of either limit: it does not have to begin again at the next write. */
const keptShare = 0.9;

export interface EntryInfo {
  readonly path: string;
  readonly bytes: number;
  /** Milliseconds since 1970. */
  readonly lastUsed: number;
}

const pathOf = (folder: string, key: string) => join(folder, `${key}${suffix}`);
const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest();

/** What was stored, or undefined: a damaged or foreign entry is removed. `key`: 64 hexadecimal digits. */
export function readEntry(folder: string, key: string): Uint8Array | undefined {
  let file: Buffer;
  try {
    file = readFileSync(pathOf(folder, key));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EISDIR") removeEntry(folder, key);
    return undefined;
  }
  const content = file.subarray(headerBytes);
  const isWhole =
    file.length >= headerBytes &&
    content.length === Number(file.readBigUInt64LE(headerBytes - 8)) &&
    file.subarray(0, headerBytes).equals(header(key, content));
  if (!isWhole) {
    removeEntry(folder, key);
    return undefined;
  }
  try {
    const now = new Date();
    utimesSync(pathOf(folder, key), now, now);
  } catch {
    // Removed meanwhile, or not ours to touch: its age stays.
  }
  return content;
}

function header(key: string, content: Uint8Array): Buffer {
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(content.length));
  return Buffer.concat([magic, Buffer.from(key, "hex"), sha256(content), length]);
}

export function removeEntry(folder: string, key: string): void {
  remove(pathOf(folder, key));
}

function remove(path: string): void {
  try {
    // Whatever stands in an entry's place goes, a folder too.
    rmSync(path, { force: true, recursive: true });
  } catch {
    // Not ours to remove: it stays.
  }
}

/** Stores an entry, then removes others while all together take more than `limit` bytes. @throws where it can't be written */
export function writeEntry(folder: string, key: string, content: Uint8Array, limit: number): void {
  if (headerBytes + content.length > limit) return;
  const file = Buffer.concat([header(key, content), content]);
  mkdirSync(folder, { recursive: true });
  const temporary = join(folder, unfinishedName(key));
  try {
    writeFileSync(temporary, file, { flag: "wx" });
    renameSync(temporary, pathOf(folder, key));
  } catch (error) {
    remove(temporary);
    throw error;
  }
  makeRoom(folder, file.length, limit);
}

/** What a folder held when it was last listed, and what this process has written since. */
const sizes = new Map<string, { bytes: number; entries: number; writes: number }>();
/** Other processes write too: the folder is listed again after so many writes. */
const writesBetweenListings = 32;

function makeRoom(folder: string, written: number, limit: number): void {
  const known = sizes.get(folder);
  if (known !== undefined) {
    const { bytes, entries, writes } = { ...known, bytes: known.bytes + written, entries: known.entries + 1 };
    if (writes < writesBetweenListings && bytes <= limit && entries <= maxEntries) {
      sizes.set(folder, { bytes, entries, writes: writes + 1 });
      return;
    }
  }
  sizes.set(folder, { ...evict(folder, limit), writes: 0 });
}

/**
 * Where entries take more than `limit` bytes, or are too many, removes those unused for longest; and what killed
 * processes left. Gives what stays.
 */
export function evict(folder: string, limit: number): { bytes: number; entries: number } {
  const all = listEntries(folder).sort((a, b) => a.lastUsed - b.lastUsed);
  let bytes = all.reduce((sum, entry) => sum + entry.bytes, 0);
  let entries = all.length;
  const isFull = bytes > limit || entries > maxEntries;
  for (const oldest of isFull ? all : []) {
    if (bytes <= keptShare * limit && entries <= keptShare * maxEntries) break;
    remove(oldest.path);
    bytes -= oldest.bytes;
    entries--;
  }
  removeAbandoned(folder);
  return { bytes, entries };
}

export function listEntries(folder: string): EntryInfo[] {
  return listFiles(folder, suffix);
}

function listFiles(folder: string, ending: string): EntryInfo[] {
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch {
    return [];
  }
  return names
    .filter((name) => name.endsWith(ending))
    .flatMap((name) => {
      const path = join(folder, name);
      const stat = statSync(path, { throwIfNoEntry: false });
      return stat === undefined ? [] : [{ path, bytes: stat.size, lastUsed: stat.mtimeMs }];
    });
}

/** Removes every entry, whole or not, and gives what there was. */
export function clearEntries(folder: string): { entries: number; bytes: number } {
  const entries = listEntries(folder);
  for (const { path } of [...entries, ...listFiles(folder, unfinished)]) remove(path);
  sizes.delete(folder);
  return { entries: entries.length, bytes: entries.reduce((sum, { bytes }) => sum + bytes, 0) };
}
