/** What a run's events say of a step's validation. */
import { existsSync, readFileSync } from "node:fs";
import { type EventOf, parseEventLine, type Timed } from "./events.ts";

/** As `eventLine` writes them: other lines, which are many, are not parsed. */
const begin = '{"type":"eval",';

/** The last validation of a step, or undefined where there is none. */
export function evaluationAt(events: string, step: number): Timed<EventOf<"eval">> | undefined {
  if (!existsSync(events)) return undefined;
  const lines = readFileSync(events, "utf8").split("\n");
  for (const line of lines.reverse()) {
    const event = line.startsWith(begin) ? parseEventLine(line) : undefined;
    if (event?.type === "eval" && event.step === step) return event;
  }
  return undefined;
}
