/** Programs: the equations between chosen inputs and outputs, in the order of tracing. */
import { UserError } from "../base/errors.ts";
import { showSpec } from "./hostArray.ts";
import type { Eqn } from "./op.ts";
import { placeOf } from "./places.ts";
import type { Tensor } from "./tensor.ts";

/** A traced function: equations in the order of tracing between its inputs and outputs. */
export interface Program {
  readonly inputs: readonly Tensor[];
  readonly outputs: readonly Tensor[];
  readonly eqns: readonly Eqn[];
  /** What `tensor` stands for: markers with a reverse rule only are seen through. */
  readonly resolve: (tensor: Tensor) => Tensor;
  /** Where inputs and outputs are in the trees of a traced function: "0.blocks.3.q" in its arguments, "loss". */
  readonly inputPaths?: readonly string[];
  readonly outputPaths?: readonly string[];
}

/**
 * The program that computes `outputs` from `inputs`. Equations that no output needs are left out; the walk stops at
 * inputs even where they are themselves computed. @throws UserError where an output depends on a foreign parameter.
 */
export function makeProgram(inputs: readonly Tensor[], outputs: readonly Tensor[]): Program {
  const stops = new Set(inputs);
  const resolve = (tensor: Tensor): Tensor => {
    let t = tensor;
    while (t.eqn?.op.alias && !stops.has(t)) t = t.eqn.op.alias(t.eqn.inputs, t.eqn.params, t.eqn.outputs.indexOf(t));
    return t;
  };
  const eqns = new Set<Eqn>();
  /** Of equations with independent outputs, the places of those that are needed. */
  const used = new Map<Eqn, Set<number>>();
  // With the line that reads each tensor, where lines are noted.
  const todo = outputs.map((t): { t: Tensor; place?: string | undefined } => ({ t: resolve(t) }));
  for (let next = todo.pop(); next !== undefined; next = todo.pop()) {
    const { t, place } = next;
    if (stops.has(t)) continue;
    if (t.eqn === undefined) {
      throw new UserError(
        "E_ESCAPED",
        `${showSpec(t)} is a parameter of another traced function; a Tensor is only valid inside the function that received it${place === undefined ? "" : ` (at ${place})`}`,
      );
    }
    const { eqn } = t;
    const reading = placeOf(eqn) ?? place;
    const read = (list: readonly Tensor[]) => {
      for (const input of list) todo.push({ t: resolve(input), place: reading });
    };
    if (eqn.op.independentOutputs) {
      const at = eqn.outputs.indexOf(t);
      const places = used.get(eqn) ?? new Set();
      if (places.has(at)) continue;
      used.set(eqn, places.add(at));
      read([eqn.inputs[at]!]);
    } else if (!eqns.has(eqn)) read(eqn.inputs);
    eqns.add(eqn);
  }
  const ordered = [...eqns].sort((a, b) => a.id - b.id).map((eqn) => onlyOutputs(eqn, used.get(eqn)));
  return { inputs, outputs: outputs.map(resolve), eqns: ordered, resolve };
}

/** An equation with independent outputs, without those that nothing needs. */
function onlyOutputs(eqn: Eqn, places: ReadonlySet<number> | undefined): Eqn {
  if (places === undefined || places.size === eqn.outputs.length) return eqn;
  const part = (list: readonly Tensor[]) => list.filter((_, i) => places.has(i));
  return { ...eqn, inputs: part(eqn.inputs), outputs: part(eqn.outputs) };
}

export interface ProgramLine {
  /** Without `indent`. */
  readonly text: string;
  readonly indent: string;
  /** Absent where a program begins or ends. */
  readonly eqn?: Eqn;
  readonly operands: readonly Tensor[];
  /** How often the equation runs: more than once in a loop's body. */
  readonly repeats: number;
}

/** The program line by line, programs inside an equation after it. `label` names tensors. */
export function programLines(program: Program, name: string, label: (resolved: Tensor) => string): ProgramLine[] {
  const walk = (inner: Program, head: string, indent: string, repeats: number): ProgramLine[] => {
    const named = (t: Tensor) => label(inner.resolve(t));
    const declare = (t: Tensor) => `${named(t)}: ${showSpec(t)}`;
    const edge = (text: string, extra = ""): ProgramLine => ({ text, indent: indent + extra, operands: [], repeats });
    const inputs = inner.inputs.map((t, i) => `${declare(t)}${quoted(inner.inputPaths?.[i])}`);
    const lines = [edge(`${head}(${inputs.join(", ")}) {`)];
    for (const eqn of inner.eqns) {
      const { op, params, inputs, outputs } = eqn;
      const shown = op.show?.(params);
      const operation = [`${op.name}${shown ? `[${shown}]` : ""}`, ...inputs.map(named)].join(" ");
      const text = `${outputs.map(declare).join(", ")} = ${operation}`;
      lines.push({ text, indent: `${indent}  `, eqn, operands: inputs.map(inner.resolve), repeats });
      const times = repeats * (op.repeats?.(params) ?? 1);
      for (const [part, nested] of Object.entries(op.programs?.(params) ?? {})) {
        lines.push(...walk(nested, part, `${indent}    `, times));
      }
    }
    const outputs = inner.outputs.map((t, i) => `${named(t)}${quoted(inner.outputPaths?.[i])}`);
    return [...lines, edge(`return ${outputs.join(", ")}`, "  "), edge("}")];
  };
  return walk(program, name, "", 1);
}

/**
 * The program as text, one equation a line: `c: float32[4] = mul a b`. Inputs and outputs carry their paths in the traced
 * function's arguments and result; programs inside an equation follow it.
 */
export function showProgram(program: Program, name = "program"): string {
  const labels = new Map<Tensor, string>();
  const label = (t: Tensor): string => {
    const known = labels.get(t) ?? letters(labels.size);
    labels.set(t, known);
    return known;
  };
  const lines = programLines(program, name, label).map(({ indent, text }) => `${indent}${text}`);
  return [...lines, ""].join("\n");
}

/** Paths of the inputs as names: without the argument's number where they are unambiguous without it. */
export function inputNames({ inputs, inputPaths }: Program): string[] {
  const paths = inputs.map((_, i) => inputPaths?.[i] || `${i}`);
  const short = paths.map((path) => path.replace(/^\d+\.(?=[A-Za-z_])/, ""));
  return paths.map((path, i) => {
    const name = short[i]!;
    const clear = /^[A-Za-z_]/.test(name) && short.indexOf(name) === short.lastIndexOf(name);
    return clear ? name : `arg.${path}`;
  });
}

const quoted = (path: string | undefined): string => (path ? ` "${path}"` : "");

/** a, b, …, z, aa, ab, … */
function letters(index: number): string {
  const last = String.fromCharCode(97 + (index % 26));
  return index < 26 ? last : letters(Math.floor(index / 26) - 1) + last;
}
