/** Memory over a long run: live device arrays and the process's size stay flat, and a leak of one scalar a step shows. */
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import type { LongRun, Measured } from "./longRun.ts";

const program = fileURLToPath(new URL("longRun.ts", import.meta.url));

/** In a process of its own: in one of many tests, memory freed by others comes and goes. */
function run(what: string): LongRun {
  const env = { ...process.env, HALFBYTE_COMPILE_CACHE: "off" };
  const output = execFileSync(process.execPath, ["--import", "tsx", program, what], { env }).toString();
  const result = JSON.parse(output) as LongRun;
  expect(result.measured.length).toBe(40);
  return result;
}

/**
 * How much the least held near the end is above the least in the second fifth, when all has been used before. Not at the
 * very end: no step is in flight there.
 */
function growth(measured: readonly Measured[], what: keyof Measured): number {
  const least = (list: readonly Measured[]) => Math.min(...list.map((each) => each[what]));
  return least(measured.slice(30, 38)) - least(measured.slice(8, 16));
}

const nothing = { arrays: 0, bytes: 0, programs: 0 };

describe("a run of 2,000 steps", () => {
  it("holds no array more at its end, and the process does not grow", () => {
    const { measured, left } = run("flat");
    expect(growth(measured, "arrays")).toBe(0);
    expect(growth(measured, "bytes")).toBe(0);
    // Of 1,100 steps: 1 kB a step would show, of the plugin or of JavaScript (the record of a step is a fourth).
    expect(growth(measured, "native")).toBeLessThan(1.1e6);
    expect(growth(measured, "heap")).toBeLessThan(1.1e6);
    expect(left).toEqual(nothing);
  });

  it("shows a scalar that is left behind at each step", () => {
    const { measured } = run("leaking");
    expect(growth(measured, "arrays")).toBe(5 * 22);
    expect(growth(measured, "bytes")).toBe(4 * 5 * 22);
  });
});

describe("compiling and disposing", () => {
  it("leaves no program behind, and the process does not grow", () => {
    const { measured, left } = run("compiling");
    expect(growth(measured, "arrays")).toBe(0);
    // Of 66 compilations: a program that stayed would take 100 kB.
    expect(growth(measured, "native")).toBeLessThan(5e6);
    expect(growth(measured, "heap")).toBeLessThan(2e6);
    expect(left).toEqual(nothing);
  });
});
