/**
 * Tokens of data sets on disk, by what they were made of: a folder an entry, filled under another name, flushed, then renamed,
 * so that one is there whole or not at all. Several processes may read, make and remove at once.
 */
import { createHash } from "node:crypto";
import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type CacheLimit, cacheLimit } from "../base/cacheLimit.ts";
import { UserError } from "../base/errors.ts";
import { removeAbandoned, unfinished, unfinishedName } from "../base/unfinishedFiles.ts";
import { cacheFolder } from "../pjrt/index.ts";
import { type FileHashes, fileHashes } from "./fileHashes.ts";
import { parseManifest, type TokenForm, type TokenManifest, TokenWriter, tokenFormat } from "./tokenWriter.ts";

const hashStore = "files.json";
/** Folders of tokens that are not kept, in the system's temporary folder, while they are filled. */
const passing = "halfbyte-tokens";

/** A folder of tokens that is whole. */
export interface TokenEntry {
  readonly folder: string;
  readonly manifest: TokenManifest;
  /** It was there already. */
  readonly wasCached: boolean;
  /** No other process finds it: its files can go once they are open. */
  readonly passing: boolean;
}

export interface MakeTokens extends TokenForm {
  /** All that decides the tokens. */
  readonly madeOf: Readonly<Record<string, unknown>>;
  /** Writes them, and tells what was found on the way. */
  readonly fill: (writer: TokenWriter) => Promise<Pick<TokenManifest, "badRecords" | "textDraws">>;
}

export interface TokenCache {
  readonly folder: string;
  readonly limit: CacheLimit;
  /** Hashes of source files, remembered. */
  readonly hashes: FileHashes;
  /** Told in sentences of what a user may want to know. */
  readonly say: (text: string) => void;
}

/** `HALFBYTE_TOKEN_CACHE`: "off", or a size such as 500MB or 20GB (the default). @throws UserError */
export const tokenCacheLimit = (text = process.env.HALFBYTE_TOKEN_CACHE): CacheLimit =>
  cacheLimit("HALFBYTE_TOKEN_CACHE", text, 20e9, "E_TOKEN_CACHE");

export function openTokenCache(say: (text: string) => void = () => {}): TokenCache {
  const folder = join(cacheFolder(), "tokens");
  // What a killed process left may be large.
  removeAbandoned(folder);
  removeAbandoned(tmpdir(), passing);
  return { folder, limit: tokenCacheLimit(), hashes: fileHashes(join(folder, hashStore)), say };
}

/** The tokens, from the cache or made now. @throws UserError where they can't be written */
export async function cachedTokens(cache: TokenCache, make: MakeTokens): Promise<TokenEntry> {
  const place = placeOf(cache, make.madeOf);
  const known = place === undefined ? undefined : await wholeEntry(cache, place);
  if (known !== undefined) {
    touch(place!);
    return { folder: place!, manifest: known, wasCached: true, passing: false };
  }
  const folder = place === undefined ? passingFolder() : newFolder(place);
  let writer: TokenWriter | undefined;
  try {
    writer = new TokenWriter(folder, make);
    const found = await make.fill(writer);
    const manifest = writer.finish({ madeOf: make.madeOf, ...found });
    if (place === undefined) return { folder, manifest, wasCached: false, passing: true };
    putInPlace(folder, place);
    for (const [name, { sha256 }] of Object.entries(manifest.files)) cache.hashes.remember(join(place, name), sha256);
    if (cache.limit !== "off") evictTokens(cache.folder, cache.limit, place);
    return { folder: place, manifest, wasCached: false, passing: false };
  } catch (error) {
    writer?.abandon();
    rmSync(folder, { recursive: true, force: true });
    throw writeFailure(error, folder);
  }
}

function passingFolder(): string {
  try {
    const folder = join(tmpdir(), unfinishedName(passing));
    mkdirSync(folder, { mode: 0o700 });
    return folder;
  } catch (error) {
    throw new UserError(
      "E_TOKEN_CACHE",
      `tokens can't be written to ${tmpdir()} (${(error as Error).message}): set TMPDIR to a folder that is there and can be written`,
      { cause: error },
    );
  }
}

/** Where an entry lies; undefined where none can be kept. */
function placeOf({ folder, limit, say }: TokenCache, madeOf: MakeTokens["madeOf"]): string | undefined {
  if (limit === "off") return undefined;
  try {
    mkdirSync(folder, { recursive: true });
    accessSync(folder, constants.W_OK | constants.X_OK);
  } catch (error) {
    say(
      `note: tokens are not kept: ${folder} can't be written (${(error as Error).message}); HALFBYTE_CACHE chooses another folder`,
    );
    return undefined;
  }
  const key = createHash("sha256")
    .update(JSON.stringify([tokenFormat, madeOf]))
    .digest("hex");
  return join(folder, key.slice(0, 32));
}

/** The manifest of an entry whose files are what it says; whatever else stands in its place is removed. */
async function wholeEntry({ hashes, say }: TokenCache, folder: string): Promise<TokenManifest | undefined> {
  if (!existsSync(folder)) return undefined;
  try {
    const manifest = parseManifest(readFileSync(join(folder, "manifest.json"), "utf8"));
    for (const [name, { bytes, sha256 }] of Object.entries(manifest.files)) {
      const path = join(folder, name);
      if (statSync(path).size !== bytes || (await hashes.hashOf(path)) !== sha256)
        throw new Error(`${name} is damaged`);
    }
    return manifest;
  } catch (error) {
    say(`note: ${folder} is not whole and is made anew (${(error as Error).message})`);
    rmSync(folder, { recursive: true, force: true });
    return undefined;
  }
}

function newFolder(place: string): string {
  const folder = unfinishedName(place);
  mkdirSync(folder);
  return folder;
}

function putInPlace(folder: string, place: string): void {
  flush(folder);
  try {
    renameSync(folder, place);
  } catch (error) {
    // Another process was as quick, with the same tokens.
    if (!existsSync(join(place, "manifest.json"))) throw error;
    rmSync(folder, { recursive: true, force: true });
  }
  flush(join(place, ".."));
}

/** Makes what a folder holds (names, not contents) outlast a power cut. */
function flush(folder: string): void {
  const fd = openSync(folder, "r");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

function touch(path: string): void {
  try {
    const now = new Date();
    utimesSync(path, now, now);
  } catch {
    // Not ours to touch: its age stays.
  }
}

function writeFailure(error: unknown, folder: string): unknown {
  const { code, message } = error as NodeJS.ErrnoException;
  if (error instanceof UserError || code === undefined || !/^(ENOSPC|EDQUOT|EROFS|EACCES|EPERM|EIO)$/.test(code))
    return error;
  return new UserError(
    "E_TOKEN_CACHE",
    `tokens can't be written to ${folder} (${message}): make room, or set HALFBYTE_CACHE to a folder that has it`,
    { cause: error },
  );
}

export interface TokenEntryInfo {
  readonly path: string;
  readonly bytes: number;
  /** Milliseconds since 1970. */
  readonly lastUsed: number;
}

/** Removes entries unused for longest while all take more than `limit` bytes, but never `keep`; and what killed processes left. */
export function evictTokens(folder: string, limit: number, keep?: string): void {
  const entries = listTokens(folder).sort((a, b) => a.lastUsed - b.lastUsed);
  let bytes = entries.reduce((sum, entry) => sum + entry.bytes, 0);
  for (const { path, bytes: size } of entries) {
    if (bytes <= limit) break;
    if (path === keep) continue;
    rmSync(path, { recursive: true, force: true });
    bytes -= size;
  }
  removeAbandoned(folder);
}

/** How much there is of something. */
export interface TokensSize {
  readonly entries: number;
  readonly bytes: number;
}

export interface TokenCacheState extends TokensSize {
  readonly folder: string;
  /** What is being written, and what killed processes left of it. */
  readonly unfinished: TokensSize;
}

/** What the cache holds. */
export function tokenCache(): TokenCacheState & { readonly limit: CacheLimit } {
  return { ...cacheState(), limit: tokenCacheLimit() };
}

function cacheState(): TokenCacheState {
  const folder = join(cacheFolder(), "tokens");
  return { folder, ...sizeOf(listTokens(folder)), unfinished: sizeOf(foldersIn(folder, isUnfinished)) };
}

const sizeOf = (all: readonly TokenEntryInfo[]): TokensSize => ({
  entries: all.length,
  bytes: all.reduce((sum, { bytes }) => sum + bytes, 0),
});

/** Removes every entry, and what killed processes left; what a living one is writing stays. Gives what was removed. */
export function clearTokens(): TokenCacheState {
  const before = cacheState();
  const { folder } = before;
  for (const { path } of listTokens(folder)) rmSync(path, { recursive: true, force: true });
  rmSync(join(folder, hashStore), { force: true });
  removeAbandoned(folder);
  const left = cacheState().unfinished;
  const unfinished = { entries: before.unfinished.entries - left.entries, bytes: before.unfinished.bytes - left.bytes };
  return { ...before, unfinished };
}

const isUnfinished = (name: string) => name.endsWith(unfinished);

export function listTokens(folder: string): TokenEntryInfo[] {
  return foldersIn(folder, (name) => !isUnfinished(name));
}

/** Folders by name, the time of each the newest of it and of its files. */
function foldersIn(folder: string, isWanted: (name: string) => boolean): TokenEntryInfo[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    if (!entry.isDirectory() || !isWanted(entry.name)) return [];
    const path = join(folder, entry.name);
    try {
      const stats = readdirSync(path).map((name) => statSync(join(path, name)));
      const bytes = stats.reduce((sum, { size }) => sum + size, 0);
      const lastUsed = Math.max(statSync(path).mtimeMs, ...stats.map(({ mtimeMs }) => mtimeMs));
      return [{ path, bytes, lastUsed }];
    } catch {
      return []; // removed meanwhile
    }
  });
}
