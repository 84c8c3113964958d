/**
 * Compiled programs on disk, in `compiled` of the cache folder, so that the next process does not compile them again. An
 * entry's name is a hash of everything that its bytes depend on. The cache never fails a run: what can't be read is
 * compiled, what can't be written is not kept.
 */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { arch, availableParallelism, cpus } from "node:os";
import { join } from "node:path";
import type { CacheLimit } from "../base/cacheLimit.ts";
import {
  type Client,
  type CompileOptions,
  cacheFolder,
  canSerialize,
  type Executable,
  pluginIdentity,
} from "../pjrt/index.ts";
import { clearEntries, listEntries, readEntry, removeEntry, writeEntry } from "./cacheEntries.ts";
import { compileCacheLimit } from "./cacheLimit.ts";

/** Where the entries lie. */
export function compiledFolder(): string {
  return join(cacheFolder(), "compiled");
}

/** What the cache holds. @throws UserError where HALFBYTE_COMPILE_CACHE is no size */
export function compiledCache(): { folder: string; entries: number; bytes: number; limit: CacheLimit } {
  const folder = compiledFolder();
  const all = listEntries(folder);
  return {
    folder,
    entries: all.length,
    bytes: all.reduce((sum, { bytes }) => sum + bytes, 0),
    limit: compileCacheLimit(),
  };
}

/** Removes every compiled program and gives what there was. */
export function clearCompiled(): { folder: string; entries: number; bytes: number } {
  const folder = compiledFolder();
  return { folder, ...clearEntries(folder) };
}

/**
 * As `client.compile`; `origin.deserialized` of the result tells whether the cache had it.
 * @throws PjrtError with the compiler's message; UserError for options that don't fit.
 */
export async function compileCached(client: Client, mlir: string, options: CompileOptions): Promise<Executable> {
  const limit = compileCacheLimit();
  if (limit === "off" || !canSerialize(mlir, options) || writesFiles(options)) return client.compile(mlir, options);
  const folder = compiledFolder();
  const key = compileKey(client, mlir, options);
  return (
    (await loadEntry(client, folder, key)) ?? (await compileAndKeep(client, mlir, options, { folder, key, limit }))
  );
}

/** A compilation that is asked to dump what it does must happen. */
function writesFiles({ envOverrides = {} }: CompileOptions): boolean {
  return [...Object.keys(envOverrides), process.env.XLA_FLAGS ?? ""].some((name) => name.includes("xla_dump"));
}

async function loadEntry(client: Client, folder: string, key: string): Promise<Executable | undefined> {
  const bytes = readEntry(folder, key);
  if (bytes === undefined) return undefined;
  try {
    return await client.deserialize(bytes);
  } catch {
    removeEntry(folder, key);
    return undefined;
  }
}

interface Place {
  readonly folder: string;
  readonly key: string;
  readonly limit: Exclude<CacheLimit, "off">;
}

async function compileAndKeep(client: Client, mlir: string, options: CompileOptions, { folder, key, limit }: Place) {
  const executable = await client.compile(mlir, options);
  try {
    writeEntry(folder, key, executable.serialize(), limit);
  } catch (error) {
    noteOnce(`compiled programs are not kept for the next run: ${(error as Error).message}`);
  }
  return executable;
}

let noted = false;

function noteOnce(message: string): void {
  if (noted) return;
  noted = true;
  process.emitWarning(message, "HalfbyteCacheWarning");
}

/** A hash of all that decides the compiled bytes: plugin, versions, processor, threads, flags, options and program. */
export function compileKey(client: Client, mlir: string, options: CompileOptions): string {
  const { plugin, platformName, platformVersion, devices } = client;
  const { major, minor } = plugin.api.version;
  const parts = [
    pluginIdentity(plugin),
    `${platformName} ${platformVersion} ${major}.${minor}`,
    JSON.stringify(plugin.attributes, (_, value) => (typeof value === "bigint" ? String(value) : value)),
    processor(),
    // The compiler splits loops by the threads there will be.
    `${availableParallelism()} ${process.env.PJRT_NPROC ?? ""} ${process.env.NPROC ?? ""}`,
    devices.map(({ id, kind }) => `${id} ${kind}`).join(),
    process.env.XLA_FLAGS ?? "",
    client.encodeOptions(options),
    mlir,
  ];
  const hash = createHash("sha256");
  for (const part of parts) {
    const bytes = Buffer.from(part as string);
    hash.update(`${bytes.length}\n`).update(bytes);
  }
  return hash.digest("hex");
}

let knownProcessor: string | undefined;

/** Model and instruction sets, which the machine code relies on. */
function processor(): string {
  knownProcessor ??= `${arch()} ${cpus()[0]?.model} ${instructionSets()}`;
  return knownProcessor;
}

function instructionSets(): string {
  try {
    return readFileSync("/proc/cpuinfo", "utf8").match(/^(flags|Features)\s*:.*$/m)?.[0] ?? "";
  } catch {
    return "";
  }
}
