/** Derivatives of functions of Tensors: `grad`, `valueAndGrad`, `vjp`. */
import { ShapeError } from "../base/errors.ts";
import { full, isFloat, showSpec, Tensor, treeUnflatten, zeros } from "../core/index.ts";
import { copy } from "../core/ops/identity.ts";
import { checkCotangents, checkKeys, describe, tensorsIn } from "./arguments.ts";
import { backward } from "./backward.ts";
import { leavesLike } from "./bodies.ts";

/** A tree of fresh nodes for the same values, so that the derivative is taken along this argument only. */
function fresh<T>(tree: T, what: string): { tree: T; leaves: Tensor[] } {
  const leaves = tensorsIn(tree, what).map(copy);
  return { tree: treeUnflatten<T>(tree, leaves), leaves };
}

const orZero = (ct: Tensor | undefined, like: Tensor): Tensor => ct ?? zeros(like.shape, like.dtype);

/** The scalar that a function returned, with its aux. @throws ShapeError */
function splitResult<X>(result: Tensor | { value: Tensor; aux: X }, withAux: boolean): { value: Tensor; aux?: X } {
  if (withAux) checkKeys(result, ["value", "aux"], "grad: with { aux: true } the function must return { value, aux }");
  const found = withAux ? (result as { value: Tensor; aux: X }) : { value: result as Tensor };
  const { value } = found;
  if (!(value instanceof Tensor)) {
    const hint = isAux(value) ? ". For { value, aux } use valueAndGrad(f, { aux: true })" : "";
    throw new ShapeError(`grad: the function must return a scalar Tensor; got ${describe(value)}${hint}`);
  }
  if (value.rank !== 0)
    throw new ShapeError(`grad: the function must return a scalar; got ${showSpec(value)}. Use vjp, or reduce it`);
  if (!isFloat(value.dtype)) {
    throw new ShapeError(
      `grad: the function must return a float, since ${showSpec(value)} has no derivative; convert what it is made of with astype`,
    );
  }
  return found;
}

const isAux = (value: unknown): boolean => typeof value === "object" && value !== null && "value" in value;

/** f's value and its gradient with respect to the first argument (a tree), in the tree's structure and dtypes. */
export function valueAndGrad<P, R extends readonly unknown[]>(
  f: (params: P, ...rest: R) => Tensor,
): (params: P, ...rest: R) => { value: Tensor; grad: P };
/** With `aux`, f returns { value, aux }: aux is passed through, not differentiated. */
export function valueAndGrad<P, R extends readonly unknown[], X>(
  f: (params: P, ...rest: R) => { value: Tensor; aux: X },
  options: { aux: true },
): (params: P, ...rest: R) => { value: Tensor; aux: X; grad: P };
export function valueAndGrad<P, R extends readonly unknown[], X>(
  f: (params: P, ...rest: R) => Tensor | { value: Tensor; aux: X },
  options: { aux: boolean } = { aux: false },
) {
  return (params: P, ...rest: R) => {
    const input = fresh(params, "grad: the first argument");
    const { value, ...others } = splitResult<X>(f(input.tree, ...rest), options.aux);
    const [first] = input.leaves;
    if (first && !input.leaves.some((leaf) => isFloat(leaf.dtype))) {
      throw new ShapeError(`grad: ${showSpec(first)} has no gradient; the first argument must hold floats`);
    }
    const cts = backward([value], [full([], 1, value.dtype)], input.leaves);
    return {
      value,
      ...others,
      grad: treeUnflatten<P>(
        params,
        cts.map((ct, i) => orZero(ct, input.leaves[i]!)),
      ),
    };
  };
}

/** The gradient of a scalar function with respect to its first argument. */
export function grad<P, R extends readonly unknown[]>(
  f: (params: P, ...rest: R) => Tensor,
): (params: P, ...rest: R) => P {
  return (params, ...rest) => valueAndGrad(f)(params, ...rest).grad;
}

/** A result that can be traced back. */
export interface Vjp<A, R> {
  readonly out: R;
  /** From a cotangent of the result, in its tree, to those of the arguments. */
  pullback(ct: R): A;
}

/** f's result and the function from a cotangent of it (same tree) to the cotangents of the arguments. */
export function vjp<A extends readonly unknown[], R>(f: (...args: A) => R, ...primals: A): Vjp<A, R> {
  const input = fresh<A>([...primals] as unknown as A, "vjp: what the function is applied to");
  const out = f(...input.tree);
  const outputs = tensorsIn(out, "vjp: the function's result");
  const pullback = (ct: R): A => {
    tensorsIn(ct, "vjp: the cotangent");
    const given = leavesLike(out, ct, "vjp: result and cotangent");
    checkCotangents(given, outputs, "vjp: the cotangent must be, like the result,");
    const cts = backward(outputs, given, input.leaves);
    return treeUnflatten<A>(
      primals,
      cts.map((c, i) => orZero(c, input.leaves[i]!)),
    );
  };
  return { out, pullback };
}
