/** Products over dims. Apart from the other reductions, as its reverse rule is made of running products. */
import { type DType, dtypeInfo } from "../dtype.ts";
import type { Tensor } from "../tensor.ts";
import { cumprod } from "./cumulative.ts";
import { type ReduceOptions, reduce, reduction } from "./reduce.ts";

const productOp = reduction("reduce_prod", {
  hlo: "multiply",
  initial: () => 1,
  combine: (a, b) => a * b,
  integer: Math.imul,
  // Of each element the product of those before it and of those after it: no division, so zeros are no exception.
  vjp: ({ inputs: [x], params: { dims }, cts: [ct] }) => {
    const compute: DType = dtypeInfo(x!.dtype).bits < 32 ? "float32" : x!.dtype;
    const kept = x!.shape.map((_, i) => i).filter((i) => !dims.includes(i));
    const order = [...kept, ...dims];
    const rows = x!.astype(compute).transpose(order);
    const flat = rows.reshape([...ct!.shape, dims.reduce((size, dim) => size * x!.shape[dim]!, 1)]);
    const others = cumprod(flat, -1, { exclusive: true }).mul(cumprod(flat, -1, { exclusive: true, reverse: true }));
    const grad = others.mul(ct!.astype(compute).expandDims(-1)).reshape(rows.shape);
    return [grad.transpose(order.map((_, i) => order.indexOf(i))).astype(x!.dtype)];
  },
});

export const reduceProduct = (x: Tensor, dims?: number | readonly number[], options?: ReduceOptions): Tensor =>
  reduce(productOp, x, dims, options);
