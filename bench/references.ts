/** Committed ratios of the step's parts, one record for each kind of machine, and what is slower than they say. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { UserError } from "../src/base/errors.ts";
import { reasonOf } from "../src/base/systemReason.ts";
import { textTable } from "../src/metrics/index.ts";
import type { PartRatio, Times } from "./partRatio.ts";

/** What ratios are comparable within. */
export interface ReferenceKey {
  /** The instructions of the processor, as `halfbyte doctor` names them, and what holds them back. */
  readonly processor: string;
  /** Package and version. */
  readonly plugin: string;
  /** "off", or the instructions they are built for. */
  readonly nativeKernels: string;
  readonly workload: string;
}

export interface Reference extends ReferenceKey {
  /** By part. The wall times' ratio where the machine did nothing else. */
  readonly ratios: Readonly<Record<string, { readonly cpu: number; readonly wall?: number }>>;
}

/** Slower than this by wall time over CPU time, the machine has other work, and wall times say nothing. */
const quietLimit = 1.2;

export const isQuiet = ({ busy }: PartRatio): boolean => busy <= quietLimit;

const sameKey = (a: ReferenceKey, b: ReferenceKey): boolean =>
  (["processor", "plugin", "nativeKernels", "workload"] as const).every((name) => a[name] === b[name]);

/** The records of a file; none where it does not exist. @throws UserError where it can't be read or is no JSON */
export function readReferences(path: string): readonly Reference[] {
  if (!existsSync(path)) return [];
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    throw new UserError("E_BENCH", `references=${path} can't be read (${reasonOf(error)}): name another file`);
  }
  try {
    return JSON.parse(text) as Reference[];
  } catch (error) {
    throw new UserError("E_BENCH", `references=${path} is no JSON (${(error as Error).message}): name another file`);
  }
}

export const findReference = (all: readonly Reference[], key: ReferenceKey): Reference | undefined =>
  all.find((reference) => sameKey(reference, key));

/** Writes the ratios of the measured parts into the record of their key; other parts of it stay. */
export function recordReference(path: string, key: ReferenceKey, measured: Readonly<Record<string, PartRatio>>): void {
  const all = readReferences(path);
  const rounded = (x: number) => Number(x.toFixed(3));
  const ratios = Object.fromEntries(
    Object.entries(measured).map(([part, x]) => [
      part,
      { cpu: rounded(x.ratio.cpu), ...(isQuiet(x) && { wall: rounded(x.ratio.wall) }) },
    ]),
  );
  const before = findReference(all, key);
  const record: Reference = { ...key, ratios: { ...before?.ratios, ...ratios } };
  const others = all.filter((reference) => !sameKey(reference, key));
  writeFileSync(path, `${JSON.stringify([...others, record], null, 2)}\n`);
}

export interface Comparison {
  readonly part: string;
  readonly base: PartRatio["base"];
  readonly measured: Times;
  readonly reference: { readonly cpu: number; readonly wall?: number } | undefined;
  /** Measured over reference, the worse of CPU time and, where both machines were quiet, wall time. */
  readonly change: number | undefined;
}

export function compare(
  measured: Readonly<Record<string, PartRatio>>,
  reference: Reference | undefined,
): readonly Comparison[] {
  return Object.entries(measured).map(([part, x]) => {
    const known = reference?.ratios[part];
    const wall = known?.wall !== undefined && isQuiet(x) ? x.ratio.wall / known.wall : 0;
    const change = known && Math.max(x.ratio.cpu / known.cpu, wall);
    return { part, base: x.base, measured: x.ratio, reference: known, change };
  });
}

/**
 * How many times the tolerance a ratio to a loop may be worse: what else uses a machine's memory and shared cache moved those of an
 * unchanged optimizer and SwiGLU by 40 % within minutes, in process CPU time, and those to products by 5.
 */
export const loopAllowance = 4;

/** Parts whose ratio is worse than the reference's by more than `percent`, or for loops `loopAllowance` times as much. */
export const slowerThan = (comparisons: readonly Comparison[], percent: number): readonly Comparison[] =>
  comparisons.filter(({ base, change }) => {
    const allowed = base === "loop" ? loopAllowance * percent : percent;
    return change !== undefined && change > 1 + allowed / 100;
  });

export function comparisonTable(comparisons: readonly Comparison[], percent: number): string {
  const slower = new Set(slowerThan(comparisons, percent));
  const number = (x: number | undefined) => x?.toFixed(3) ?? "-";
  return textTable([
    ["part", "ratio", "reference", "change", ""],
    ...comparisons.map((x) => [
      x.part,
      number(x.measured.cpu),
      number(x.reference?.cpu),
      x.change === undefined ? "-" : `${x.change >= 1 ? "+" : "−"}${Math.abs(100 * (x.change - 1)).toFixed(1)} %`,
      slower.has(x) ? "SLOWER" : "",
    ]),
  ]);
}
