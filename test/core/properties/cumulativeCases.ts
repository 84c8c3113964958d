/** Cases of running sums, products and maxima in both directions, with and without the entry itself. */
import fc from "fast-check";
import {
  type CumulativeOptions,
  cummax,
  cumprod,
  cumsum,
  type DType,
  isFloat,
  type Tensor,
} from "../../../src/core/index.ts";
import { exact, type Rule, sums } from "./compare.ts";
import { drawnCasesOf, type OpCase } from "./opCase.ts";
import { arrays, ordinaryArrays, shapes } from "./values.ts";

type Running = (x: Tensor, dim: number, options: CumulativeOptions) => Tensor;

const runs =
  (values: typeof arrays, f: Running) =>
  (dtype: DType): fc.Arbitrary<Pick<OpCase, "f" | "inputs">> =>
    shapes({ minRank: 1, maxRank: 3 })
      .chain((shape) => fc.record({ shape: fc.constant(shape), dim: fc.nat(shape.length - 1), long: fc.nat(8) }))
      .chain(({ shape, dim, long }) =>
        fc
          .record({
            x: values(dtype, shape.with(dim, shape[dim]! + long)),
            options: fc.record({ reverse: fc.boolean(), exclusive: fc.boolean() }),
          })
          .map(({ x, options }) => ({ inputs: [x], f: (t: Tensor) => f(t, dim, options) })),
      );

/** Integers of any size, which wrap; ordinary floats, whose sums lose little. */
const wrapping: typeof arrays = (dtype, shape) => (isFloat(dtype) ? ordinaryArrays : arrays)(dtype, shape);

const long = (f: Running) => (dtype: DType) =>
  ordinaryArrays(dtype, [3, 1000]).map((x) => ({ inputs: [x], f: (t: Tensor) => f(t, 1, {}) }));

export function cumulativeCases(count = 4): OpCase[] {
  const always = (): Rule => exact;
  return [
    ...drawnCasesOf("cumsum", runs(wrapping, cumsum), sums, count),
    ...drawnCasesOf("long cumsum", long(cumsum), sums, 1),
    ...drawnCasesOf("cumprod", runs(wrapping, cumprod), sums, count),
    ...drawnCasesOf("cummax", runs(arrays, cummax), always, count),
  ];
}
