/**
 * SHA-256 of files, remembered by path, size, times and inode: a file is read again only where one of them changed. An edit
 * that keeps the size, and a tool that sets the modification time back, still change the inode's own time.
 */
import { mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { z } from "zod";
import { UserError } from "../base/errors.ts";
import { fileHash } from "../base/fileHash.ts";
import { unfinishedName } from "../base/unfinishedFiles.ts";

const record = z.object({ stamp: z.string(), sha256: z.string() });
const records = z.record(z.string(), record);

/** A change so soon after another may carry the same times. */
const settledNs = 2_000_000_000n;
const mostRemembered = 100_000;

/** What of a file changes with its content. */
export function fileStamp(path: string): string {
  const { size, mtimeNs, ctimeNs, ino, dev } = statSync(path, { bigint: true });
  return [size, mtimeNs, ctimeNs, ino, dev].join(" ");
}

export interface FileHashes {
  /** Hexadecimal. @throws UserError where the file can't be read */
  hashOf(path: string, onRead?: (bytes: number) => void): Promise<string>;
  /** Remembers what is known already, as of a file that was just written. */
  remember(path: string, sha256: string): void;
  /** Keeps what was learned; where that can't be written, files are read again the next time. */
  save(): void;
}

/** @param store the JSON file that remembers */
export function fileHashes(store: string): FileHashes {
  const known = new Map(Object.entries(readStore(store)));
  const fresh = new Map<string, z.infer<typeof record>>();
  const remember = (path: string, sha256: string, stamp = fileStamp(path)) => {
    const entry = { stamp, sha256 };
    known.set(resolve(path), entry);
    fresh.set(resolve(path), entry);
  };
  return {
    remember: (path, sha256) => remember(path, sha256),
    async hashOf(path, onRead = () => {}) {
      const stamp = fileStamp(path);
      const before = known.get(resolve(path));
      if (before?.stamp === stamp) return before.sha256;
      const sha256 = await hashFile(path, onRead);
      if (fileStamp(path) !== stamp) throw changed(path);
      if (isSettled(path)) remember(path, sha256, stamp);
      return sha256;
    },
    save() {
      if (fresh.size === 0) return;
      // What others have learned meanwhile stays; the oldest go first.
      const all = [...Object.entries(readStore(store)).filter(([path]) => !fresh.has(path)), ...fresh];
      fresh.clear();
      const unfinished = unfinishedName(store);
      try {
        mkdirSync(dirname(store), { recursive: true });
        writeFileSync(unfinished, JSON.stringify(Object.fromEntries(all.slice(-mostRemembered))));
        renameSync(unfinished, store);
      } catch {
        // A cache that can't be written costs time, nothing else.
      }
    },
  };
}

export const changed = (path: string): UserError =>
  new UserError("E_DATASET_READ", `${path}: it changed while it was read; start again when it is whole`);

function isSettled(path: string): boolean {
  const { mtimeNs, ctimeNs } = statSync(path, { bigint: true });
  const now = BigInt(Date.now()) * 1_000_000n;
  return now - mtimeNs > settledNs && now - ctimeNs > settledNs;
}

async function hashFile(path: string, onRead: (bytes: number) => void): Promise<string> {
  try {
    return await fileHash(path, onRead);
  } catch (error) {
    throw new UserError("E_DATASET_READ", `${path}: can't be read (${(error as Error).message})`, { cause: error });
  }
}

function readStore(store: string): z.infer<typeof records> {
  try {
    return records.parse(JSON.parse(readFileSync(store, "utf8")));
  } catch {
    return {}; // none yet, or damaged: files are read again
  }
}
