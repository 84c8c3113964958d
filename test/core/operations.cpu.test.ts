/**
 * Every operation, compiled against interpreted, over every dtype it takes: by property, on drawn inputs with the edges of
 * the dtypes among them. What the two agree on is in `properties/compare.ts`.
 */
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { type Program, trace } from "../../src/core/index.ts";
import { bitcastCases, convertCases } from "./properties/convertCases.ts";
import { dotCases } from "./properties/dotCases.ts";
import { elementwiseCases } from "./properties/elementwiseCases.ts";
import { gatherCases } from "./properties/gatherCases.ts";
import { differencesOf, type OpCase } from "./properties/opCase.ts";
import { reduceCases } from "./properties/reduceCases.ts";
import { scanCases } from "./properties/scanCases.ts";
import { shapeCases } from "./properties/shapeCases.ts";

const families: Record<string, () => OpCase[]> = {
  "element by element": elementwiseCases,
  conversions: convertCases,
  bitcasts: bitcastCases,
  "moving, selecting and making elements": shapeCases,
  reductions: reduceCases,
  "rows by index": gatherCases,
  contractions: dotCases,
  loops: scanCases,
};

describe("compiled equals interpreted", () => {
  it.each(Object.entries(families))("%s", async (_, cases) => {
    expect(await differencesOf(cases())).toEqual([]);
  });
});

/** They only carry a reverse rule, and are in no program. */
const markers = ["copy", "stop_gradient", "custom_vjp", "remat"];

const source = (folder: string) => fileURLToPath(new URL(`../../src/${folder}/`, import.meta.url));

/** The names of all operations, from the sources that define them. */
function definedOperations(): string[] {
  const files = ["core/ops", "autodiff"].flatMap((folder) =>
    readdirSync(source(folder)).map((name) => source(folder) + name),
  );
  const definition = /\b(?:unary|binary|reduction)\("(\w+)"|\bname: "(\w+)"/g;
  return files
    .flatMap((file) => [...readFileSync(file, "utf8").matchAll(definition)])
    .map(([, short, long]) => short ?? long!)
    .filter((name, i, all) => all.indexOf(name) === i && !markers.includes(name));
}

const namesIn = ({ eqns }: Program): string[] => eqns.map(({ op }) => op.name);

it("covers every operation", () => {
  const cases = Object.values(families).flatMap((make) => make());
  const covered = new Set(cases.flatMap(({ f, inputs }) => namesIn(trace(f, ...inputs))));
  const defined = definedOperations();
  expect(defined.length).toBeGreaterThan(50);
  expect(defined.filter((name) => !covered.has(name))).toEqual([]);
});
