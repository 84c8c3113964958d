/**
 * Rematerialisation: keep a function's inputs (and what the policy names) and compute the rest again in the backward
 * pass. The recomputation reads what is kept through a barrier tied to the cotangents, so that XLA cannot merge it with
 * the forward computation or run it early.
 */
import { UserError } from "../base/errors.ts";
import { apply, atScope, optimizationBarrier, type Tensor, treeLeaves, treeUnflatten } from "../core/index.ts";
import type { AnyOp, Eqn, Op } from "../core/op.ts";
import { type DotParams, dotOp } from "../core/ops/dot.ts";
import { checkpointNameOf, copy } from "../core/ops/identity.ts";
import { backward } from "./backward.ts";
import { equationsBehind } from "./equationsBehind.ts";

/** Which values of the forward pass are kept for the backward pass. */
export interface RematPolicy {
  /** Results of contractions without batch dims: products with weights, not attention's scores. */
  readonly dots?: boolean;
  /** Values named with `checkpointName`. */
  readonly names?: readonly string[];
}

interface RematParams {
  /** The function's inputs inside it, then Tensors it captures; as many as the marker's inputs before the outputs. */
  readonly inner: readonly Tensor[];
  readonly numArgs: number;
  readonly results: readonly Tensor[];
  readonly policy: RematPolicy;
}

const rematOp: Op<RematParams> = {
  name: "remat",
  shape: (_, { results }) => results,
  vjp: ({ inputs: outer, params: { inner, numArgs, results, policy }, cts, needs }) => {
    const kept = keptBy(policy, results, inner);
    const held = [...outer.slice(0, numArgs), ...kept, ...cts.flatMap((ct) => ct ?? [])];
    const behind = optimizationBarrier(held).values();
    const take = (): Tensor => behind.next().value!;
    // Outer inputs stand in for inner ones: inside another remat this marker is a copy with other inputs.
    const inputs = inner.map((_, i) => (i < numArgs ? take() : outer[i]!));
    const saved = new Map(kept.map((t) => [t, take()]));
    const tied = cts.map((ct) => (ct === undefined ? undefined : take()));
    const replaced = new Map(inner.flatMap((t, i) => (t === inputs[i] ? [] : [[t, inputs[i]!] as const])));
    const clones = replay(results, replaced, saved);
    const wanted = inputs.filter((_, i) => needs[i]);
    const found = backward(clones, tied, wanted);
    let k = 0;
    return inputs.map((_, i) => (needs[i] ? found[k++] : undefined));
  },
  lower: (_, inputs, { inner }) => inputs.slice(inner.length),
  interpret: (inputs, { inner }) => inputs.slice(inner.length),
  alias: (inputs, { inner }, output) => inputs[inner.length + output]!,
};

/** Results kept from the forward pass, with the derivative of the operation on the inputs that are computed again. */
const savedOp: Op<{ readonly op: AnyOp; readonly params: unknown; readonly numInputs: number }> = {
  name: "saved",
  shape: (inputs, { numInputs }) => inputs.slice(numInputs),
  vjp: ({ inputs, params: { op, params, numInputs }, needs, ...rest }) => {
    if (op.vjp === "none") return [];
    return op.vjp({ ...rest, params, inputs: inputs.slice(0, numInputs), needs: needs.slice(0, numInputs) });
  },
  lower: (_, inputs, { numInputs }) => inputs.slice(numInputs),
  interpret: (inputs, { numInputs }) => inputs.slice(numInputs),
  alias: (inputs, { numInputs }, output) => inputs[numInputs + output]!,
};

/** Equations that depend on any of `sources`, oldest first, and the other tensors they read. */
function dependents(outputs: readonly Tensor[], sources: ReadonlySet<Tensor>): { eqns: Eqn[]; captured: Tensor[] } {
  const dependent = new Set(sources);
  const eqns = equationsBehind(outputs, sources).filter((eqn) => {
    if (!eqn.inputs.some((t) => dependent.has(t))) return false;
    for (const output of eqn.outputs) dependent.add(output);
    return true;
  });
  const captured = new Set<Tensor>();
  for (const t of [...eqns.flatMap((eqn) => eqn.inputs), ...outputs]) if (!dependent.has(t)) captured.add(t);
  return { eqns, captured: [...captured] };
}

/** Results of the operations between `inputs` and `outputs` that the policy saves. */
function keptBy({ dots, names = [] }: RematPolicy, outputs: readonly Tensor[], inputs: readonly Tensor[]): Tensor[] {
  if (!dots && names.length === 0) return [];
  const isKept = ({ op, params, outputs: [first] }: Eqn): boolean =>
    (dots && op === dotOp && (params as DotParams).batch[0].length === 0) ||
    names.includes(checkpointNameOf(first!) ?? "");
  return dependents(outputs, new Set(inputs)).eqns.flatMap((eqn) => (isKept(eqn) ? eqn.outputs : []));
}

/** The computation of `outputs` again, from replaced tensors; what is saved is taken from there, not computed again. */
export function replay(
  outputs: readonly Tensor[],
  replaced: ReadonlyMap<Tensor, Tensor>,
  saved: ReadonlyMap<Tensor, Tensor>,
): Tensor[] {
  const clones = new Map(replaced);
  for (const { op, params, inputs, outputs: originals, scope } of dependents(outputs, new Set(replaced.keys())).eqns) {
    const again = inputs.map((t) => clones.get(t) ?? t);
    const kept = originals.flatMap((t) => saved.get(t) ?? []);
    const results = atScope({ ...scope, pass: "recompute" }, () =>
      kept.length > 0
        ? apply(savedOp, [...again, ...kept], { op, params, numInputs: again.length })
        : apply(op, again, op === rematOp ? insideAgain(params, clones) : params),
    );
    originals.forEach((t, i) => clones.set(t, results[i]!));
  }
  return outputs.map((t) => clones.get(t) ?? t);
}

/** A function inside this one is computed again too: what its policy keeps is then kept of the second computation. */
function insideAgain({ inner, results, ...rest }: RematParams, clones: ReadonlyMap<Tensor, Tensor>): RematParams {
  const again = (t: Tensor) => clones.get(t) ?? t;
  return { ...rest, inner: inner.map(again), results: results.map(again) };
}

/** f, recomputed in the backward pass but for what `policy` keeps (by default only its inputs). */
export function remat<A extends readonly unknown[], R>(
  f: (...args: A) => R,
  policy: RematPolicy = {},
): (...args: A) => R {
  if (typeof f !== "function") throw new UserError("E_REMAT", "remat takes a function of Tensors");
  return (...args) => {
    const argLeaves = treeLeaves<Tensor>(args);
    const inside = argLeaves.map(copy);
    const out = f(...treeUnflatten<A>([...args], inside));
    const results = treeLeaves<Tensor>(out);
    const { captured } = dependents(results, new Set(inside));
    const params: RematParams = { inner: [...inside, ...captured], numArgs: inside.length, results, policy };
    return treeUnflatten<R>(out, apply(rematOp, [...argLeaves, ...captured, ...results], params));
  };
}
