/**
 * XLA's optimized program, from its text, as a list of operations. Listed are those that run: of the entry, of loops'
 * bodies and branches, and inside fusions (marked as free: their operands are no memory). Scopes come from the metadata
 * that `lowerToStableHlo` with a listing wrote; a fusion without takes that of an operation in it.
 */
import { parseScope, type Spec } from "../core/index.ts";
import { type Computations, calledBy, type Instruction, parseHlo, specsOf } from "./hloText.ts";
import { contractedSize, type ListedOperation } from "./listing.ts";

/** Another view of its operand, or none at all: nothing is moved. */
const freeOps = new Set([
  "parameter",
  "constant",
  "tuple",
  "get-tuple-element",
  "bitcast",
  "while",
  "conditional",
  "call",
]);
/** Not worth a line. */
const unlisted = new Set(["parameter", "tuple", "get-tuple-element"]);

export function listHlo(hlo: string): ListedOperation[] {
  const { computations, entry } = parseHlo(hlo);
  const listed: ListedOperation[] = [];
  const list = (name: string, repeats: number, fused: boolean, outer: string | undefined): void => {
    const instructions = computations.get(name) ?? [];
    const specs = new Map(instructions.map((x) => [x.name, specsOf(x.type)]));
    for (const x of instructions) {
      const called = calledBy(x);
      const scope = x.scope ?? (called.length > 0 ? scopeWithin(computations, called) : undefined) ?? outer;
      if (!unlisted.has(x.op)) listed.push(listedOperation(x, { specs, repeats, fused, scope }));
      const times = x.op === "while" ? tripCount(x) : 1;
      for (const inner of called) list(inner, repeats * times, fused || x.op === "fusion", scope);
    }
  };
  list(entry, 1, false, undefined);
  return listed;
}

interface Surroundings {
  /** Of the computation's values, by name. */
  readonly specs: ReadonlyMap<string, readonly Spec[]>;
  readonly repeats: number;
  readonly fused: boolean;
  readonly scope: string | undefined;
}

function listedOperation(x: Instruction, { specs, repeats, fused, scope }: Surroundings): ListedOperation {
  const operands = x.operands.flatMap(({ name, result }) => {
    const all = specs.get(name) ?? [];
    return result === undefined ? all : all.slice(result, result + 1);
  });
  const contracted = contractedSize(x.rest, operands[0]);
  const [, target] = /custom_call_target="([^"]*)"/.exec(x.rest) ?? [];
  return {
    text: `${fused ? "  " : ""}${x.line.replace(/, metadata=\{[^}]*\}/, "")}`,
    op: x.op,
    scope: parseScope(scope ?? ""),
    repeats,
    operands,
    results: specs.get(x.name) ?? [],
    ...(contracted !== undefined && { contracted }),
    ...(target !== undefined && { target }),
    ...((fused || freeOps.has(x.op)) && { free: true }),
  };
}

const tripCount = ({ rest }: Instruction): number => Number(/"known_trip_count":\{"n":"(\d+)"/.exec(rest)?.[1] ?? 1);

function scopeWithin(computations: Computations, names: readonly string[]): string | undefined {
  for (const name of names) {
    const scopes = (computations.get(name) ?? []).flatMap(({ scope }) => scope ?? []);
    if (scopes.length > 0) return scopes.at(-1);
  }
  return undefined;
}
