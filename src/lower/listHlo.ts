/**
 * XLA's optimized program, from its text, as a list of operations. Listed are those that run: of the entry, of loops'
 * bodies and branches, and inside fusions (marked as free: their operands are no memory). Scopes come from the metadata
 * that `lowerToStableHlo` with a listing wrote; a fusion without takes that of an operation in it.
 */
import { invariant } from "../base/errors.ts";
import { dtypeInfo, dtypes, parseScope, type Spec } from "../core/index.ts";
import { contractedSize, type ListedOperation } from "./listing.ts";

interface Instruction {
  readonly name: string;
  readonly op: string;
  /** All after the opcode: operands in parentheses, then attributes. */
  readonly rest: string;
  readonly type: string;
  readonly operands: readonly string[];
  readonly line: string;
  readonly scope: string | undefined;
}

type Computations = ReadonlyMap<string, readonly Instruction[]>;

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
  const { computations, entry } = parse(hlo);
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
  const operands = x.operands.flatMap((name) => specs.get(name) ?? []);
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

/** The computations that an instruction runs; not those that say how to combine two elements. */
function calledBy({ op, rest }: Instruction): string[] {
  const named = (attribute: string) =>
    [...rest.matchAll(new RegExp(`\\b${attribute}=%([\\w.-]+)`, "g"))].map((m) => m[1]!);
  if (op === "fusion") return named("calls");
  if (op === "call") return named("to_apply");
  if (op === "while") return [...named("condition"), ...named("body")];
  if (op !== "conditional") return [];
  const [, branches = ""] = /branch_computations=\{([^}]*)\}/.exec(rest) ?? [];
  const listed = branches.split(",").flatMap((name) => name.trim().replace(/^%/, "") || []);
  return [...listed, ...named("true_computation"), ...named("false_computation")];
}

const tripCount = ({ rest }: Instruction): number => Number(/"known_trip_count":\{"n":"(\d+)"/.exec(rest)?.[1] ?? 1);

function scopeWithin(computations: Computations, names: readonly string[]): string | undefined {
  for (const name of names) {
    const scopes = (computations.get(name) ?? []).flatMap(({ scope }) => scope ?? []);
    if (scopes.length > 0) return scopes.at(-1);
  }
  return undefined;
}

function parse(hlo: string): { computations: Computations; entry: string } {
  const computations = new Map<string, Instruction[]>();
  let entry: string | undefined;
  let current: Instruction[] = [];
  for (const line of hlo.split("\n")) {
    const [, isEntry, name] = /^(ENTRY )?%([\w.-]+) .*\{$/.exec(line) ?? [];
    if (name !== undefined) {
      current = [];
      computations.set(name, current);
      if (isEntry) entry = name;
    } else {
      const instruction = parseInstruction(line);
      if (instruction !== undefined) current.push(instruction);
    }
  }
  invariant(entry !== undefined, "the optimized program has no entry");
  return { computations, entry };
}

/** `%name = type opcode(%a, %b), attributes`; the type of several results is in parentheses. */
function parseInstruction(line: string): Instruction | undefined {
  const found = /^ {2}(?:ROOT )?%([\w.-]+) = (\([^()]*(?:\([^()]*\)[^()]*)*\)|\S+) ([\w-]+)(\(.*)$/.exec(line);
  if (found === null) return undefined;
  const [, name, type, op, rest] = found as unknown as [string, string, string, string, string];
  const list = op === "constant" ? "" : rest.slice(1, rest.indexOf(")"));
  return {
    name,
    type,
    op,
    rest,
    operands: [...list.matchAll(/%([\w.-]+)/g)].map((m) => m[1]!),
    line: line.trim().replace(/\/\*index=\d+\*\//g, ""),
    scope: /op_name="([^"]*)"/.exec(rest)?.[1],
  };
}

/** "i1" → "pred", "ui32" → "u32", "i32" → "s32", "f8E4M3FN" → "f8e4m3fn". */
const hloName = (mlir: string): string =>
  mlir === "i1" ? "pred" : mlir.replace(/^ui/, "u").replace(/^i/, "s").toLowerCase();

const dtypeOfHlo = new Map(dtypes.map((dtype) => [hloName(dtypeInfo(dtype).mlir), dtype]));

/** The arrays of a type: one, or those of a tuple. Types without a dtype of ours, such as tokens, are left out. */
function specsOf(type: string): Spec[] {
  return [...type.matchAll(/([a-z]\w*)\[([\d,<=]*)\]/g)].flatMap(([, name, dims]) => {
    const dtype = dtypeOfHlo.get(name!);
    if (dtype === undefined) return [];
    return { dtype, shape: dims === "" ? [] : dims!.split(",").map((dim) => Number(dim.replace(/\D/g, ""))) };
  });
}
