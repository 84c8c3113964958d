/** What a run's events say of its validations. */
import { existsSync } from "node:fs";
import { type EventOf, eventLines, latestByStep, parseEventLine, type Timed } from "./events.ts";

/** As `eventLine` writes them: other lines, which are many, are not parsed. */
const begins = ['{"type":"eval",', '{"type":"start",'];

/** The validations that count, by step: not those that the run went back over. None where there is no file. */
export function evaluations(events: string): Timed<EventOf<"eval">>[] {
  if (!existsSync(events)) return [];
  const parsed = eventLines(events)
    .filter((line) => begins.some((begin) => line.startsWith(begin)))
    .flatMap((line) => parseEventLine(line) ?? []);
  return latestByStep(parsed, "eval");
}
