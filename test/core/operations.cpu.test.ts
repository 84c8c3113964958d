/**
 * Every operation, compiled against interpreted, over every dtype it takes: by property, on drawn inputs with the edges of
 * the dtypes among them. What the two agree on is in `properties/compare.ts`.
 */
import { describe, expect, it } from "vitest";
import { coveredOperations, definedOperations, families } from "./properties/families.ts";
import { differencesOf } from "./properties/opCase.ts";

describe("compiled equals interpreted", () => {
  it.each(Object.entries(families))("%s", async (_, cases) => {
    expect(await differencesOf(cases())).toEqual([]);
  });
});

it("covers every operation", () => {
  const covered = new Set(coveredOperations().map(({ name }) => name));
  const defined = definedOperations();
  expect(defined.length).toBeGreaterThan(50);
  expect(defined.filter((name) => !covered.has(name))).toEqual([]);
});
