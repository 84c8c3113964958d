/** Programs: the equations between chosen inputs and outputs, in the order of tracing. */
import { HalfbyteError } from "../base/errors.ts";
import { showSpec } from "./hostArray.ts";
import type { Eqn } from "./op.ts";
import type { Tensor } from "./tensor.ts";

export interface Program {
  readonly inputs: readonly Tensor[];
  readonly outputs: readonly Tensor[];
  readonly eqns: readonly Eqn[];
  /** What `tensor` stands for: markers with a reverse rule only are seen through. */
  readonly resolve: (tensor: Tensor) => Tensor;
}

/**
 * The program that computes `outputs` from `inputs`. Equations that no output needs are left out; the walk stops at
 * inputs even where they are themselves computed. @throws HalfbyteError where an output depends on a foreign parameter.
 */
export function makeProgram(inputs: readonly Tensor[], outputs: readonly Tensor[]): Program {
  const stops = new Set(inputs);
  const resolve = (tensor: Tensor): Tensor => {
    let t = tensor;
    while (t.eqn?.op.alias && !stops.has(t)) t = t.eqn.op.alias(t.eqn.inputs, t.eqn.params, t.eqn.outputs.indexOf(t));
    return t;
  };
  const eqns = new Set<Eqn>();
  const todo = outputs.map(resolve);
  for (let t = todo.pop(); t !== undefined; t = todo.pop()) {
    if (stops.has(t)) continue;
    if (t.eqn === undefined) {
      throw new HalfbyteError(
        "E_ESCAPED",
        `${showSpec(t)} is a parameter of another traced function; a Tensor is only valid inside the function that received it`,
      );
    }
    if (eqns.has(t.eqn)) continue;
    eqns.add(t.eqn);
    for (const input of t.eqn.inputs) todo.push(resolve(input));
  }
  return { inputs, outputs: outputs.map(resolve), eqns: [...eqns].sort((a, b) => a.id - b.id), resolve };
}

/** The program as text, one equation a line: `c: float32[4] = mul a b`. */
export function showProgram(program: Program, name = "program"): string {
  const names = new Map<Tensor, string>();
  const label = (t: Tensor): string => {
    const resolved = program.resolve(t);
    const known = names.get(resolved);
    if (known !== undefined) return known;
    const fresh = letters(names.size);
    names.set(resolved, fresh);
    return fresh;
  };
  const declare = (t: Tensor) => `${label(t)}: ${showSpec(t)}`;
  const lines = [`${name}(${program.inputs.map(declare).join(", ")}) {`];
  for (const { op, params, inputs, outputs } of program.eqns) {
    const shown = op.show?.(params);
    const args = inputs.map(label).join(" ");
    lines.push(
      `  ${outputs.map(declare).join(", ")} = ${op.name}${shown ? `[${shown}]` : ""}${args ? ` ${args}` : ""}`,
    );
  }
  return [...lines, `  return ${program.outputs.map(label).join(", ")}`, "}", ""].join("\n");
}

/** a, b, …, z, aa, ab, … */
function letters(index: number): string {
  const last = String.fromCharCode(97 + (index % 26));
  return index < 26 ? last : letters(Math.floor(index / 26) - 1) + last;
}
