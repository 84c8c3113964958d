/**
 * Reverse mode on the graph: walk the equations from outputs to inputs, newest first, and let each operation's rule add
 * the equations of its cotangents. The result is ordinary graph, so derivatives can be derived again.
 */
import { invariant } from "../base/errors.ts";
import { atScope, dtypeInfo, isFloat, sameShape, showSpec, type Tensor } from "../core/index.ts";
import type { Eqn } from "../core/op.ts";
import { equationsBehind } from "./equationsBehind.ts";

/** The equations between `outputs` and `inputs` through which a derivative flows, oldest first; behind `stops` none is. */
export function differentiablePath(
  outputs: readonly Tensor[],
  inputs: readonly Tensor[],
  stops: readonly Tensor[] = [],
): { eqns: Eqn[]; active: Set<Tensor> } {
  const active = new Set(inputs.filter((t) => isFloat(t.dtype)));
  const eqns = equationsBehind(outputs, new Set([...inputs, ...stops])).filter((eqn) => {
    if (eqn.op.vjp === "none" || !eqn.inputs.some((t) => active.has(t))) return false;
    for (const output of eqn.outputs) if (isFloat(output.dtype)) active.add(output);
    return true;
  });
  return { eqns, active };
}

/** Dtypes too narrow for arithmetic are added in float32. */
function sumOf(a: Tensor, b: Tensor): Tensor {
  if (dtypeInfo(a.dtype).bits >= 16) return a.add(b);
  return a.astype("float32").add(b.astype("float32")).astype(a.dtype);
}

/**
 * Cotangents of `inputs` given those of `outputs` (undefined = zero). An input that no output depends on gets undefined.
 * `stops` are what else the outputs' computation begins with, where that is a body's.
 */
export function backward(
  outputs: readonly Tensor[],
  cotangents: readonly (Tensor | undefined)[],
  inputs: readonly Tensor[],
  stops: readonly Tensor[] = [],
): (Tensor | undefined)[] {
  const { eqns, active } = differentiablePath(outputs, inputs, stops);
  // An input may itself be computed from another (a captured tensor from an argument): derivatives end there, even where
  // another output of the equation that makes it lies on the path.
  const ends = new Set(inputs);
  const cts = new Map<Tensor, Tensor>();
  const accumulate = (t: Tensor, ct: Tensor | undefined) => {
    if (ct === undefined || !active.has(t)) return;
    invariant(ct.dtype === t.dtype && sameShape(ct.shape, t.shape), `cotangent ${showSpec(ct)} for ${showSpec(t)}`);
    const sum = cts.get(t);
    cts.set(t, sum === undefined ? ct : sumOf(sum, ct));
  };
  outputs.forEach((t, i) => accumulate(t, cotangents[i]));
  for (const eqn of eqns.reverse()) {
    const outputCts = eqn.outputs.map((t) => (ends.has(t) ? undefined : cts.get(t)));
    if (outputCts.every((ct) => ct === undefined) || eqn.op.vjp === "none") continue;
    const { inputs, outputs, params, scope } = eqn;
    const needs = inputs.map((t) => active.has(t));
    const { vjp } = eqn.op;
    atScope({ path: scope.path, pass: "backward", format: "" }, () => {
      const inputCts = vjp({ inputs, outputs, params, cts: outputCts, needs, eqn });
      inputs.forEach((t, i) => accumulate(t, inputCts[i]));
    });
  }
  return inputs.map((t) => cts.get(t));
}
