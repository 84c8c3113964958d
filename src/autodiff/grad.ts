/** Derivatives of functions of Tensors: `grad`, `valueAndGrad`, `vjp`. */
import { ShapeError } from "../base/errors.ts";
import {
  full,
  isFloat,
  showSpec,
  type Tensor,
  treeLeaves,
  treeLeavesLike,
  treeUnflatten,
  zeros,
} from "../core/index.ts";
import { copy } from "../core/ops/identity.ts";
import { backward } from "./backward.ts";

/** A tree of fresh nodes for the same values, so that the derivative is taken along this argument only. */
function fresh<T>(tree: T): { tree: T; leaves: Tensor[] } {
  const leaves = treeLeaves<Tensor>(tree).map(copy);
  return { tree: treeUnflatten<T>(tree, leaves), leaves };
}

const orZero = (ct: Tensor | undefined, like: Tensor): Tensor => ct ?? zeros(like.shape, like.dtype);

function checkScalar(value: Tensor): void {
  if (value.rank !== 0)
    throw new ShapeError(`grad: the function must return a scalar; got ${showSpec(value)}. Use vjp, or reduce it`);
}

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
    const input = fresh(params);
    const result = f(input.tree, ...rest);
    const { value, ...others } = options.aux ? (result as { value: Tensor; aux: X }) : { value: result as Tensor };
    checkScalar(value);
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
  const input = fresh<A>([...primals] as unknown as A);
  const out = f(...input.tree);
  const outputs = treeLeaves<Tensor>(out);
  const pullback = (ct: R): A => {
    const cts = backward(outputs, treeLeavesLike<Tensor>(out, ct, "vjp: result and cotangent"), input.leaves);
    return treeUnflatten<A>(
      primals,
      cts.map((c, i) => orZero(c, input.leaves[i]!)),
    );
  };
  return { out, pullback };
}
