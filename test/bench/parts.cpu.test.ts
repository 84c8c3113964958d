/** `npm run bench:parts` and `bench:native` as a person runs them, at small sizes. */
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { halfbyte } from "../train/halfbyte.ts";

const bench = (name: string, ...args: string[]) => {
  const script = fileURLToPath(new URL(`../../bench/${name}.ts`, import.meta.url));
  return halfbyte(["--import", "tsx", script, ...args], { program: process.execPath });
};

describe("bench:parts", () => {
  it("measures every part, and attention's tiles without native kernels", async () => {
    const { exitCode, stdout, stderr } = await bench("parts", "workload=tiny", "rounds=1");
    // No warning of arrays that nobody disposed of, either.
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
    expect(stdout).toMatch(/^tiny, (native kernels avx|no native kernels: )/);
    for (const name of ["attention", "mlp", "loss", "norm", "swiglu", "rope", "optimizer"]) {
      expect(stdout).toMatch(new RegExp(`^${name} +[\\d.]+ ms`, "m"));
    }
    expect(stdout).toMatch(/^fprop \d+×\d+ +[\d.]+ ms +[\d.]+ TFLOP\/s$/m);
    expect(
      stdout.match(/^attention without native kernels, \d+ rows, \d+ key heads at a time +[\d.]+ ms/gm),
    ).toHaveLength(6);
  });

  it("explains itself, and refuses what it does not know", async () => {
    expect((await bench("parts", "--help")).stdout).toContain("npm run bench:parts -- workload=tiny");
    const { exitCode, stderr } = await bench("parts", "round=3");
    expect({ exitCode, stderr }).toEqual({ exitCode: 2, stderr: 'unknown key "round"; did you mean "rounds"?\n' });
  });
});

describe("bench:native", () => {
  it("measures a part and the plain lowering in turns", async ({ skip }) => {
    const { exitCode, stdout, stderr } = await bench("native", "swiglu", "rounds=1", "--json");
    skip(stderr.startsWith("there are no native kernels here"), stderr);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
    const { parts } = JSON.parse(stdout);
    expect(parts).toMatchObject([{ name: "SwiGLU" }]);
    for (const { plain, native } of parts) expect(Math.min(plain, native)).toBeGreaterThan(0);
  });

  it("explains itself, and refuses what it does not know", async () => {
    expect((await bench("native", "--help")).stdout).toContain("npm run bench:native -- attention rounds=3");
    for (const [arg, message] of [
      ["round=3", 'unknown key "round"; did you mean "rounds"?\n'],
      ["atention", 'unknown part "atention"; known: attention, documents, loss, rmsnorm, swiglu, norm, step\n'],
    ] as const) {
      const { exitCode, stderr } = await bench("native", arg);
      expect({ exitCode, stderr }).toEqual({ exitCode: 2, stderr: message });
    }
  });
});
