/** `npm run bench:curves` as a person runs it, on its smallest points. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import { halfbyte } from "../train/halfbyte.ts";

const script = fileURLToPath(new URL("../../bench/curves.ts", import.meta.url));
const benchCurves = (...args: string[]) =>
  halfbyte(["--import", "tsx", script, ...args], { program: process.execPath });
const scratch = mkdtempSync(join(tmpdir(), "halfbyte-curves-"));

afterAll(() => rmSync(scratch, { recursive: true }));

describe("bench:curves", () => {
  it("measures time and memory of a step, which is what XLA plans", async () => {
    const chosen = ["curves=remat", "points=full", "steps=1", `svg=${scratch}`, "--json"];
    const { exitCode, stdout, stderr } = await benchCurves(...chosen);
    expect(exitCode, stderr).toBe(0);
    const [{ name, series }] = JSON.parse(stdout).curves;
    expect(name).toBe("remat");
    const [{ cost }] = series[0].points;
    expect(cost.grownBytes / cost.plannedBytes).toBeGreaterThan(0.9);
    expect(cost.grownBytes / cost.plannedBytes).toBeLessThan(1.2);
    for (const time of [cost.seconds, cost.cpuSeconds, cost.compileSeconds]) expect(time).toBeGreaterThan(0);
    expect(cost.loss).toBeCloseTo(7.37, 1);
    expect(readFileSync(join(scratch, "remat.svg"), "utf8")).toContain("full planned");
  });

  it("takes the curves that have a point, where none is named", async () => {
    const { exitCode, stdout, stderr } = await benchCurves("points=minimal", "steps=1", "--json");
    expect(exitCode, stderr).toBe(0);
    expect(JSON.parse(stdout).curves).toMatchObject([{ name: "remat", series: [{ points: [{ name: "minimal" }] }] }]);
  });

  it("refuses a curve, a point and a recipe that are none", async () => {
    for (const [arg, message] of [
      ["curves=bach", /did you mean batch\?/],
      ["points=511", /there is none of these: batch has 1, 2, 3.*; seq has 128/],
      ["quantization=nvfp5", /nvfp4/],
      ["scan=yes", /must be true, false or false,true/],
    ] as const) {
      const { exitCode, stderr } = await benchCurves(arg);
      expect(exitCode).toBe(2);
      expect(stderr).toMatch(message);
    }
  });
});
