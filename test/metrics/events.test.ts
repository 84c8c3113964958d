import { appendFileSync, readFileSync, truncateSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  EventLog,
  eventLine,
  latestByStep,
  parseEventLine,
  type RunEvent,
  readEvents,
} from "../../src/metrics/index.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";

const step = (n: number, loss = 1): RunEvent => ({
  type: "step",
  step: n,
  loss,
  seconds: 0.5,
  validTokens: 8,
  gradNorm: 1,
  learningRate: 1e-3,
  tokensPerSecond: 16,
  tflopsPerSecond: 0.1,
});
const start = (n: number): RunEvent => ({
  type: "start",
  step: n,
  config: { steps: 9 },
  parameters: 1,
  flopsPerToken: 6,
});
const time = new Date("2026-01-02T03:04:05.678Z");

describe("event lines", () => {
  it("are JSON with type and time first", () => {
    expect(eventLine({ type: "note", message: "two\nlines" }, time)).toBe(
      '{"type":"note","time":"2026-01-02T03:04:05.678Z","message":"two\\nlines"}\n',
    );
  });

  it("keep numbers that JSON has not", () => {
    for (const loss of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 1e-300]) {
      expect(parseEventLine(eventLine(step(1, loss), time))).toEqual({ ...step(1, loss), time: time.toISOString() });
    }
  });

  it("keep any text, and never span lines", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        const line = eventLine({ type: "sample", step: 1, prompt: "NaN", text }, time);
        expect(line.indexOf("\n")).toBe(line.length - 1);
        expect(parseEventLine(line)).toMatchObject({ prompt: "NaN", text });
      }),
    );
  });

  it("are none where a field is not what it is taken for; fields and types that are not known may be anything", () => {
    const line = (event: object) => JSON.stringify({ time: time.toISOString(), ...event });
    for (const other of [{ loss: "high" }, { loss: null }, { step: 1.5 }, { seconds: undefined }, { lossScale: [] }])
      expect(parseEventLine(line({ ...step(1), ...other })), JSON.stringify(other)).toBe(undefined);
    expect(parseEventLine(line({ ...start(0), config: null }))).toBe(undefined);
    const numerics = { type: "numerics", step: 1, seconds: 1, sites: [{ layer: 0, module: "mlp.up", tensor: "x" }] };
    expect(parseEventLine(line(numerics))).toBe(undefined);
    expect(parseEventLine(line({ ...step(1), more: { a: [] } }))).toMatchObject({ step: 1, more: { a: [] } });
    for (const type of ["later", "constructor"]) expect(parseEventLine(line({ type }))).toMatchObject({ type });
  });

  it.each(["", "{", "3", "null", '{"step":1}'])("are not made of %s", (line) => {
    expect(parseEventLine(line)).toBeUndefined();
  });
});

describe("EventLog", () => {
  it("appends, also to a file that exists", () => {
    const path = join(temporaryFolder(), "runs", "a", "events.jsonl");
    for (const n of [1, 2]) {
      const log = new EventLog(path);
      log.write(step(n), time);
      log.close();
      log.close();
    }
    expect(readEvents(path).events.map((event) => event.type === "step" && event.step)).toEqual([1, 2]);
    expect(readFileSync(path, "utf8").endsWith("}\n")).toBe(true);
  });

  it("cuts off a torn last line, wherever it was torn", () => {
    const whole = eventLine(step(1), time);
    for (let kept = 0; kept < whole.length; kept++) {
      const path = join(temporaryFolder(), "events.jsonl");
      appendFileSync(path, whole + eventLine(step(2), time));
      truncateSync(path, whole.length + kept);
      const log = new EventLog(path);
      log.write(step(3), time);
      log.close();
      const { events, damagedLines } = readEvents(path);
      // Torn just before its line end the event is whole after all.
      const steps = kept === whole.length - 1 ? [1, 2, 3] : [1, 3];
      expect(events.map((event) => event.type === "step" && event.step)).toEqual(steps);
      expect(damagedLines).toEqual([]);
    }
  });

  it("says which file it could not write", () => {
    const log = new EventLog(join(temporaryFolder(), "events.jsonl"));
    log.close();
    expect(() => log.write(step(1))).toThrow(/events\.jsonl: can't be written/);
  });
});

describe("latestByStep", () => {
  it("takes what a resumed run did again, and forgets what it had gone back over", () => {
    const events = [start(0), step(1, 1), step(2, 2), step(3, 3), start(1), step(2, 20)].map((event) => ({
      ...event,
      time: "",
    }));
    expect(latestByStep(events, "step").map((event) => [event.step, event.loss])).toEqual([
      [1, 1],
      [2, 20],
    ]);
    expect(latestByStep(events, "eval")).toEqual([]);
  });
});
