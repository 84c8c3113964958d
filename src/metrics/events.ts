/**
 * A run's events.jsonl: one JSON object a line, with `type` and `time`, appended and never rewritten. A line is written
 * by one call; of a last line that a crash tore, the next process that writes cuts off what is there.
 */
import {
  closeSync,
  fstatSync,
  fsync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";
import { HalfbyteError, UserError } from "../base/errors.ts";
import { reasonOf } from "../base/systemReason.ts";
import type { RunSummary } from "./compare.ts";
import { isEvent } from "./eventChecks.ts";
import type { NumericsRecord } from "./numerics.ts";
import type { EvalRecord, StepRecord } from "./stepLine.ts";

/** What happened, without its time. Fields beside these are kept. */
export type RunEvent =
  | {
      readonly type: "start";
      /** Last step already done: 0, or where a checkpoint resumes. */
      readonly step: number;
      /** Set: it goes on from a checkpoint. What the file has of later steps is replaced by what follows. */
      readonly resumed?: boolean;
      /** The resolved keys. */
      readonly config: Readonly<Record<string, unknown>>;
      readonly parameters: number;
      readonly flopsPerToken: number;
      /** Measured BF16 matrix peak of a device, what MFU is a fraction of. */
      readonly peakFlopsPerSecond?: number;
      /** What every linear layer computes in, a row for blocks and modules that are alike. */
      readonly precision?: readonly object[];
    }
  | {
      readonly type: "compile";
      readonly program: string;
      readonly seconds: number;
      /** Whether the compiled program came from the cache on disk. Absent in older runs. */
      readonly cached?: boolean;
      /** Bytes on a device, as the compiler planned them. */
      readonly memory: Readonly<Record<string, number>>;
    }
  /** From this step on the linear layers compute in another precision. */
  | {
      readonly type: "precision";
      readonly step: number;
      readonly name: string;
      /** As in "start". */
      readonly precision: readonly object[];
    }
  | ({ readonly type: "step" } & StepRecord)
  | ({ readonly type: "eval" } & EvalRecord)
  /** What quantization does to the tensors of a step. */
  | ({ readonly type: "numerics" } & NumericsRecord)
  /** A step that changed nothing because something in it was not finite, or its batch had nothing to predict. */
  | {
      readonly type: "skip";
      readonly step: number;
      /** "overflow": of float16 at its loss scale, which falls. Only steps that are "not finite" count in `skippedInARow`. */
      readonly reason: "not finite" | "overflow" | "no targets";
      readonly skippedInARow: number;
      /** Names of what was not finite. */
      readonly tensors: readonly string[];
      readonly message: string;
    }
  /** Told when it is on disk, which may be some steps later. */
  | {
      readonly type: "checkpoint";
      readonly step: number;
      readonly path: string;
      readonly seconds: number;
      /** How much of it training waited for. Absent in older runs, which waited for all of it. */
      readonly blockedSeconds?: number;
    }
  | { readonly type: "sample"; readonly step: number; readonly prompt: string; readonly text: string }
  | ({ readonly type: "summary"; readonly step: number; readonly peakRssBytes: number } & RunSummary)
  | { readonly type: "note"; readonly message: string }
  | {
      readonly type: "end";
      readonly step: number;
      readonly reason: "done" | "interrupted" | "failed";
      readonly seconds: number;
      readonly message?: string;
    };

export type EventOf<T extends RunEvent["type"]> = Extract<RunEvent, { type: T }>;

/** ISO 8601, UTC. */
export type Timed<E> = E & { readonly time: string };

/** For JSON.stringify: NaN and infinities as strings. */
export const notFiniteAsText = (_: string, value: unknown): unknown =>
  typeof value === "number" && !Number.isFinite(value) ? String(value) : value;

/** One line, with its line end. JSON has no NaN and no infinities: they are written as strings. */
export function eventLine(event: RunEvent, time = new Date()): string {
  const { type, ...rest } = event;
  return `${JSON.stringify({ type, time: time.toISOString(), ...rest }, notFiniteAsText)}\n`;
}

const notFinite = new Map([
  ["NaN", Number.NaN],
  ["Infinity", Number.POSITIVE_INFINITY],
  ["-Infinity", Number.NEGATIVE_INFINITY],
]);

/** The event of a line, or undefined where it is none. */
export function parseEventLine(line: string): Timed<RunEvent> | undefined {
  try {
    const event: unknown = JSON.parse(line, (key, value) =>
      key !== "text" && key !== "prompt" && key !== "message" && typeof value === "string"
        ? (notFinite.get(value) ?? value)
        : value,
    );
    return isEvent(event) ? (event as Timed<RunEvent>) : undefined;
  } catch {
    return undefined;
  }
}

/** Appends to a run's events. Owns an open file: `close` it. */
export class EventLog {
  readonly path: string;
  #file: number;

  /** Opens or makes the file and its folder. */
  constructor(path: string) {
    this.path = path;
    mkdirSync(dirname(path), { recursive: true });
    this.#file = openSync(path, "a+");
    const torn = tornTail(this.#file);
    if (torn === undefined) return;
    // A whole event that only lacks its line end stays.
    if (parseEventLine(torn.text) !== undefined) this.#append("\n");
    else ftruncateSync(this.#file, torn.start);
  }

  /** Writes the event. The end's, and all before it, are on disk when this returns; a checkpoint's soon after. */
  write(event: RunEvent, time = new Date()): void {
    this.#append(eventLine(event, time));
    // Steps go on meanwhile. Where it fails, the end's says so.
    if (event.type === "checkpoint") fsync(this.#file, () => {});
    if (event.type === "end") fsyncSync(this.#file);
  }

  close(): void {
    if (this.#file >= 0) closeSync(this.#file);
    this.#file = -1;
  }

  #append(text: string): void {
    let bytes: Uint8Array = Buffer.from(text);
    try {
      while (bytes.length > 0) bytes = bytes.subarray(writeSync(this.#file, bytes));
    } catch (error) {
      throw new HalfbyteError("E_EVENTS", `${this.path}: can't be written (${(error as Error).message})`, {
        cause: error,
      });
    }
  }
}

/** What follows the last line end of a file, or undefined where nothing does. */
function tornTail(file: number): { text: string; start: number } | undefined {
  const { size } = fstatSync(file);
  const blockBytes = 64 * 1024;
  let tail = Buffer.alloc(0);
  for (let start = size; start > 0; ) {
    const length = Math.min(blockBytes, start);
    start -= length;
    const block = Buffer.alloc(length);
    readSync(file, block, 0, length, start);
    tail = Buffer.concat([block, tail]);
    const lineEnd = block.lastIndexOf(0x0a);
    if (lineEnd >= 0 || start === 0) {
      const from = lineEnd + 1;
      return from === tail.length ? undefined : { text: tail.toString("utf8", from), start: start + from };
    }
  }
  return undefined;
}

export interface EventsRead {
  readonly events: readonly Timed<RunEvent>[];
  /** Numbers (from 1) of lines that hold no event, such as one torn by a crash. */
  readonly damagedLines: readonly number[];
}

/** The lines of a run's events. @throws UserError where the file can't be read */
export function eventLines(path: string): string[] {
  try {
    return readFileSync(path, "utf8").split("\n");
  } catch (error) {
    throw new UserError("E_EVENTS", `${path}: can't be read (${reasonOf(error)})`);
  }
}

/** All events of a file, in order. @throws UserError where it can't be read */
export function readEvents(path: string): EventsRead {
  const events: Timed<RunEvent>[] = [];
  const damagedLines: number[] = [];
  for (const [i, line] of eventLines(path).entries()) {
    if (line === "") continue;
    const event = parseEventLine(line);
    if (event === undefined) damagedLines.push(i + 1);
    else events.push(event);
  }
  return { events, damagedLines };
}

/**
 * The events of one type that count, by step: a run that went on from a checkpoint repeats the steps after it, and the
 * last time is what the weights come from.
 */
export function latestByStep<T extends "step" | "eval" | "sample" | "numerics">(
  events: readonly Timed<RunEvent>[],
  type: T,
): Timed<EventOf<T>>[] {
  const isWanted = (event: Timed<RunEvent>): event is Timed<EventOf<T>> => event.type === type;
  const byStep = new Map<number, Timed<EventOf<T>>>();
  for (const event of events) {
    if (event.type === "start") {
      for (const step of [...byStep.keys()]) if (step > event.step) byStep.delete(step);
    }
    if (isWanted(event)) byStep.set(event.step, event);
  }
  return [...byStep].sort(([a], [b]) => a - b).map(([, event]) => event);
}
