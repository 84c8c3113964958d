/**
 * Parquet files are decoded in a process of their own: hyparquet believes the counts that a file gives, so a damaged one can take
 * all memory or never end. That process can be lost; this one goes on.
 */
import { type ChildProcess, fork } from "node:child_process";
import { createRequire } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";
import { invariant } from "../base/errors.ts";
import type { ParquetParts } from "./parquetFile.ts";

/** The parts of a file, or the rows of one. */
export interface ParquetJob {
  readonly path: string;
  readonly rows?: { readonly group: number; readonly columns: readonly string[] };
}

/** Of a row that can't be used, why. */
export type ParquetRow = Readonly<Record<string, unknown>> | string;

/** What the process sends: rows come in several. */
export type ParquetMessage =
  | { readonly kind: "parts"; readonly parts: ParquetParts }
  | { readonly kind: "rows"; readonly rows: readonly ParquetRow[]; readonly last: boolean }
  | { readonly kind: "failure"; readonly reason: string };

/** Megabytes of heap for any file, and for each of its own: rows take more than the bytes they are made of. */
const [leastHeap, heapEach, mostHeap] = [256, 16, 4096];

/** One job at a time. */
export interface ParquetProcess {
  /** Megabytes. */
  readonly heap: number;
  /**
   * The parts, or the rows, as the job asks for.
   * @throws Error with a reason in words, also where there is no reply within `seconds`
   */
  ask(job: ParquetJob, seconds: number): Promise<{ readonly parts?: ParquetParts; readonly rows: ParquetRow[] }>;
  isAlive(): boolean;
  end(): void;
}

/** A process that has nothing to do: starting one takes longer than reading a small file. */
let idle: ParquetProcess | undefined;

/** A process for a file of so many bytes. `giveBack` it. */
export function takeProcess(bytes: number): ParquetProcess {
  const heap = Math.min(mostHeap, leastHeap + Math.ceil((heapEach * bytes) / 1e6));
  const found = idle;
  idle = undefined;
  if (found?.isAlive() && found.heap >= heap) return found;
  found?.end();
  return start(heap);
}

/** One that has failed to read a file can read another. */
export function giveBack(process: ParquetProcess): void {
  if (process.isAlive() && idle === undefined) idle = process;
  else process.end();
}

type Settle = (outcome: Awaited<ReturnType<ParquetProcess["ask"]>> | Error) => void;

function start(heap: number): ParquetProcess {
  const child = startReader(heap);
  let settle: Settle | undefined;
  let failure: Error | undefined;
  let rows: ParquetRow[] = [];
  const fail = (reason: string) => {
    failure ??= new Error(reason);
    settle?.(failure);
  };
  child.on("message", (message: ParquetMessage) => {
    if (message.kind === "failure") settle?.(new Error(message.reason));
    else if (message.kind === "parts") settle?.({ parts: message.parts, rows: [] });
    else {
      for (const row of message.rows) rows.push(row);
      if (message.last) settle?.({ rows });
    }
  });
  child.on("error", (error) => fail(error.message));
  child.on("exit", () => fail(`reading it takes more than ${heap} MB of memory`));
  const end = () => {
    fail("it is read no more");
    child.kill("SIGKILL");
  };
  const keepsRunning = (keeps: boolean) => {
    for (const held of [child, child.channel]) held?.[keeps ? "ref" : "unref"]();
  };
  keepsRunning(false);
  return {
    heap,
    isAlive: () => failure === undefined,
    end,
    ask(job, seconds) {
      return new Promise((resolve, reject) => {
        if (failure !== undefined) return reject(failure);
        const timer = setTimeout(() => {
          // This process may have been busy itself, and the reply lies there.
          setImmediate(() =>
            setImmediate(() => {
              if (settle === undefined) return;
              fail(`reading a part of it takes more than ${Math.round(seconds)} s`);
              end();
            }),
          );
        }, seconds * 1000);
        keepsRunning(true);
        rows = [];
        settle = (outcome) => {
          settle = undefined;
          clearTimeout(timer);
          keepsRunning(false);
          if (outcome instanceof Error) reject(outcome);
          else resolve(outcome);
        };
        child.send(job);
      });
    },
  };
}

/** In a clone the sources run without a build, as in tests: the process then reads TypeScript through tsx, as its parent does. */
function startReader(heap: number): ChildProcess {
  const here = import.meta.url;
  const ending = here.slice(here.lastIndexOf("."));
  invariant(ending === ".js" || ending === ".ts", `a module named ${here}`);
  const script = fileURLToPath(new URL(`./parquetReader${ending}`, here));
  const loader = ending === ".ts" ? ["--import", pathToFileURL(createRequire(here).resolve("tsx")).href] : [];
  return fork(script, [], {
    execArgv: [`--max-old-space-size=${heap}`, ...loader],
    serialization: "advanced",
    stdio: ["ignore", "ignore", "ignore", "ipc"],
  });
}
