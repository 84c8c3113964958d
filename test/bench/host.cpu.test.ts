/** `npm run bench:host` as a person runs it, on its smallest workload. */
import { fileURLToPath } from "node:url";
import { describe, expect, it, vi } from "vitest";
import { halfbyte } from "../train/halfbyte.ts";

const script = fileURLToPath(new URL("../../bench/host.ts", import.meta.url));
const benchHost = (...args: string[]) => halfbyte(["--import", "tsx", script, ...args], { program: process.execPath });

describe("bench:host", () => {
  it("measures a run, the data and the disk; the run keeps its device fed", async () => {
    const { exitCode, stdout, stderr } = await benchHost("workload=tiny", "steps=12", "rounds=1", "--json");
    expect(exitCode, stderr).toBe(0);
    const { run, data, disk } = JSON.parse(stdout);
    const { ready, compiled, firstStep } = run.startUp;
    expect([0, ready, compiled, firstStep]).toEqual([0, ready, compiled, firstStep].sort((a, b) => a - b));
    // Of 12 steps the first two are not traced, nor does the one after them have one before it; one follows the checkpoint.
    expect(run.host.steps).toBe(8);
    expect(run.host.fed).toBeGreaterThan(4);
    expect(run.host.work).toBeLessThan(run.host.step);
    expect(run.checkpoint.blocked).toBeLessThan(run.checkpoint.seconds);
    expect(data).toHaveLength(6);
    for (const { what, tokensPerSecond } of data) {
      expect(tokensPerSecond / run.tokensPerSecond, what).toBeGreaterThan(20);
    }
    // Weights and two moments.
    expect(disk.bytes).toBeGreaterThan(12 * 2 ** 20);
    expect(disk.checkpoint).toBeGreaterThan(0);
    expect(disk.disk).toBeGreaterThan(0);
  });

  it("explains itself, and refuses what it does not know", async () => {
    expect((await benchHost("--help")).stdout).toContain("npm run bench:host -- workload=tiny");
    const few = await benchHost("workload=tiny", "steps=3");
    expect(few).toMatchObject({
      exitCode: 2,
      stdout: "",
      stderr: expect.stringContaining("steps=3: must be at least 4"),
    });
    // Before anything runs: without a plugin a run would fail otherwise.
    vi.stubEnv("HALFBYTE_PJRT_PLUGIN", "/none.so");
    const none = await benchHost("workload=tiny", "rounds=0");
    vi.unstubAllEnvs();
    expect(none).toMatchObject({ exitCode: 2, stdout: "", stderr: "rounds=0: must be a whole number above 0\n" });
    const { exitCode, stderr } = await benchHost("workload=L9");
    expect(exitCode).toBe(2);
    expect(stderr).toMatch(/did you mean/);
  });
});
