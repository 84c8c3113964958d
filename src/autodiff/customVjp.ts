/** Functions that bring their own reverse rule. */
import { ShapeError } from "../base/errors.ts";
import {
  apply,
  sameShape,
  showSpec,
  type Tensor,
  treeLeaves,
  treeLeavesLike,
  treeUnflatten,
  zeros,
} from "../core/index.ts";
import type { Op } from "../core/op.ts";

interface CustomVjpParams {
  readonly numArgs: number;
  readonly numOutputs: number;
  readonly pullback: (
    residuals: readonly Tensor[],
    cts: readonly (Tensor | undefined)[],
  ) => readonly (Tensor | undefined)[];
}

/**
 * Marks outputs as having this reverse rule. Inputs: the arguments, the outputs, the residuals; that all three are inputs
 * lets `remat` compute them again.
 */
export const customVjpOp: Op<CustomVjpParams> = {
  name: "custom_vjp",
  shape: (inputs, { numArgs, numOutputs }) => inputs.slice(numArgs, numArgs + numOutputs),
  vjp: ({ inputs, params: { numArgs, numOutputs, pullback }, cts }) =>
    pullback(inputs.slice(numArgs + numOutputs), cts),
  lower: (_, inputs, { numArgs, numOutputs }) => inputs.slice(numArgs, numArgs + numOutputs),
  interpret: (inputs, { numArgs, numOutputs }) => inputs.slice(numArgs, numArgs + numOutputs),
  alias: (inputs, { numArgs }, output) => inputs[numArgs + output]!,
};

export interface CustomVjp<A extends readonly unknown[], R, S> {
  /** The function itself, with what its reverse rule will read. */
  readonly fwd: (...args: A) => { out: R; residuals: S };
  /** Cotangents of the arguments (same trees; null for an argument without one) from that of the result. */
  readonly bwd: (residuals: S, ct: R) => { readonly [K in keyof A]: A[K] | null };
}

/**
 * The function `fwd(...).out` with `bwd` as its derivative. Arguments and residuals are trees of Tensors. A Tensor that
 * `fwd` only captures from outside gets no gradient, so pass whatever is to be differentiated as an argument; whatever
 * `bwd` reads of the forward computation belongs into the residuals.
 */
export function customVjp<A extends readonly unknown[], R, S>({ fwd, bwd }: CustomVjp<A, R, S>): (...args: A) => R {
  return (...args) => {
    const { out, residuals } = fwd(...args);
    const argLeaves = args.map((arg) => treeLeaves<Tensor>(arg));
    const outputs = treeLeaves<Tensor>(out);
    const saved = treeLeaves<Tensor>(residuals);
    const pullback: CustomVjpParams["pullback"] = (residualLeaves, cts) => {
      const ct = treeUnflatten<R>(
        out,
        outputs.map((t, i) => cts[i] ?? zeros(t.shape, t.dtype)),
      );
      const argCts = bwd(treeUnflatten<S>(residuals, residualLeaves), ct) as readonly unknown[];
      return argLeaves.flatMap((leaves, i) => {
        if (treeLeaves(argCts[i]).length === 0) return leaves.map(() => undefined);
        const what = `customVjp: argument ${i} and its cotangent`;
        const given = treeLeavesLike<Tensor>(args[i], argCts[i], what);
        given.forEach((ct, j) => {
          const leaf = leaves[j]!;
          if (ct.dtype === leaf.dtype && sameShape(ct.shape, leaf.shape)) return;
          throw new ShapeError(`${what} differ: bwd must give ${showSpec(leaf)}; got ${showSpec(ct)}`);
        });
        return given;
      });
    };
    const flat = argLeaves.flat();
    const params: CustomVjpParams = { numArgs: flat.length, numOutputs: outputs.length, pullback };
    return treeUnflatten<R>(out, apply(customVjpOp, [...flat, ...outputs, ...saved], params));
  };
}
