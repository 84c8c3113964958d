/** `halfbyte report losses`, on events of runs: what runs and sources are called. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { runLabels } from "../../src/cli/runLabels.ts";
import { eventLine, meanSourceLosses, type RunEvent } from "../../src/metrics/index.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { ensureBuilt, halfbyte } from "../train/halfbyte.ts";

beforeAll(ensureBuilt);

const start = (step: number, config: Record<string, unknown>): RunEvent => ({
  ...{ type: "start", step, config, parameters: 1, flopsPerToken: 1 },
});

function step(number: number, losses: Readonly<Record<string, number>>): RunEvent {
  const sources = Object.entries(losses).map(([source, loss]) => ({ source, loss, validTokens: 10 }));
  const speed = { seconds: 1, tflopsPerSecond: 1, tokensPerSecond: 1, validTokens: 20 };
  return { ...{ type: "step", step: number, loss: 3, gradNorm: 1, learningRate: 1, sources }, ...speed };
}

function evaluation(number: number, losses: Readonly<Record<string, number>>, epochs: readonly string[]): RunEvent {
  const sources = Object.entries(losses).map(([source, loss]) => ({ source, loss, bitsPerByte: 1, validTokens: 5 }));
  return {
    ...{ type: "eval", step: number, loss: 3, bitsPerByte: 1, validTokens: 10, seconds: 1, sources },
    epochs: epochs.map((source) => ({ source, epochs: 1 })),
  };
}

function writeRun(folder: string, events: readonly RunEvent[]): void {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "events.jsonl"), events.map((event) => eventLine(event)).join(""));
}

describe("losses of runs side by side", () => {
  it("have each source once, by its newest path and in the mixture's order, and runs of one name by their folders", async () => {
    const folder = temporaryFolder();
    writeRun(join(folder, "runs/m1"), [
      start(0, { dataset_path: "a,0.5;b,0.5", eval_dataset_path: "v;w" }),
      step(1, { b: 4 }),
      step(2, { a: 5 }),
      evaluation(2, { w: 3, v: 2 }, ["a", "b"]),
      // "b" is another one's name by now.
      start(2, { dataset_path: "b,5;there/b,5", eval_dataset_path: "there/v;w" }),
      step(3, { b: 6, "there/b": 3 }),
    ]);
    writeRun(join(folder, "r2/m1"), [start(0, {}), step(1, {})]);
    const runs = [join(folder, "runs/m1"), join(folder, "r2/m1")];
    const { stdout } = await halfbyte(["report", "losses", ...runs]);
    expect(stdout).toMatch(/^ +runs\/m1 +r2\/m1 +gap$/m);
    const rows = stdout.match(/training loss of \S+ +[\d.]+/g)!.map((row) => row.replace(/ +(?=[\d.]+$)/, " "));
    expect(rows).toEqual(["training loss of b 6.0000", "training loss of there/b 3.0000"]);
    expect(stdout).toContain("runs/m1 training on there/b");

    const [own, other] = JSON.parse((await halfbyte(["report", "losses", ...runs, "--json"])).stdout);
    expect([own.name, other.name]).toEqual(["runs/m1", "r2/m1"]);
    const named = ({ sources }: { sources: { source: string; loss: number }[] }) =>
      sources.map(({ source, loss }) => [source, loss]);
    expect(own.training.map(named)).toEqual([
      [["there/b", 4]],
      [["b", 5]],
      [
        ["b", 6],
        ["there/b", 3],
      ],
    ]);
    expect(own.validation.map(named)).toEqual([
      [
        ["there/v", 2],
        ["w", 3],
      ],
    ]);
  });

  it.each([
    [["runs/m1"], ["m1"]],
    [
      ["runs/m1", "runs/m2/"],
      ["m1", "m2"],
    ],
    [
      ["runs/m1", "r2/m1", "r2/m2"],
      ["runs/m1", "r2/m1", "m2"],
    ],
    [
      ["/a/x/m1", "/b/x/m1"],
      ["a/x/m1", "b/x/m1"],
    ],
    [
      ["/m1", "/b/m1"],
      ["/m1", "b/m1"],
    ],
    [
      ["runs/m1", "./runs/m1/"],
      ["m1", "m1"],
    ],
  ])("names %j as %j", (paths, labels) => {
    expect(runLabels(paths)).toEqual(labels);
  });

  it("have the mixture's order where the first steps are of a later source", () => {
    const of = (source: string) => ({ sources: [{ source, loss: 1, validTokens: 1 }] });
    const means = meanSourceLosses([of("c"), of("a")], ["a", "b", "c"]);
    expect(means.map(({ source }) => source)).toEqual(["a", "c"]);
  });
});
