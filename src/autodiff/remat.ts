/**
 * Rematerialisation: keep a function's inputs (and what the policy names) and compute the rest again in the backward
 * pass. The recomputation reads what is kept through a barrier tied to the cotangents, so that XLA cannot merge it with
 * the forward computation or run it early.
 */
import { ShapeError, UserError } from "../base/errors.ts";
import { apply, atScope, optimizationBarrier, type Tensor, treeUnflatten } from "../core/index.ts";
import type { AnyOp, Eqn, Op } from "../core/op.ts";
import { type DotParams, dotOp } from "../core/ops/dot.ts";
import { checkpointNameOf, copy } from "../core/ops/identity.ts";
import { checkKeys, describe, tensorsIn } from "./arguments.ts";
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
    const read = [...outer.slice(0, numArgs), ...kept, ...cts.flatMap((ct) => ct ?? [])];
    const behind = optimizationBarrier(read).values();
    const take = (): Tensor => behind.next().value!;
    // Outer inputs stand in for inner ones: inside another remat this marker is a copy with other inputs.
    const inputs = inner.map((_, i) => (i < numArgs ? take() : outer[i]!));
    const saved = new Map(kept.map((t) => [t, take()]));
    const tied = cts.map((ct) => (ct === undefined ? undefined : take()));
    const replaced = new Map(inner.flatMap((t, i) => (t === inputs[i] ? [] : [[t, inputs[i]!] as const])));
    const clones = replay(results, replaced, { saved, stops: inner });
    const wanted = inputs.filter((_, i) => needs[i]);
    const found = backward(clones, tied, wanted, [...inputs, ...saved.values()]);
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

/** Equations that depend on any of `sources`, oldest first and back to `stops`, and the other tensors they read. */
function dependents(
  outputs: readonly Tensor[],
  sources: Iterable<Tensor>,
  stops: readonly Tensor[] = [],
): { eqns: Eqn[]; captured: Tensor[] } {
  const dependent = new Set(sources);
  const eqns = equationsBehind(outputs, new Set([...dependent, ...stops])).filter((eqn) => {
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
  return dependents(outputs, inputs).eqns.flatMap((eqn) => (isKept(eqn) ? eqn.outputs : []));
}

export interface ReplayOptions {
  /** Taken from here, not computed again. */
  readonly saved?: ReadonlyMap<Tensor, Tensor>;
  /** Read as they are, like what depends on nothing that is replaced. */
  readonly stops?: readonly Tensor[];
}

/** The computation of `outputs` again, from replaced tensors. */
export function replay(
  outputs: readonly Tensor[],
  replaced: ReadonlyMap<Tensor, Tensor>,
  { saved = new Map(), stops = [] }: ReplayOptions = {},
): Tensor[] {
  const clones = new Map(replaced);
  const { eqns } = dependents(outputs, replaced.keys(), stops);
  const ends = [...replaced.values(), ...saved.values()];
  for (const { op, params, inputs, outputs: originals, scope } of eqns) {
    const again = inputs.map((t) => clones.get(t) ?? t);
    const kept = originals.flatMap((t) => saved.get(t) ?? []);
    const results = atScope({ ...scope, pass: "recompute" }, () => {
      if (kept.length > 0) return apply(savedOp, [...again, ...kept], { op, params, numInputs: again.length });
      return op === rematOp ? rematAgain(params, again, { clones, ends }) : apply(op, again, params);
    });
    originals.forEach((t, i) => clones.set(t, results[i]!));
  }
  return outputs.map((t) => clones.get(t) ?? t);
}

/**
 * A function inside this one is computed again too: what its policy keeps is then kept of the second computation. What that
 * captures can differ: tensors at its `ends`, behind which is the first computation and nothing of this one.
 */
function rematAgain(
  { inner, numArgs, results, policy }: RematParams,
  inputs: readonly Tensor[],
  { clones, ends }: { readonly clones: ReadonlyMap<Tensor, Tensor>; readonly ends: readonly Tensor[] },
): readonly Tensor[] {
  const again = (t: Tensor) => clones.get(t) ?? t;
  const [before, found] = [inner.map(again), results.map(again)];
  const inside = before.slice(0, numArgs);
  const { captured } = dependents(found, inside, [...before, ...ends]);
  const params: RematParams = { inner: [...inside, ...captured], numArgs, results: found, policy };
  return apply(rematOp, [...inputs.slice(0, numArgs), ...captured, ...found], params);
}

/** f, recomputed in the backward pass but for what `policy` keeps (by default only its inputs). */
export function remat<A extends readonly unknown[], R>(
  f: (...args: A) => R,
  policy: RematPolicy = {},
): (...args: A) => R {
  if (typeof f !== "function") throw new UserError("E_REMAT", "remat takes a function of Tensors");
  checkPolicy(policy);
  return (...args) => {
    const argLeaves = tensorsIn(args, "remat: an argument");
    const inside = argLeaves.map(copy);
    const out = f(...treeUnflatten<A>([...args], inside));
    const results = tensorsIn(out, "remat: the function's result");
    const { captured } = dependents(results, inside);
    const params: RematParams = { inner: [...inside, ...captured], numArgs: inside.length, results, policy };
    return treeUnflatten<R>(out, apply(rematOp, [...argLeaves, ...captured, ...results], params));
  };
}

function checkPolicy(policy: RematPolicy): void {
  const rule =
    'remat: the policy is { dots: true } and/or { names: ["…"] }, of what is kept; {} keeps the inputs alone';
  checkKeys(policy, ["dots", "names"], rule);
  const { dots = false, names = [] } = policy;
  if (typeof dots !== "boolean") throw new ShapeError(`${rule}; got dots: ${describe(dots)}`);
  if (!(Array.isArray(names) && names.every((name) => typeof name === "string")))
    throw new ShapeError(`${rule}; got names: ${describe(names)}`);
}
