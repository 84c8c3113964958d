/** The bodies of loops and of other operations that run programs: what they read from outside, what their reverse keeps. */
import { ShapeError, UserError } from "../base/errors.ts";
import { sameShape, showSpec, type Tensor, treeLeavesLike } from "../core/index.ts";
import type { Eqn } from "../core/op.ts";
import { equationsBehind } from "./equationsBehind.ts";
import { replay } from "./remat.ts";

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

/** What an equation with a body captures: as the body's computation names it, and as the equation is given it. */
export interface Captures {
  readonly named: readonly Tensor[];
  readonly given: readonly Tensor[];
}

/**
 * The tensors that a body reads, from what its equation is given. The two differ where the equation was computed again from
 * other inputs, by `remat` or in a composite: its body still names the first ones.
 */
export function asGiven(read: readonly Tensor[], { named, given }: Captures): readonly Tensor[] {
  const replaced = new Map(named.flatMap((t, i) => (t === given[i] ? [] : [[t, given[i]!] as const])));
  return replaced.size === 0 ? read : replay(read, replaced, { stops: named });
}

/** Tensors that a body reads from outside where outside is what was traced before number `start`: all newer stays in it. */
export function readSince(start: number, outputs: readonly Tensor[], own: ReadonlySet<Tensor>): Tensor[] {
  const read = new Set<Tensor>();
  const seen = new Set<Eqn>();
  const todo = [...outputs];
  for (let t = todo.pop(); t !== undefined; t = todo.pop()) {
    if (own.has(t)) continue;
    if (t.eqn === undefined || t.eqn.id < start) read.add(t);
    else if (!seen.has(t.eqn)) {
      seen.add(t.eqn);
      todo.push(...t.eqn.inputs);
    }
  }
  return [...read];
}

/** What a body's reverse reads of what was traced before it: before the forward operation, `boundary`. Oldest first. */
export function edgeOf(results: readonly Tensor[], { id: boundary }: Eqn): Tensor[] {
  return readSince(boundary, results, new Set()).sort((a, b) => a.id - b.id);
}

/** Those of `tensors` that depend on nothing: no program needs to keep them. */
export function constantsAmong(tensors: readonly Tensor[]): Set<Tensor> {
  const constant = new Set<Tensor>();
  for (const { inputs, outputs } of equationsBehind(tensors, new Set())) {
    if (inputs.every((t) => constant.has(t))) for (const t of outputs) constant.add(t);
  }
  return constant;
}

/** Those tensors at the edge that the forward body made from its own parameters. */
export function residualsOf(results: readonly Tensor[], eqn: Eqn, ownParams: readonly Tensor[]): Tensor[] {
  const edge = edgeOf(results, eqn);
  const inStep = new Set(ownParams);
  for (const eqn of equationsBehind(edge, inStep)) {
    if (eqn.inputs.some((t) => inStep.has(t))) for (const t of eqn.outputs) inStep.add(t);
  }
  return edge.filter((t) => inStep.has(t));
}

/**
 * The leaves of a loop's state after a step in the order of those before it. @throws ShapeError where they differ in
 * structure, shape or dtype; `what` names the state in the message.
 */
export function sameCarry(what: string, init: unknown, before: readonly Tensor[], next: unknown): Tensor[] {
  const after = leavesLike(init, next, `${what} before and after a step`);
  before.forEach((was, i) => {
    const is = after[i]!;
    if (is.dtype === was.dtype && sameShape(is.shape, was.shape)) return;
    throw new ShapeError(`${what} went in as ${showSpec(was)} and came out as ${showSpec(is)}; it must not change`);
  });
  return after;
}

/** `treeLeavesLike`, whose error names the caller's line. @throws ShapeError */
export function leavesLike(like: unknown, tree: unknown, what: string): Tensor[] {
  try {
    return treeLeavesLike<Tensor>(like, tree, what);
  } catch (error) {
    if (error instanceof UserError) throw new ShapeError(error.message);
    throw error;
  }
}
