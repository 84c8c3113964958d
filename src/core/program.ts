/** Programs: the equations between chosen inputs and outputs, in the order of tracing. */
import { UserError } from "../base/errors.ts";
import { showSpec } from "./hostArray.ts";
import type { Eqn } from "./op.ts";
import { placeOf } from "./places.ts";
import type { Tensor } from "./tensor.ts";

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
    if (eqns.has(t.eqn)) continue;
    eqns.add(t.eqn);
    const reading = placeOf(t.eqn) ?? place;
    for (const input of t.eqn.inputs) todo.push({ t: resolve(input), place: reading });
  }
  return { inputs, outputs: outputs.map(resolve), eqns: [...eqns].sort((a, b) => a.id - b.id), resolve };
}

/**
 * The program as text, one equation a line: `c: float32[4] = mul a b`. Inputs and outputs carry their paths in the traced
 * function's arguments and result; programs inside an equation follow it.
 */
export function showProgram(program: Program, name = "program"): string {
  const labels = new Map<Tensor, string>();
  const show = (inner: Program, head: string, indent: string): string[] => {
    const label = (t: Tensor): string => {
      const resolved = inner.resolve(t);
      const known = labels.get(resolved) ?? letters(labels.size);
      labels.set(resolved, known);
      return known;
    };
    const declare = (t: Tensor) => `${label(t)}: ${showSpec(t)}`;
    const inputs = inner.inputs.map((t, i) => `${declare(t)}${quoted(inner.inputPaths?.[i])}`);
    const lines = [`${indent}${head}(${inputs.join(", ")}) {`];
    for (const { op, params, inputs, outputs } of inner.eqns) {
      const shown = op.show?.(params);
      const operation = [`${op.name}${shown ? `[${shown}]` : ""}`, ...inputs.map(label)].join(" ");
      lines.push(`${indent}  ${outputs.map(declare).join(", ")} = ${operation}`);
      for (const [part, nested] of Object.entries(op.programs?.(params) ?? {})) {
        lines.push(...show(nested, part, `${indent}    `));
      }
    }
    const outputs = inner.outputs.map((t, i) => `${label(t)}${quoted(inner.outputPaths?.[i])}`);
    return [...lines, `${indent}  return ${outputs.join(", ")}`, `${indent}}`];
  };
  return [...show(program, name, ""), ""].join("\n");
}

const quoted = (path: string | undefined): string => (path ? ` "${path}"` : "");

/** a, b, …, z, aa, ab, … */
function letters(index: number): string {
  const last = String.fromCharCode(97 + (index % 26));
  return index < 26 ? last : letters(Math.floor(index / 26) - 1) + last;
}
