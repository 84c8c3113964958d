/** Training on lesser machines than this one, by holding XLA and oneDNN back: each in a process, which reads the settings once. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import type { EventOf, RunEvent } from "../../src/metrics/index.ts";
import { ensureBuilt, halfbyte } from "./halfbyte.ts";
import { tinyKeys } from "./tinyRun.ts";

const scratch = mkdtempSync(join(tmpdir(), "halfbyte-lesser-"));
const vitest = fileURLToPath(new URL("../../node_modules/vitest/vitest.mjs", import.meta.url));

const avx2 = { XLA_FLAGS: "--xla_cpu_max_isa=AVX2", ONEDNN_MAX_CPU_ISA: "AVX2", HALFBYTE_NATIVE_KERNELS: "0" };
const modes = {
  "without oneDNN's products": { HALFBYTE_ONEDNN: "0", HALFBYTE_NATIVE_KERNELS: "0" },
  AVX2: avx2,
  "SSE4.2": { XLA_FLAGS: "--xla_cpu_max_isa=SSE4_2", ONEDNN_MAX_CPU_ISA: "SSE41", HALFBYTE_NATIVE_KERNELS: "0" },
} as const;

/** Sums in another order and products without FMA: of a loss after up to 20 steps, relative. */
const tolerance = 2e-3;

async function withEnvironment<T>(env: Readonly<Record<string, string>>, run: () => Promise<T>): Promise<T> {
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  try {
    return await run();
  } finally {
    vi.unstubAllEnvs();
  }
}

async function lossesIn(env: Readonly<Record<string, string>>, quantization: string): Promise<number[]> {
  const folders = [`base_output_directory=${scratch}`, `run_name=run-${Math.random().toString(36).slice(2)}`];
  const settings = [`quantization=${quantization}`, "steps=20", "enable_checkpointing=false"];
  const { exitCode, stdout, stderr } = await withEnvironment(env, () =>
    halfbyte(["train", ...tinyKeys, ...settings, ...folders, "--json"]),
  );
  expect(exitCode, stderr).toBe(0);
  const events = stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as RunEvent);
  return events.filter((event): event is EventOf<"step"> => event.type === "step").map(({ loss }) => loss as number);
}

beforeAll(ensureBuilt);
afterEach(() => vi.unstubAllEnvs());
afterAll(() => rmSync(scratch, { recursive: true }));

describe("20 steps on a lesser machine", () => {
  it.each(["none", "nvfp4"])(
    "have the losses of this one, quantization=%s",
    { timeout: 300_000 },
    async (quantization) => {
      const here = await lossesIn({}, quantization);
      expect(here).toHaveLength(20);
      expect(here.at(-1)).toBeLessThan(0.8 * here[0]!);
      for (const [mode, env] of Object.entries(modes)) {
        const losses = await lossesIn(env, quantization);
        const differences = losses.map((loss, i) => Math.abs(loss / here[i]! - 1));
        expect(losses, mode).toHaveLength(20);
        expect(Math.max(...differences), mode).toBeLessThan(tolerance);
      }
    },
  );
});

it("quantization has the golden bits under AVX2", { timeout: 300_000 }, async () => {
  const files = ["nvfp4Golden", "mxGolden", "fp8Golden"].map((name) => `test/quant/${name}.cpu.test.ts`);
  const { exitCode, stdout, stderr } = await withEnvironment({ ...avx2, NO_COLOR: "1" }, () =>
    halfbyte([vitest, "run", ...files], { program: process.execPath }),
  );
  expect(exitCode, stdout + stderr).toBe(0);
  expect(stdout).toMatch(/Test Files +3 passed/);
});
