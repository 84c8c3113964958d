/** Has mutants read in a process of their own, and tells what went wrong; a process that hangs or dies is replaced. */
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { withFolder } from "./mutant.ts";

/** Mutants from .. from + count - 1 of a format. */
export interface Job {
  readonly format: string;
  readonly from: number;
  readonly count: number;
}

/** An input; number −1 is before the first of a format. */
export interface At {
  readonly format: string;
  readonly number: number;
}

export interface Fault extends At {
  readonly what: string;
}

/** What a process is given. */
export interface Work {
  readonly jobs: readonly Job[];
  readonly seed: number;
  /** Files that say which input is being read (empty at the end), and what was wrong. */
  readonly at: string;
  readonly faults: string;
}

/** Of the JavaScript heap. */
const heapMegabytes = 400;
/** Of the clock: machines may be busy, so this is far beyond what any input takes. */
const hangSeconds = 60;
/** Processes that are lost until the rest is given up. */
const mostLost = 10;

const child = fileURLToPath(new URL("./child.ts", import.meta.url));

export async function fuzz(jobs: readonly Job[], seed: number): Promise<readonly Fault[]> {
  return withFolder(async (folder) => {
    const [at, faults] = [join(folder, "at"), join(folder, "faults")];
    writeFileSync(faults, "");
    const lost: Fault[] = [];
    let rest = jobs;
    while (rest.length > 0 && lost.length < mostLost) {
      writeFileSync(at, " ");
      const ended = await runChild({ jobs: rest, seed, at, faults });
      const text = readFileSync(at, "utf8");
      if (text === "") break;
      if (text === " ") throw new Error(`it does not begin: ${ended}`);
      const last = JSON.parse(text) as At;
      lost.push({ ...last, what: ended });
      const [job, ...others] = rest.slice(rest.findIndex(({ format }) => format === last.format)) as [Job, ...Job[]];
      const next = last.number + 1;
      // Seeds that can't be read are a fault of the test.
      rest = last.number < 0 ? others : [{ ...job, from: next, count: job.from + job.count - next }, ...others];
    }
    const found = readFileSync(faults, "utf8").split("\n");
    return [...found.flatMap((line) => (line === "" ? [] : (JSON.parse(line) as Fault))), ...lost];
  });
}

/** @returns how it ended, in words */
function runChild(work: Work): Promise<string> {
  const flags = ["--import", "tsx", `--max-old-space-size=${heapMegabytes}`];
  const running = spawn(process.execPath, [...flags, child, JSON.stringify(work)], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  let said = "";
  running.stderr.on("data", (text: Buffer) => {
    said = `${said}${text}`.slice(-3000);
  });
  let [where, since, hangs] = ["", Date.now(), false];
  const watch = setInterval(() => {
    const now = readFileSync(work.at, "utf8");
    if (now !== where) [where, since] = [now, Date.now()];
    else if (Date.now() - since > hangSeconds * 1000) {
      hangs = true;
      running.kill("SIGKILL");
    }
  }, 200);
  return new Promise((resolve) => {
    running.on("close", (code, signal) => {
      clearInterval(watch);
      resolve(hangs ? `hangs: no end after ${hangSeconds} s` : `ends the process (${signal ?? code}): ${said}`);
    });
  });
}
