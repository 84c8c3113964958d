/** XLA's optimized program, read from its text: computations, their instructions, what each is made of. */
import { invariant } from "../base/errors.ts";
import { dtypeInfo, dtypes, type Spec } from "../core/index.ts";

/** What an instruction reads: a value, or one of the results of one that has several. */
export interface Operand {
  readonly name: string;
  readonly result?: number;
}

/** A line of a computation. */
export interface Instruction {
  readonly name: string;
  readonly op: string;
  /** All after the opcode: operands in parentheses, then attributes. */
  readonly rest: string;
  readonly type: string;
  readonly operands: readonly Operand[];
  readonly line: string;
  /** Gives the computation's result. */
  readonly root: boolean;
  readonly scope: string | undefined;
}

export interface HloText {
  readonly computations: Computations;
  /** The name of the one that a run of the program runs. */
  readonly entry: string;
}

/** By name. */
export type Computations = ReadonlyMap<string, readonly Instruction[]>;

/** @throws HalfbyteError where the text is no program */
export function parseHlo(hlo: string): HloText {
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
  const found = /^ {2}(ROOT )?%([\w.-]+) = (\([^()]*(?:\([^()]*\)[^()]*)*\)|\S+) ([\w-]+)(\(.*)$/.exec(line);
  if (found === null) return undefined;
  const [, root, name, type, op, rest] = found as unknown as [
    ...[string, string | undefined],
    ...[string, string, string, string],
  ];
  const list = op === "constant" ? "" : rest.slice(1, rest.indexOf(")"));
  return {
    name,
    type,
    op,
    rest,
    operands: [...list.matchAll(/%([\w.-]+)(?:#(\d+))?/g)].map((m) => ({
      name: m[1]!,
      ...(m[2] && { result: Number(m[2]) }),
    })),
    line: line.trim().replace(/\/\*index=\d+\*\//g, ""),
    root: root !== undefined,
    scope: /op_name="([^"]*)"/.exec(rest)?.[1],
  };
}

/** The computations that an instruction runs; not those that say how to combine two elements. */
export function calledBy({ op, rest }: Instruction): string[] {
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

/** "i1" → "pred", "ui32" → "u32", "i32" → "s32", "f8E4M3FN" → "f8e4m3fn". */
const hloName = (mlir: string): string =>
  mlir === "i1" ? "pred" : mlir.replace(/^ui/, "u").replace(/^i/, "s").toLowerCase();

const dtypeOfHlo = new Map(dtypes.map((dtype) => [hloName(dtypeInfo(dtype).mlir), dtype]));

/** The arrays of a type: one, or those of a tuple. Types without a dtype of ours, such as tokens, are left out. */
export function specsOf(type: string): Spec[] {
  return [...type.matchAll(/([a-z]\w*)\[([\d,<=]*)\]/g)].flatMap(([, name, dims]) => {
    const dtype = dtypeOfHlo.get(name!);
    if (dtype === undefined) return [];
    return { dtype, shape: dims === "" ? [] : dims!.split(",").map((dim) => Number(dim.replace(/\D/g, ""))) };
  });
}
