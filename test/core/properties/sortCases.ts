/** Cases of sorting, on values with NaN, signed zeros and denormal numbers among them, and with many equal ones. */
import fc from "fast-check";
import { argsort, concat, type DType, sort, sortPairs, type Tensor, topK } from "../../../src/core/index.ts";
import { bits } from "./compare.ts";
import { drawnCasesOf, type OpCase } from "./opCase.ts";
import { arrays, ordinaryArrays, shapes } from "./values.ts";

type Unlabelled = Pick<OpCase, "f" | "inputs">;
type Sorting = (x: Tensor, dim: number, descending: boolean, values: Tensor) => Tensor;

const sortings =
  (values: typeof arrays, f: Sorting) =>
  (dtype: DType): fc.Arbitrary<Unlabelled> =>
    shapes({ minRank: 1, maxRank: 3 })
      .chain((shape) => fc.record({ shape: fc.constant(shape), dim: fc.nat(shape.length - 1) }))
      // Longer rows than the other dims.
      .chain(({ shape, dim }) => {
        const long = shape.with(dim, shape[dim]! * 7);
        return fc
          .record({ x: values(dtype, long), payload: arrays("int16", long), descending: fc.boolean() })
          .map(({ x, payload, descending }) => ({
            inputs: [x, payload],
            f: (...[x, payload]: Tensor[]) => f(x!, dim, descending, payload!),
          }));
      });

const functions: Record<string, Sorting> = {
  sort: (x, dim, descending) => sort(x, dim, { descending }),
  argsort: (x, dim, descending) => argsort(x, dim, { descending }),
  sortPairs: (x, dim, descending, values) => {
    const sorted = sortPairs(x, [values, x], dim, { descending });
    return concat([sorted.keys.eq(sorted.values[1]!).astype("int16"), sorted.values[0]!], 0);
  },
  topK: (x, dim) => topK(x, Math.min(3, x.shape[dim]!), dim).values,
  "topK indices": (x, dim) => topK(x, Math.min(3, x.shape[dim]!), dim).indices,
};

export function sortCases(count = 2): OpCase[] {
  return Object.entries(functions).flatMap(([name, f]) => [
    ...drawnCasesOf(name, sortings(arrays, f), () => bits, count),
    ...drawnCasesOf(`${name} of few values`, sortings(ordinaryArrays, f), () => bits, 1),
  ]);
}
