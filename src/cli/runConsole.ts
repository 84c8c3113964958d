/**
 * What a run shows while it goes: its events as text for people or, with --json, one event a line on standard output and
 * the text on standard error.
 */
import { megabytes } from "../base/byteSize.ts";
import {
  type EventOf,
  evalLine,
  eventLine,
  formatDuration,
  meanSourceLosses,
  numericsLine,
  type RunEvent,
  type StepRecord,
  stepLine,
  stepTimer,
} from "../metrics/index.ts";
import { sourceNames } from "../train/sourceNames.ts";

export interface ConsoleOptions {
  readonly json: boolean;
  /** The run's last step. */
  readonly steps: number;
  /** Steps between lines. */
  readonly logPeriod: number;
}

export interface RunConsole {
  /** A line of text. */
  say(text: string): void;
  /** `time`: when it happened; default now. */
  event(event: RunEvent, time?: Date): void;
}

export function runConsole({ json, steps, logPeriod }: ConsoleOptions): RunConsole {
  const say = (text: string) => void (json ? process.stderr : process.stdout).write(`${text}\n`);
  const timer = stepTimer();
  /** Steps since the last line. */
  const unseen: StepRecord[] = [];
  let sources: readonly string[] = [];
  const isShown = (step: number) => step === 1 || step === steps || step % logPeriod === 0;
  return {
    say,
    event(event, time) {
      if (json) process.stdout.write(eventLine(event, time));
      if (event.type === "start") sources = sourceNames(event.config).training;
      if (event.type !== "step") {
        const text = eventText(event);
        if (text !== undefined) say(text);
        return;
      }
      timer.add(event.seconds);
      unseen.push(event);
      if (!isShown(event.step)) return;
      say(stepLine(withMeans(unseen, sources), event.step < steps ? timer.left(steps - event.step) : undefined));
      unseen.length = 0;
    },
  };
}

/** The last of these steps, at their mean speed and with the mean loss of each source: not every step has tokens of all. */
function withMeans(records: readonly StepRecord[], names: readonly string[]): StepRecord {
  const last = records.at(-1)!;
  const sum = (of: (record: StepRecord) => number) => records.reduce((total, record) => total + of(record), 0);
  const seconds = sum((record) => record.seconds);
  const sources = meanSourceLosses(records, names);
  return {
    ...last,
    seconds: seconds / records.length,
    tokensPerSecond: sum((record) => record.tokensPerSecond * record.seconds) / seconds,
    tflopsPerSecond: sum((record) => record.tflopsPerSecond * record.seconds) / seconds,
    ...(sources.length > 0 && { sources }),
  };
}

/** The event for a person; undefined for what is said elsewhere. */
export function eventText(event: Exclude<RunEvent, { type: "step" }>): string | undefined {
  switch (event.type) {
    case "start":
      return startText(event);
    case "compile":
      return `compiled ${event.program} in ${formatDuration(event.seconds)}${event.cached ? " (from the cache)" : ""}; ${memoryText(event)}`;
    case "precision":
      return [
        `from step ${event.step} on the precision is ${event.name}; matrix products of the linear layers:`,
        ...precisionText(event.precision),
        "compiling train_step …",
      ].join("\n");
    case "eval":
      return evalLine(event);
    case "numerics":
      return numericsLine(event);
    case "checkpoint":
      return `saved ${event.path} in ${formatDuration(event.seconds)}`;
    case "skip":
    case "note":
      return event.message;
    case "sample":
      return `sample after step ${event.step}: ${JSON.stringify(event.prompt)} → ${JSON.stringify(event.text)}`;
    default:
      return undefined;
  }
}

function startText({ parameters, flopsPerToken, peakFlopsPerSecond, precision = [] }: EventOf<"start">): string {
  const peak =
    peakFlopsPerSecond === undefined
      ? ""
      : `; MFU is of ${(peakFlopsPerSecond / 1e12).toFixed(2)} TFLOP/s, the BF16 matrix peak measured here`;
  const lines = precisionText(precision);
  return [
    `${parameters.toLocaleString("en")} parameters, ${(flopsPerToken / 1e6).toFixed(1)} MFLOP a token${peak}`,
    ...(lines.length > 0 ? ["matrix products of the linear layers:", ...lines] : []),
    "compiling train_step …",
  ].join("\n");
}

function precisionText(precision: readonly object[]): string[] {
  return (precision as readonly Readonly<Record<string, string>>[]).map((line) => {
    const { blocks = "", modules, fprop, dgrad, wgrad, runs, remarks } = line;
    const gemms = fprop === dgrad && fprop === wgrad ? fprop : `fprop ${fprop}; dgrad ${dgrad}; wgrad ${wgrad}`;
    return `  block${/\D/.test(blocks) ? "s" : ""} ${blocks}, ${modules}: ${gemms} (${runs}${remarks ? `; ${remarks}` : ""})`;
  });
}

function memoryText({ program, memory }: EventOf<"compile">) {
  const { argumentBytes = 0, temporaryBytes = 0, generatedCodeBytes = 0 } = memory;
  if (program !== "train_step") return `it takes ${megabytes(temporaryBytes)} beside weights and batch while it runs`;
  const total = argumentBytes + temporaryBytes + generatedCodeBytes;
  return `a step takes ${megabytes(total)}: ${megabytes(argumentBytes)} of state and batch, ${megabytes(temporaryBytes)} temporary`;
}
