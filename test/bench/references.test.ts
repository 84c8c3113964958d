import { describe, expect, it } from "vitest";
import type { PartRatio } from "../../bench/partRatio.ts";
import { compare, comparisonTable, findReference, type Reference, slowerThan } from "../../bench/references.ts";

const key = { processor: "avx2", plugin: "p 1", nativeKernels: "off", workload: "L8" };
const reference: Reference = { ...key, ratios: { step: { cpu: 1, wall: 1 }, loss: { cpu: 2 } } };

const part = (cpu: number, wall: number, busy = 1): PartRatio => ({
  base: "products",
  ratio: { cpu, wall },
  seconds: { cpu: 1, wall: 1 },
  busy,
});

const slower = (measured: Readonly<Record<string, PartRatio>>, percent = 15) =>
  slowerThan(compare(measured, reference), percent).map(({ part }) => part);

describe("a ratio against its reference", () => {
  it("may be 15 % worse, not 20 %", () => {
    expect(slower({ step: part(1.14, 1.14) })).toEqual([]);
    expect(slower({ step: part(1.2, 1), loss: part(2.4, 2.4) })).toEqual(["step", "loss"]);
  });

  it("to a loop may be four times as much worse", () => {
    expect(slower({ loss: { ...part(3.1, 3.1), base: "loop" } })).toEqual([]);
    expect(slower({ loss: { ...part(3.3, 3.3), base: "loop" } })).toEqual(["loss"]);
  });

  it("is that of wall time too where both machines were quiet: cores that wait cost no CPU time", () => {
    expect(slower({ step: part(1, 1.2) })).toEqual(["step"]);
    expect(slower({ step: part(1, 3, 1.5) })).toEqual([]);
    expect(slower({ loss: part(2, 9) })).toEqual([]);
  });

  it("is no failure where there is none", () => {
    expect(slowerThan(compare({ step: part(9, 9) }, undefined), 15)).toEqual([]);
    expect(slower({ norm: part(9, 9) })).toEqual([]);
  });

  it("holds within processor, plugin, native kernels and workload", () => {
    expect(findReference([reference], key)).toBe(reference);
    for (const name of Object.keys(key))
      expect(findReference([reference], { ...key, [name]: "other" })).toBeUndefined();
  });

  it("is shown with its change", () => {
    const table = comparisonTable(compare({ step: part(1.3, 1), loss: part(1.8, 1) }, reference), 15);
    expect(table).toMatch(/step +1\.300 +1\.000 +\+30\.0 % +SLOWER/);
    expect(table).toMatch(/loss +1\.800 +2\.000 +−10\.0 %/);
  });
});
