/**
 * The process in which inputs are read, one after the other: it may run out of memory, or out of time, and the parent goes on.
 * What it is doing stands in a file, and what was wrong in another, a line of JSON each.
 */

import { appendFileSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { peakMemory } from "../../src/base/peakMemory.ts";
import { largestAllocation } from "./allocations.ts";
import type { Files, FuzzFormat } from "./format.ts";
import type { At, Fault, Job, Work } from "./fuzzer.ts";
import { mutantOf, withFolder, writeFiles } from "./mutant.ts";

const megabyte = 1 << 20;
/** Of one request beyond what the input's size explains: the largest window of a .zst file is 128 MiB. */
const mostBytes = 160 * megabyte;
/** Growth of the whole process in reading one input. */
const mostGrowth = 600 * megabyte;
const mostSeconds = 5;

// Loaded when memory is watched.
const { formats } = await import("./formats.ts");
const { HalfbyteError } = await import("../../src/base/errors.ts");

/** What is wrong with an error that a reader threw, in words; undefined where it is as it must be. */
function faultOfError(error: unknown): string | undefined {
  if (!(error instanceof HalfbyteError)) {
    return `threw ${error instanceof Error ? (error.stack ?? error.message).slice(0, 1500) : String(error)}`;
  }
  const { code, message } = error;
  if (!/^E_[A-Z0-9_]+$/.test(code) || code === "E_INTERNAL") return `threw ${code}: ${message.slice(0, 300)}`;
  if (message.trim() === "" || message.length > 4000)
    return `says ${message.length} characters: ${message.slice(0, 200)}`;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
  const control = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/.exec(message)?.[0];
  return (
    control && `says U+${control.charCodeAt(0).toString(16)} to a terminal: ${JSON.stringify(message.slice(0, 300))}`
  );
}

async function readOne(format: FuzzFormat, folder: string, inputBytes: number): Promise<string | undefined> {
  const before = { cpu: process.cpuUsage(), peak: peakMemory() };
  largestAllocation();
  let fault: string | undefined;
  try {
    await format.read(folder);
  } catch (error) {
    fault = faultOfError(error);
  }
  const { user, system } = process.cpuUsage(before.cpu);
  const grown = peakMemory() - before.peak;
  const asked = largestAllocation();
  if (asked > mostBytes + 8 * inputBytes) fault ??= `asks for ${asked} bytes at once for an input of ${inputBytes}`;
  if (grown > mostGrowth) fault ??= `takes ${grown} bytes for an input of ${inputBytes}`;
  if ((user + system) / 1e6 > mostSeconds)
    fault ??= `takes ${(user + system) / 1e6} s for an input of ${inputBytes} bytes`;
  return fault;
}

const descriptorFolder = "/proc/self/fd";
const descriptors = (): number => (existsSync(descriptorFolder) ? readdirSync(descriptorFolder).length : 0);

const { jobs, seed, at, faults } = JSON.parse(process.argv[2]!) as Work;
let current = { format: "", number: -1 };
const tell = (what: string) => appendFileSync(faults, `${JSON.stringify({ ...current, what } satisfies Fault)}\n`);
process.on("uncaughtException", (error) => tell(`threw behind the reader's back: ${error.stack ?? error}`));

async function work({ format: name, from, count }: Job, folder: string): Promise<void> {
  const format = formats.find((one) => one.name === name)!;
  const place = join(folder, "input");
  const put = (files: Files): void => {
    rmSync(place, { recursive: true, force: true });
    mkdirSync(place);
    writeFiles(place, files);
  };
  current = { format: name, number: -1 };
  const seeds = await format.seeds(join(folder, "seeds"));
  // The seeds themselves, which also loads what is loaded late.
  for (const files of seeds) {
    put(files);
    await format.read(place);
  }
  const open = descriptors();
  for (let number = from; number < from + count; number++) {
    current = { format: name, number };
    writeFileSync(at, JSON.stringify(current));
    const files = mutantOf(format, seeds, seed, number);
    put(files);
    const bytes = Object.values(files).reduce((sum, file) => sum + file.length, 0);
    const fault = await readOne(format, place, bytes);
    if (fault !== undefined) tell(fault);
    await new Promise((resolve) => setImmediate(resolve));
    if (descriptors() > open + 8) return tell(`leaves ${descriptors() - open} files open`);
  }
}

for (const job of jobs) {
  writeFileSync(at, JSON.stringify({ format: job.format, number: -1 } satisfies At));
  await withFolder((folder) => work(job, folder)).catch((error: Error) =>
    tell(`its seeds are not read: ${error.stack}`),
  );
}
writeFileSync(at, "");
process.exit(0);
