import { appendFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { eventLine, followEvents, type RunEvent } from "../../src/metrics/index.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";

const note = (message: string): RunEvent => ({ type: "note", message });

describe("followEvents", () => {
  it("gives what is there, then each event once its line is whole, and leaves out what is damaged", async () => {
    const path = join(temporaryFolder(), "events.jsonl");
    const long = "ü".repeat(100_000);
    writeFileSync(path, `${eventLine(note("first"))}{"type":"torn\n${eventLine(note(long))}`);
    const whole = eventLine(note("in two pieces"));
    const later = [whole.slice(0, 20), whole.slice(20), eventLine(note("last"))];
    const seen: string[] = [];
    // Each look at the end finds one piece more.
    const isOver = () => {
      const piece = later.shift();
      if (piece === undefined) return true;
      appendFileSync(path, piece);
      if (piece === whole.slice(0, 20)) expect(seen).toEqual(["first", long]);
      return later.length === 0;
    };
    for await (const event of followEvents(path, { isOver, secondsBetween: 0.001 })) {
      seen.push((event as { message: string }).message);
    }
    expect(seen).toEqual(["first", long, "in two pieces", "last"]);
  });
});
