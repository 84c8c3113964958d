/** The bodies of loops and of other operations that run programs: what they read from outside, what their reverse keeps. */
import type { Tensor } from "../core/index.ts";
import type { Eqn } from "../core/op.ts";
import { equationsBehind } from "./equationsBehind.ts";

/**
 * Tensors from outside that a body reads: it may use any Tensor in scope where it is traced. What depends on outside
 * tensors alone is computed once, before the body; constants stay in the body.
 */
export function capturesOf(outputs: readonly Tensor[], own: readonly Tensor[]): Tensor[] {
  const kind = new Map<Tensor, "own" | "outside" | "constant">(own.map((t) => [t, "own"]));
  const kindOf = (t: Tensor) => kind.get(t) ?? "outside";
  const eqns = equationsBehind(outputs, new Set(own));
  for (const eqn of eqns) {
    const kinds = eqn.inputs.map(kindOf);
    const result = kinds.includes("own") ? "own" : kinds.includes("outside") ? "outside" : "constant";
    for (const output of eqn.outputs) kind.set(output, result);
  }
  const captured = new Set<Tensor>();
  // Markers are captured themselves, not what they stand for: the derivative goes through them.
  const read = (t: Tensor) => {
    if (kindOf(t) === "outside") captured.add(t);
  };
  for (const eqn of eqns) if (eqn.outputs.some((t) => kind.get(t) === "own")) eqn.inputs.forEach(read);
  outputs.forEach(read);
  return [...captured];
}

/**
 * What a body's reverse reads of the forward body: tensors that the forward trace made (their equations are older than
 * the operation's, `boundary`) from the body's own parameters, at the edge to what the reverse rules added.
 */
export function residualsOf(results: readonly Tensor[], { id: boundary }: Eqn, ownParams: readonly Tensor[]): Tensor[] {
  const edge = new Set<Tensor>();
  const seen = new Set<Eqn>();
  const todo = [...results];
  for (let t = todo.pop(); t !== undefined; t = todo.pop()) {
    if (t.eqn === undefined || t.eqn.id < boundary) edge.add(t);
    else if (!seen.has(t.eqn)) {
      seen.add(t.eqn);
      todo.push(...t.eqn.inputs);
    }
  }
  const inStep = new Set(ownParams);
  for (const eqn of equationsBehind([...edge], inStep)) {
    if (eqn.inputs.some((t) => inStep.has(t))) for (const t of eqn.outputs) inStep.add(t);
  }
  return [...edge].filter((t) => inStep.has(t)).sort((a, b) => a.id - b.id);
}
