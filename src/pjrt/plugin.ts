/** Finding and loading a PJRT plugin: HALFBYTE_PJRT_PLUGIN, else what the set-up script installed in the cache. */
import { closeSync, existsSync, openSync, readFileSync, readSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { UserError } from "../base/errors.ts";
import { PjrtApi } from "./api.ts";
import { decodeNamedValues, type NamedValue } from "./namedValues.ts";
import { loadLibrary } from "./native.ts";

/** The plugin the set-up script installs, under `plugins/<package>-<version>` in the cache. */
export const defaultPlugin = { package: "lammps-jax-pjrt-cpu", version: "0.11.2" } as const;

/** What the set-up script writes beside an installed plugin, as `halfbyte.json`. */
export interface InstallRecord {
  readonly package: string;
  readonly version: string;
  /** Path of the shared library relative to the record. */
  readonly library: string;
  readonly sha256: string;
}

export interface PluginLocation {
  readonly path: string;
  readonly record?: InstallRecord;
}

/** A loaded PJRT plugin and what it says of itself. */
export interface Plugin extends PluginLocation {
  readonly api: PjrtApi;
  readonly attributes: Readonly<Record<string, NamedValue>>;
}

/** `${HALFBYTE_CACHE:-~/.cache/halfbyte}`. */
export function cacheFolder(): string {
  const chosen = process.env.HALFBYTE_CACHE;
  return chosen ? resolve(chosen) : join(homedir(), ".cache", "halfbyte");
}

/** An installed package has no scripts of its own in the project that uses it. */
/** How whatever the set-up makes comes into being again. */
export const setUp = "run `npm run setup` in a clone, `halfbyte setup` in a project that installed it";

/** Where the plugin is. @throws UserError (E_PLUGIN) saying what to set or run. */
export function locatePlugin(): PluginLocation {
  const chosen = process.env.HALFBYTE_PJRT_PLUGIN;
  if (chosen) return { path: resolve(chosen) };
  const folder = join(cacheFolder(), "plugins", `${defaultPlugin.package}-${defaultPlugin.version}`);
  const record = join(folder, "halfbyte.json");
  if (existsSync(record)) {
    const installed = readRecord(record);
    return { path: join(folder, installed.library), record: installed };
  }
  if (process.platform !== "linux" || process.arch !== "x64") {
    throw new UserError(
      "E_PLATFORM",
      `no PJRT plugin is tested on ${process.platform}-${process.arch}: set HALFBYTE_PJRT_PLUGIN to the path of a PJRT CPU plugin built for it, or use Linux x86-64 (WSL2 or a container)`,
    );
  }
  throw new UserError(
    "E_PLUGIN",
    `no PJRT plugin in ${folder}: ${setUp}, or set HALFBYTE_PJRT_PLUGIN to a plugin's path`,
  );
}

function readRecord(path: string): InstallRecord {
  try {
    const record = JSON.parse(readFileSync(path, "utf8")) as InstallRecord;
    if (typeof record.library === "string" && typeof record.sha256 === "string") return record;
  } catch {
    // Damaged by an interruption or by hand: said below.
  }
  throw new UserError("E_PLUGIN", `the install record ${path} is damaged: remove its folder and ${setUp}`);
}

const loaded = new Map<string, Plugin>();

/** Loads a plugin once per process. @throws UserError (E_PLUGIN) in one sentence where the file is not a usable plugin. */
export function loadPlugin(location: PluginLocation = locatePlugin()): Plugin {
  const known = loaded.get(location.path);
  if (known !== undefined) return known;
  checkLibraryFile(location.path);
  // Read when the library is loaded; its messages are for XLA's own developers.
  process.env.TF_CPP_MIN_LOG_LEVEL ??= "3";
  const library = loadLibrary(location.path, "the PJRT plugin");
  let address: bigint | null;
  try {
    address = library.callSymbol("GetPjrtApi");
  } catch {
    throw new UserError("E_PLUGIN", `${location.path} is not a PJRT plugin: it has no GetPjrtApi`);
  }
  if (address === null)
    throw new UserError("E_PLUGIN", `${location.path} is not a usable PJRT plugin: GetPjrtApi gave null`);
  const api = new PjrtApi(address);
  if (api.version.major !== 0) {
    const { major, minor } = api.version;
    throw new UserError(
      "E_PLUGIN",
      `the PJRT plugin ${location.path} has API ${major}.${minor}; Halfbyte speaks major version 0`,
    );
  }
  api.call("Plugin_Initialize", {});
  const { attributes, num_attributes } = api.call("Plugin_Attributes", {});
  const plugin = { ...location, api, attributes: decodeNamedValues(attributes, num_attributes) };
  loaded.set(location.path, plugin);
  return plugin;
}

/** Changes whenever the plugin's code may have changed: for the key of a cache of compiled programs. */
export function pluginIdentity({ path, record }: PluginLocation): string {
  if (record !== undefined) return record.sha256;
  const { size, mtimeMs } = statSync(path);
  return `${path}:${size}:${mtimeMs}`;
}

const elfMachines: Readonly<Record<number, string>> = { 62: "x64", 183: "arm64", 40: "arm", 3: "ia32", 243: "riscv64" };

/** Says in one sentence what is wrong with a file before the system's loader is asked. */
function checkLibraryFile(path: string): void {
  const header = Buffer.alloc(20);
  try {
    if (!statSync(path).isFile())
      throw new UserError("E_PLUGIN", `the PJRT plugin ${path} is not a file; give the path of its shared library`);
    const file = openSync(path, "r");
    readSync(file, header, 0, header.length, 0);
    closeSync(file);
  } catch (error) {
    if (error instanceof UserError) throw error;
    const missing = (error as NodeJS.ErrnoException).code === "ENOENT";
    const reason = missing ? "there is no such file" : (error as Error).message;
    throw new UserError("E_PLUGIN", `can't read the PJRT plugin ${path}: ${reason}`);
  }
  if (process.platform !== "linux") return;
  if (header.toString("latin1", 0, 4) !== "\x7fELF") {
    throw new UserError("E_PLUGIN", `${path} is not a PJRT plugin: it is not a Linux shared library`);
  }
  const machine = elfMachines[header.readUInt16LE(18)] ?? "another architecture";
  if (machine !== process.arch) {
    throw new UserError("E_PLUGIN", `the PJRT plugin ${path} is built for ${machine}; this machine is ${process.arch}`);
  }
}
