/** Runs on records and mixtures, through `halfbyte train` as a process. */
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { gzipSync } from "node:zlib";
import { beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { clearTokens } from "../../src/data/index.ts";
import { type EventOf, type RunEvent, readEvents } from "../../src/metrics/index.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { temporaryCache } from "../temporaryCache.ts";
import { ensureBuilt, halfbyte } from "./halfbyte.ts";
import { stateHashes } from "./runFiles.ts";
import { tinyKeys } from "./tinyRun.ts";

beforeAll(ensureBuilt);

const keys = tinyKeys.filter((key) => !/^(dataset_type|vocab_size)=/.test(key));
const lines = (records: readonly unknown[]) => records.map((record) => `${JSON.stringify(record)}\n`).join("");
const eventsOf = <T extends RunEvent["type"]>(base: string, run: string, type: T) =>
  readEvents(join(base, run, "events.jsonl")).events.filter((event) => event.type === type) as unknown as EventOf<T>[];

async function train(...args: string[]): Promise<string> {
  const { exitCode, stdout, stderr } = await halfbyte(["train", ...keys, ...args]);
  expect(exitCode, stderr).toBe(0);
  return stdout;
}

describe("a run on several sources", () => {
  it("tells each one's training and validation loss, and resumes to the same bits with its tokens made anew on threads", async () => {
    const cache = temporaryCache();
    vi.stubEnv("HALFBYTE_CACHE", cache);
    onTestFinished(() => {
      vi.unstubAllEnvs();
      rmSync(cache, { recursive: true, force: true });
    });
    const texts = (word: string) =>
      lines(
        Array.from({ length: 40 }, (_, i) => ({
          text: `${word} ${i} sat on the mat ${i * 7}, and that was that. `.repeat(3),
        })),
      );
    const folder = temporaryFolder({ "a.jsonl": texts("the cat"), "b.jsonl.gz": gzipSync(texts("A DOG")) });
    const [a, b] = [join(folder, "a.jsonl"), join(folder, "b.jsonl.gz")];
    const base = join(folder, "runs");
    const data = [`dataset_path=${a},0.75;${b},0.25`, "validation_fraction=0.2", `base_output_directory=${base}`];
    const shape = ["checkpoint_period=2", "eval_interval=2", "learning_rate_schedule_steps=4"];
    const shown = await train(...data, ...shape, "steps=4", "run_name=straight");
    expect(shown).toContain(`loss of ${b}: `);
    expect(shown).toMatch(/\n {2}\S+b\.jsonl\.gz: training [\d,]+ tokens in \d+ documents; validation /);
    const [first, last] = eventsOf(base, "straight", "eval");
    expect(first!.sources!.map(({ source }) => source).sort()).toEqual([a, b]);
    const { sources, loss, validTokens } = last!;
    const total = sources!.reduce((sum, part) => sum + part.loss * part.validTokens, 0);
    expect(total / validTokens).toBeCloseTo(loss, 5);
    expect(sources!.reduce((sum, part) => sum + part.validTokens, 0)).toBe(validTokens);
    const epochs = Object.fromEntries(last!.epochs!.map(({ source, epochs }) => [source, epochs]));
    expect(epochs[a]! / epochs[b]!).toBeGreaterThan(2.5);

    const steps = eventsOf(base, "straight", "step");
    for (const { sources, loss, validTokens } of steps) {
      expect(sources!.map(({ source, validTokens }) => [source, validTokens])).toEqual([
        [a, 96],
        [b, 32],
      ]);
      const total = sources!.reduce((sum, part) => sum + part.loss * part.validTokens, 0);
      expect(Math.abs(total / validTokens / loss - 1)).toBeLessThan(1e-6);
    }
    const lastSources = steps.at(-1)!.sources!;
    const shownLosses = lastSources.map(({ source, loss }) => `loss of ${source}: ${loss.toFixed(3)}`).join(", ");
    expect(shown).toMatch(new RegExp(`completed step: 4, .*, ${shownLosses.replaceAll(".", "\\.")}\n`));
    const [summary] = eventsOf(base, "straight", "summary");
    expect(summary!.sourceTrainingLosses).toEqual(
      Object.fromEntries(lastSources.map(({ source, loss }) => [source, loss])),
    );

    const report = await halfbyte(["report", "losses", join(base, "straight"), `svg=${join(base, "l.svg")}`]);
    expect(report.stdout).toMatch(new RegExp(`training loss of ${b} +${lastSources[1]!.loss.toFixed(4)}`));
    expect(readFileSync(join(base, "l.svg"), "utf8")).toContain(`training on ${b}`);
    const asJson = await halfbyte(["report", "losses", join(base, "straight"), "--json"]);
    const [{ training, validation }] = JSON.parse(asJson.stdout);
    expect(training.map(({ sources }: { sources: unknown }) => sources)).toEqual(steps.map(({ sources }) => sources));
    expect(validation.at(-1)).toMatchObject({ step: 4, loss, validTokens });

    await train(...data, ...shape, "steps=2", "run_name=parts");
    clearTokens();
    const resumed = await train(...data, ...shape, "steps=4", "run_name=parts", "tokenize_workers=2");
    expect(resumed).toContain("resuming from ");
    expect(stateHashes(join(base, "parts"), 4)).toEqual(stateHashes(join(base, "straight"), 4));
    expect(eventsOf(base, "parts", "step").map(({ sources }) => sources)).toEqual(steps.map(({ sources }) => sources));
  });

  it("learns what follows prompts, packed by whole documents, and refuses other records when it goes on", async () => {
    const pairs = (sign: string) =>
      lines(Array.from({ length: 60 }, (_, i) => ({ input: `what is ${i} and ${i}?`, output: ` ${2 * i}${sign}` })));
    const path = join(temporaryFolder({ "a.jsonl": pairs(".") }), "a.jsonl");
    const folder = dirname(path);
    const base = join(folder, "runs");
    const run = ["dataset_type=completion", `dataset_path=${path}`, `base_output_directory=${base}`, "run_name=pairs"];
    const shown = await train(...run, "steps=3");
    expect(shown).toMatch(/packing: \d+ sequences of 32 tokens/);
    const steps = eventsOf(base, "pairs", "step");
    expect(steps.length).toBe(3);
    for (const { validTokens, loss } of steps) {
      expect(validTokens).toBeGreaterThan(0);
      expect(validTokens).toBeLessThan(40);
      expect(loss).toBeGreaterThan(0);
    }
    // The same size.
    writeFileSync(path, pairs("!"));
    const other = await halfbyte(["train", ...keys, ...run, "steps=4"]);
    expect(other.exitCode).toBe(2);
    expect(other.stderr).toMatch(/can't be resumed: the training text gives other tokens/);
  });
});
