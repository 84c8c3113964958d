/** Functions that bring their own reverse rule. */
import { apply, type Tensor, treeLeaves, treeUnflatten, zeros } from "../core/index.ts";
import type { Op } from "../core/op.ts";

interface CustomVjpParams {
  readonly numArgs: number;
  readonly pullback: (cts: readonly (Tensor | undefined)[]) => readonly (Tensor | undefined)[];
}

/** Marks outputs (inputs `numArgs…` of the marker) as having this reverse rule with respect to the first inputs. */
export const customVjpOp: Op<CustomVjpParams> = {
  name: "custom_vjp",
  shape: (inputs, { numArgs }) => inputs.slice(numArgs),
  vjp: ({ params: { pullback }, cts }) => pullback(cts),
  lower: (_, inputs, { numArgs }) => inputs.slice(numArgs),
  interpret: (inputs, { numArgs }) => inputs.slice(numArgs),
  alias: (inputs, { numArgs }, output) => inputs[numArgs + output]!,
};

export interface CustomVjp<A extends readonly unknown[], R, S> {
  readonly fwd: (...args: A) => { out: R; residuals: S };
  /** Cotangents of the arguments (same trees; null for an argument without one) from that of the result. */
  readonly bwd: (residuals: S, ct: R) => { readonly [K in keyof A]: A[K] | null };
}

/**
 * The function `fwd(...).out` with `bwd` as its derivative. Arguments are trees of Tensors; a Tensor that `fwd` only
 * captures from outside gets no gradient, so pass whatever is to be differentiated as an argument.
 */
export function customVjp<A extends readonly unknown[], R, S>({ fwd, bwd }: CustomVjp<A, R, S>): (...args: A) => R {
  return (...args) => {
    const { out, residuals } = fwd(...args);
    const argLeaves = args.map((arg) => treeLeaves<Tensor>(arg));
    const outputs = treeLeaves<Tensor>(out);
    const pullback: CustomVjpParams["pullback"] = (cts) => {
      const ct = treeUnflatten<R>(
        out,
        outputs.map((t, i) => cts[i] ?? zeros(t.shape, t.dtype)),
      );
      const argCts = bwd(residuals, ct) as readonly unknown[];
      return argLeaves.flatMap((leaves, i) => {
        const given = treeLeaves<Tensor>(argCts[i]);
        return given.length === 0 ? leaves.map(() => undefined) : given;
      });
    };
    const flat = argLeaves.flat();
    return treeUnflatten<R>(out, apply(customVjpOp, [...flat, ...outputs], { numArgs: flat.length, pullback }));
  };
}
