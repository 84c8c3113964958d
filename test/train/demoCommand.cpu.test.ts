/** `halfbyte demo`, shortened, as a process. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { readEvents } from "../../src/metrics/index.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { ensureBuilt, halfbyte } from "./halfbyte.ts";

beforeAll(ensureBuilt);

const speech = (i: number) =>
  `Fellow citizens of the year ${1800 + i}, the state of the Union is good, and our ${i % 3 ? "harvest" : "trade"} grows. `.repeat(
    30,
  );

const short = [
  "model_name=llama-tiny",
  "vocab_size=300",
  "max_target_length=64",
  "per_device_batch_size=4",
  "validation_fraction=0.1",
  "steps=8",
  "eval_interval=4",
];

describe("halfbyte demo", () => {
  it("trains in BF16 and in NVFP4 on the same data and compares them", async () => {
    const texts = Object.fromEntries(Array.from({ length: 12 }, (_, i) => [`texts/${i}.txt`, speech(i)]));
    const folder = temporaryFolder(texts);
    const base = join(folder, "demo");
    const keys = [...short, `dataset_path=${join(folder, "texts")}`, `base_output_directory=${base}`];
    const { exitCode, stdout, stderr } = await halfbyte(["demo", ...keys, "--json"]);
    expect(exitCode, stderr).toBe(0);

    const result = JSON.parse(stdout);
    const [plain, quantized] = result.runs;
    expect([plain.name, quantized.name]).toEqual(["bf16", "nvfp4"]);
    for (const run of result.runs) {
      expect(run.validationLoss).toBeGreaterThan(0);
      expect(run.bitsPerByte).toBeGreaterThan(0);
      expect(run.tokensPerSecond).toBeGreaterThan(0);
      expect(run.mfu).toBeGreaterThan(0);
      expect(typeof run.sample).toBe("string");
    }
    expect(quantized.validationLoss).not.toBe(plain.validationLoss);
    expect(result.gapPercent).toBeCloseTo((quantized.validationLoss / plain.validationLoss - 1) * 100, 8);
    expect(Math.abs(result.gapPercent)).toBeLessThan(5);
    expect(readFileSync(result.chart, "utf8").match(/nvfp4 (training|validation)/g)).toHaveLength(2);

    // The same first loss: the same weights and the same data, read by other matrix products.
    const firstLoss = (run: string) => {
      const { events } = readEvents(join(base, run, "events.jsonl"));
      return events.flatMap((event) => (event.type === "step" ? [event.loss] : []))[0]!;
    };
    expect(Math.abs(firstLoss("nvfp4") - firstLoss("bf16"))).toBeLessThan(0.05);
    const keysOf = (run: string) => JSON.parse(readFileSync(join(base, run, "config.json"), "utf8"));
    const { run_name: _, quantization: __, ...common } = keysOf("bf16");
    expect(keysOf("nvfp4")).toMatchObject(common);
    expect(existsSync(join(base, "bf16", "tokenizer", "tokenizer.json"))).toBe(true);

    expect(stderr).toContain("text: 11 documents to train on");
    expect(stderr).toMatch(/^bf16 {2}step 8\/8 {2}loss [\d.]+ {2}\d+ tokens\/s {2}left: /m);
    expect(stderr).toMatch(/^validation loss +[\d.]+ +[\d.]+ +[+−]?[\d.]+ %$/m);
    expect(stderr).toMatch(/^nvfp4 writes: The state of the Union is/m);
    expect(stderr).toContain("Try next:");
    expect(readdirSync(base).sort()).toEqual(["bf16", "loss.svg", "nvfp4"]);
  });

  it("refuses what it can't use before it does anything, exit 2", async () => {
    const folder = temporaryFolder({ "texts/one.txt": speech(1), "texts/two.txt": speech(2) });
    const base = join(folder, "demo");
    const where = [`dataset_path=${join(folder, "texts")}`, `base_output_directory=${base}`];
    for (const [args, message] of [
      [["step=8"], /unknown key "step"; did you mean steps\?/],
      [["quantization=nvfp5"], /unknown recipe "nvfp5"/],
      [["quantization=none"], /quantization=none/],
      [["first_layers_bf16=4"], /would quantize nothing/],
    ] as const) {
      const { exitCode, stdout, stderr } = await halfbyte(["demo", ...where, ...args]);
      expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: "" });
      expect(stderr).toMatch(message);
    }
    expect(existsSync(base)).toBe(false);
  });
});
