/** Functions that bring their own reverse rule. */
import { ShapeError } from "../base/errors.ts";
import { apply, Tensor, treeLeaves, treeUnflatten, zeros } from "../core/index.ts";
import type { Op } from "../core/op.ts";
import { checkCotangents, checkKeys, describe, tensorsIn } from "./arguments.ts";
import { leavesLike } from "./bodies.ts";

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
 * The function `fwd(...).out` with `bwd` as its derivative. Arguments are trees of Tensors, residuals of Tensors and
 * constants. A Tensor that `fwd` only captures from outside gets no gradient, and nothing says so: pass whatever is to be
 * differentiated as an argument. `bwd` gives a list of one cotangent for each argument, null for none; whatever it reads of
 * the forward computation belongs into the residuals.
 */
export function customVjp<A extends readonly unknown[], R, S>({ fwd, bwd }: CustomVjp<A, R, S>): (...args: A) => R {
  return (...args) => {
    const argLeaves = args.map((arg, i) => tensorsIn(arg, `customVjp: argument ${i}`));
    const forward = fwd(...args);
    checkKeys(forward, ["out", "residuals"], "customVjp: fwd must return { out, residuals }");
    const { out, residuals } = forward;
    const outputs = tensorsIn(out, "customVjp: fwd's out");
    // Numbers and the like among the residuals are known already: they stay as they are.
    const kept = treeLeaves(residuals);
    const saved = kept.filter((leaf) => leaf instanceof Tensor);
    const pullback: CustomVjpParams["pullback"] = (residualLeaves, cts) => {
      const ct = treeUnflatten<R>(
        out,
        outputs.map((t, i) => cts[i] ?? zeros(t.shape, t.dtype)),
      );
      const again = residualLeaves.values();
      const leavesAgain = kept.map((leaf) => (leaf instanceof Tensor ? again.next().value : leaf));
      const argCts = bwd(treeUnflatten<S>(residuals, leavesAgain), ct) as readonly unknown[];
      checkCount(argCts, args.length);
      return argLeaves.flatMap((leaves, i) => {
        if (treeLeaves(argCts[i]).length === 0) return leaves.map(() => undefined);
        const what = `customVjp: argument ${i} and its cotangent`;
        tensorsIn(argCts[i], `customVjp: bwd's cotangent of argument ${i}`);
        const given = leavesLike(args[i], argCts[i], what);
        checkCotangents(given, leaves, `${what} differ: bwd must give`);
        return given;
      });
    };
    const flat = argLeaves.flat();
    const params: CustomVjpParams = { numArgs: flat.length, numOutputs: outputs.length, pullback };
    return treeUnflatten<R>(out, apply(customVjpOp, [...flat, ...outputs, ...saved], params));
  };
}

function checkCount(cts: readonly unknown[], numArgs: number): void {
  if (Array.isArray(cts) && cts.length === numArgs) return;
  throw new ShapeError(
    `customVjp: bwd must return a list of ${numArgs}, one cotangent for each argument (null for one without); got ${describe(cts)}`,
  );
}
