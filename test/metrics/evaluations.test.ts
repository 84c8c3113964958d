import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { evaluations, eventLine, type RunEvent } from "../../src/metrics/index.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";

const start = (step: number): RunEvent => ({ type: "start", step, config: {}, parameters: 1, flopsPerToken: 6 });
const evaluated = (step: number, loss: number): RunEvent => ({
  ...{ type: "eval", step, loss, bitsPerByte: 1, validTokens: 100, seconds: 1 },
});

describe("a run's validations", () => {
  it("count where the run did not go back over them", () => {
    const path = join(temporaryFolder(), "events.jsonl");
    expect(evaluations(path)).toEqual([]);
    const losses = (...events: RunEvent[]) => {
      writeFileSync(path, `${events.map((event) => eventLine(event)).join("")}{"type":"eval","st`);
      return evaluations(path).map(({ step, loss }) => [step, loss]);
    };
    const first = [start(0), evaluated(10, 3), evaluated(20, 2)];
    expect(losses(...first)).toEqual([
      [10, 3],
      [20, 2],
    ]);
    expect(losses(...first, start(20))).toHaveLength(2);
    expect(losses(...first, start(10), start(20))).toEqual([[10, 3]]);
    expect(losses(...first, start(10), evaluated(20, 2.5), start(20))).toEqual([
      [10, 3],
      [20, 2.5],
    ]);
    expect(losses(...first, start(0))).toEqual([]);
  });
});
