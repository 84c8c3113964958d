/** Operations that return their input and say something about it: to the reverse pass, to remat, to XLA. */
import type { Op } from "../op.ts";
import { apply, applyOne, type Tensor } from "../tensor.ts";

/** A fresh node for the same value: what derivatives are taken with respect to. Never part of a program. */
const copyOp: Op<null> = {
  name: "copy",
  shape: ([x]) => [x!],
  vjp: ({ cts: [ct] }) => [ct],
  lower: (_, inputs) => inputs,
  interpret: (inputs) => inputs,
  alias: ([x]) => x!,
};

const stopGradientOp: Op<null> = { ...copyOp, name: "stop_gradient", vjp: "none" };

const checkpointNameOp: Op<{ name: string }> = {
  name: "checkpoint_name",
  shape: ([x]) => [x!],
  vjp: ({ cts: [ct] }) => [ct],
  lower: (_, inputs) => inputs,
  interpret: (inputs) => inputs,
  show: ({ name }) => name,
};

const barrierOp: Op<null> = {
  name: "optimization_barrier",
  shape: (inputs) => inputs,
  vjp: ({ cts }) => cts,
  lower: (e, inputs, _, outputs) => e.op("stablehlo.optimization_barrier", inputs, outputs),
  interpret: (inputs) => inputs,
  independentOutputs: true,
};

export const copy = (x: Tensor): Tensor => applyOne(copyOp, [x], null);

/** x, with a zero derivative. */
export const stopGradient = (x: Tensor): Tensor => applyOne(stopGradientOp, [x], null);

/** x, under a name by which a remat policy can save it. */
export const checkpointName = (x: Tensor, name: string): Tensor => applyOne(checkpointNameOp, [x], { name });

/** The name `checkpointName` gave a tensor, or undefined. */
export const checkpointNameOf = (x: Tensor): string | undefined =>
  x.eqn?.op === checkpointNameOp ? (x.eqn.params as { name: string }).name : undefined;

/** The same tensors: all that are used are computed before any is, and not merged with equal values computed before. */
export const optimizationBarrier = (tensors: readonly Tensor[]): readonly Tensor[] => apply(barrierOp, tensors, null);
