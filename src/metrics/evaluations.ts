/** What a run's events say of its validations. */
import { existsSync, readFileSync } from "node:fs";
import { type EventOf, latestByStep, parseEventLine, type Timed } from "./events.ts";

/** As `eventLine` writes them: other lines, which are many, are not parsed. */
const begins = ['{"type":"eval",', '{"type":"start",'];

/** The validations that count, by step: not those that the run went back over. None where there is no file. */
export function evaluations(events: string): Timed<EventOf<"eval">>[] {
  if (!existsSync(events)) return [];
  const lines = readFileSync(events, "utf8").split("\n");
  const parsed = lines
    .filter((line) => begins.some((begin) => line.startsWith(begin)))
    .flatMap((line) => parseEventLine(line) ?? []);
  return latestByStep(parsed, "eval");
}
