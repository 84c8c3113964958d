/** The cache of compiled programs as a user meets it: two processes, and `halfbyte cache`. */
import { chmodSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import type { EventOf, RunEvent } from "../../src/metrics/index.ts";
import { temporaryCache } from "../temporaryCache.ts";
import { ensureBuilt, halfbyte } from "../train/halfbyte.ts";
import { tinyKeys } from "../train/tinyRun.ts";

let cache = "";
beforeAll(async () => {
  await ensureBuilt();
  cache = temporaryCache();
});
afterAll(() => {
  vi.unstubAllEnvs();
  rmSync(cache, { recursive: true, force: true });
});

async function withCache(args: readonly string[], folder = cache) {
  vi.stubEnv("HALFBYTE_CACHE", folder);
  const ended = await halfbyte(args);
  vi.unstubAllEnvs();
  return ended;
}

/** float32: its program has no call that the plugin can't serialize. */
const train = (run: string, ...more: string[]) => [
  ...["train", ...tinyKeys, "dtype=float32", "steps=2", "enable_checkpointing=false"],
  ...[`base_output_directory=${join(cache, "runs")}`, `run_name=${run}`, ...more],
];

const compiled = () => readdirSync(join(cache, "compiled"));

function eventsOf<T extends "compile" | "step">(stdout: string, type: T): EventOf<T>[] {
  const events = stdout.trim().split("\n");
  return events.map((line) => JSON.parse(line) as RunEvent).filter((event) => event.type === type) as EventOf<T>[];
}

describe("a second run of the same program", () => {
  it("takes it from the cache, says so, and computes the same bits", async () => {
    const first = await withCache(train("first", "--json"));
    const second = await withCache(train("second", "--json"));
    const runs = [first, second].map(({ stdout }) => ({
      cached: eventsOf(stdout, "compile").map(({ cached }) => cached),
      losses: eventsOf(stdout, "step").map(({ loss }) => loss),
    }));
    expect(runs.map(({ cached }) => cached)).toEqual([[false], [true]]);
    expect(runs[1]!.losses).toEqual(runs[0]!.losses);
    expect(runs[0]!.losses.length).toBe(2);
    expect(second.stderr).toMatch(/compiled train_step in .+ \(from the cache\); a step takes /);
  });

  it("compiles again, without an error, where entries are damaged", async () => {
    const before = compiled();
    for (const name of before) writeFileSync(join(cache, "compiled", name), "damaged");
    const { exitCode, stdout, stderr } = await withCache(train("third", "--json"));
    expect({ exitCode, cached: eventsOf(stdout, "compile")[0]!.cached }).toEqual({ exitCode: 0, cached: false });
    expect(stderr).not.toMatch(/Warning/);
    expect(compiled().sort()).toEqual(before.sort());
  });

  it("runs without a cache, with one note, where the folder can't be used", async () => {
    const broken = temporaryCache();
    writeFileSync(join(broken, "compiled"), "no folder");
    chmodSync(broken, 0o555);
    const { exitCode, stdout, stderr } = await withCache(train("fourth"), broken);
    expect({ exitCode, done: stdout.includes("the run is in") }).toEqual({ exitCode: 0, done: true });
    expect(stderr.match(/HalfbyteCacheWarning: compiled programs are not kept/g)).toHaveLength(1);
    chmodSync(broken, 0o755);
    rmSync(broken, { recursive: true });
  });
});

describe("halfbyte cache", () => {
  it("shows what there is, and clears it", async () => {
    const count = compiled().length;
    expect(count).toBeGreaterThan(0);
    const shown = JSON.parse((await withCache(["cache", "--json"])).stdout);
    expect(shown.compiled).toMatchObject({ folder: join(cache, "compiled"), entries: count, limit: 2e9 });
    const none = { entries: 0, bytes: 0 };
    expect(shown.tokens).toEqual({ folder: join(cache, "tokens"), ...none, unfinished: none, limit: 20e9 });
    expect((await withCache(["cache"])).stdout).toMatch(
      new RegExp(
        `^${count} compiled programs?, [\\d.]+ MB of at most 2000 MB\n.*compiled\ntokens of 0 data sets, 0.0 MB of at most 20.0 GB\n.*tokens\n$`,
      ),
    );
    const cleared = JSON.parse((await withCache(["cache", "clear", "--json"])).stdout);
    expect(cleared.compiled.removed).toEqual({ entries: count, bytes: shown.compiled.bytes });
    expect(cleared.tokens.removed).toEqual({ entries: 0, bytes: 0 });
    expect(JSON.parse((await withCache(["cache", "clear", "tokens", "--json"])).stdout)).not.toHaveProperty("compiled");
    expect(compiled()).toEqual([]);
  });

  it("refuses other words, exit 2", async () => {
    expect(await withCache(["cache", "empty"])).toMatchObject({
      exitCode: 2,
      stderr: 'halfbyte: unknown word "empty"; did you mean `halfbyte cache clear`?\n',
    });
  });
});
