/** Too little memory, in real processes: known before the first step, and found when it runs out. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { PjrtError } from "../../src/base/errors.ts";
import { explainedFailure, OutOfMemoryError, stateBeyondMemory } from "../../src/train/outOfMemory.ts";
import { ensureBuilt, halfbyte, launcher } from "./halfbyte.ts";
import { tinyKeys, tinyModel, tinyPlan } from "./tinyRun.ts";

let folder = "";
beforeAll(async () => {
  await ensureBuilt();
  folder = mkdtempSync(join(tmpdir(), "halfbyte-memory-"));
});
afterEach(() => vi.unstubAllEnvs());
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Little state, large activations: mlp_dim 65,536 on `tokens` tokens. */
const wide = (run: string, batch: number, length: number) => [
  "train",
  ...tinyKeys.filter((key) => !/^(mlp_dim|num_decoder|max_target|per_device)/.test(key)),
  ...["mlp_dim=65536", "num_decoder_layers=1", `max_target_length=${length}`, `per_device_batch_size=${batch}`],
  ...["steps=2", `base_output_directory=${folder}`, `run_name=${run}`],
];

const listing = [
  /\n +\d+ MB +temporary memory of a step \(activations, gradients\)\n/,
  /\n +\d+ MB +optimizer moments \(float32, two for each weight\)\n/,
  /\n +\d+ MB +bfloat16\[\d+,65536\] of layers\.\*\.mlp\.gate fprop\n/,
  /\n {2}per_device_batch_size=\d+ with gradient_accumulation_steps=2 \(.*\)\n {2}remat_policy=full .*\n {2}max_target_length=\d+\n$/,
];

describe("too little memory", () => {
  it("is known before the first step: exit 2, the largest buffers and three settings", async () => {
    vi.stubEnv("HALFBYTE_MEMORY_LIMIT", "300MB");
    const { exitCode, stderr } = await halfbyte(wide("planned", 8, 64));
    expect(exitCode).toBe(2);
    expect(stderr).toMatch(
      /^halfbyte: a step needs \d+ MB beside its state; [\d.]+ MB of 300 MB are free\. The largest/,
    );
    for (const line of listing) expect(stderr).toMatch(line);
  });

  it.runIf(process.platform === "linux")("is explained when it runs out: exit 1", async () => {
    // The plan sees the machine's memory; the process gets 4 GB of addresses, of which a step wants 3.8.
    const program = ["-c", 'ulimit -v 4000000; exec "$0" "$@"', launcher, ...wide("exhausted", 32, 128)];
    const { exitCode, stderr } = await halfbyte(program, { program: "/bin/sh" });
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(/^halfbyte: memory ran out: Out of memory allocating \d+ bytes\. The largest buffers:\n/);
    for (const line of listing) expect(stderr).toMatch(line);
    const events = join(folder, "exhausted", "events.jsonl");
    expect(existsSync(events) && readFileSync(events, "utf8")).toMatch(/"reason":"failed".*per_device_batch_size=16/);
  });
});

describe("the state of a model", () => {
  it("is refused where it alone is too large, naming the sizes", () => {
    vi.stubEnv("HALFBYTE_MEMORY_LIMIT", "1GB");
    expect(stateBeyondMemory(tinyPlan())).toBeUndefined();
    const error = stateBeyondMemory(tinyPlan({ model: { ...tinyModel, vocabSize: 4e6, embDim: 64 } }))!;
    expect(error.message).toMatch(
      /parameters need 4096 MB for their state; 1000 MB may be used\. The largest buffers:/,
    );
    expect(error.buffers.map(({ bytes }) => bytes)).toEqual(
      [...error.buffers.map(({ bytes }) => bytes)].sort((a, b) => b - a),
    );
    expect(error.knobs).toHaveLength(3);
    expect(error.knobs.join()).toContain("vocab_size (now 4000000)");
  });
});

describe("other failures", () => {
  it("stay as they are", async () => {
    const failure = new PjrtError(13, "something else");
    expect(await explainedFailure(failure, tinyPlan())).toBe(failure);
  });

  it("of a JavaScript array are out of memory too", async () => {
    const error = await explainedFailure(new RangeError("Array buffer allocation failed"), tinyPlan());
    expect(error).toBeInstanceOf(OutOfMemoryError);
    expect((error as OutOfMemoryError).knobs).toHaveLength(3);
  });
});
