/** `halfbyte doctor` as a process, with the installed plugin. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, it } from "vitest";
import { build, buildIsCurrent } from "../../scripts/build.mjs";
import { mainPlugin } from "../../scripts/plugin.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));

beforeAll(async () => {
  if (!buildIsCurrent(root)) await build(root);
});

function doctor(args: readonly string[] = [], more: Readonly<Record<string, string>> = {}) {
  const { GLIBC_TUNABLES: _, HALFBYTE_PJRT_PLUGIN: __, ...own } = process.env;
  const env = { ...own, ...more };
  const { status, stdout, stderr } = spawnSync(join(root, "bin", "halfbyte"), ["doctor", ...args], {
    env,
    encoding: "utf8",
  });
  return { exitCode: status, stdout, stderr };
}

describe("halfbyte doctor", () => {
  it("reports the plugin, the machine, a measured speed and the recipes", () => {
    const { exitCode, stdout, stderr } = doctor(["--json"]);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
    const report = JSON.parse(stdout);
    expect(report.plugin).toMatchObject({
      package: `${mainPlugin.package} ${mainPlugin.version}`,
      pjrt: "0.115",
      stablehlo: "1.20.0",
      platform: "cpu",
      devices: [{ id: 0, kind: "cpu" }],
    });
    // Any processor multiplies faster than 1 GFLOP/s, and none of today's reaches 1 PFLOP/s.
    expect(report.peak.flopsPerSecond).toBeGreaterThan(1e9);
    expect(report.peak.flopsPerSecond).toBeLessThan(1e15);
    expect(report.recipes.map(({ recipe }: { recipe: string }) => recipe)).toEqual(["bf16", "nvfp4"]);
    // The launcher has seen to the allocator, where there is glibc.
    if (report.machine.allocator.glibc) expect(report.machine.allocator.keepsMemory).toBe(true);
  });

  it("says the same to a person", () => {
    const { exitCode, stdout } = doctor();
    expect(exitCode).toBe(0);
    for (const text of [
      mainPlugin.package,
      "0.115",
      "AVX-512",
      "GiB",
      "TFLOP/s in BF16",
      "of at most 2000 MB",
      "nvfp4 emulated",
    ]) {
      expect(stdout).toContain(text);
    }
    expect(stdout).toMatch(/\n(Nothing to fix\.|To fix:\n- )/);
  });

  it("names the instructions in use, and what holds them back costs", () => {
    const avx2 = { XLA_FLAGS: "--xla_cpu_max_isa=AVX2", ONEDNN_MAX_CPU_ISA: "AVX2" };
    const { exitCode, stdout, stderr } = doctor([], avx2);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
    expect(stdout).toContain("held back: XLA uses avx2, oneDNN avx2; BF16 products by XLA's own dots: w");
    expect(stdout).toContain("oneDNN's products usable: no");
  });
});
