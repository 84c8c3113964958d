/** All cases by family, and the names of all operations, to see that none is left out. */
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { type Program, trace } from "../../../src/core/index.ts";
import type { AnyOp } from "../../../src/core/op.ts";
import { callCases } from "./callCases.ts";
import { controlCases } from "./controlCases.ts";
import {
  bitcastCases,
  bitcastPairCases,
  convertCases,
  largeIntegerCases,
  reducePrecisionCases,
} from "./convertCases.ts";
import { cumulativeCases } from "./cumulativeCases.ts";
import { dotCases } from "./dotCases.ts";
import { dynamicSliceCases } from "./dynamicSliceCases.ts";
import { elementwiseCases } from "./elementwiseCases.ts";
import { gatherCases } from "./gatherCases.ts";
import type { OpCase } from "./opCase.ts";
import { randomCases } from "./randomCases.ts";
import { reduceCases } from "./reduceCases.ts";
import { scanCases } from "./scanCases.ts";
import { shapeCases } from "./shapeCases.ts";
import { sortCases } from "./sortCases.ts";

const made = new Map<() => OpCase[], OpCase[]>();

/** Several tests use the same cases. */
function once(make: () => OpCase[]): () => OpCase[] {
  return () => {
    const cases = made.get(make) ?? make();
    made.set(make, cases);
    return cases;
  };
}

export const families: Readonly<Record<string, () => OpCase[]>> = {
  "element by element": once(elementwiseCases),
  conversions: once(convertCases),
  bitcasts: once(bitcastCases),
  "bitcasts of bitcasts": once(bitcastPairCases),
  "integers of 64 bits": once(largeIntegerCases),
  "reduced precision": once(reducePrecisionCases),
  "moving, selecting and making elements": once(shapeCases),
  "windows at running places": once(dynamicSliceCases),
  reductions: once(reduceCases),
  "reading and writing by index": once(gatherCases),
  "running sums": once(cumulativeCases),
  sorting: once(sortCases),
  contractions: once(dotCases),
  "random numbers": once(randomCases),
  "calls and composites": once(callCases),
  loops: once(scanCases),
  "conditions and open loops": once(controlCases),
};

/** They only carry a reverse rule, and are in no program. */
const markers = ["copy", "stop_gradient", "custom_vjp", "remat", "saved"];

const source = (folder: string) => fileURLToPath(new URL(`../../../src/${folder}/`, import.meta.url));

/** The names of all operations, from the sources that define them. */
export function definedOperations(): string[] {
  const files = ["core/ops", "autodiff"].flatMap((folder) =>
    readdirSync(source(folder)).map((name) => source(folder) + name),
  );
  const definition = /\b(?:unary|binary|reduction|placeOfExtremum|cumulative)\("(\w+)"|\bname: "(\w+)"/g;
  return files
    .flatMap((file) => [...readFileSync(file, "utf8").matchAll(definition)])
    .map(([, short, long]) => (short ?? long!).toLowerCase())
    .filter((name, i, all) => all.indexOf(name) === i && !markers.includes(name));
}

/** The operations of a program and of the loops in it. */
export function operationsIn({ eqns }: Program): AnyOp[] {
  return eqns.flatMap(({ op, params }) => [op, ...Object.values(op.programs?.(params) ?? {}).flatMap(operationsIn)]);
}

/** The operations that the cases use. */
export function coveredOperations(): AnyOp[] {
  const cases = Object.values(families).flatMap((make) => make());
  return [...new Set(cases.flatMap(({ f, inputs }) => operationsIn(trace(f, ...inputs))))];
}
