/** Cases of the reductions. Sums of floats are compared within 1e-5 of the largest; the rest is exact. */
import fc from "fast-check";
import { argMax, argMin, type DType, type Tensor } from "../../../src/core/index.ts";
import { exact, sums } from "./compare.ts";
import { drawnCasesOf, type OpCase } from "./opCase.ts";
import { arrays, ordinaryArrays, shapes } from "./values.ts";

type Unlabelled = Pick<OpCase, "f" | "inputs">;
type Reduce = (x: Tensor, dims: readonly number[], keepDims: boolean) => Tensor;

const reductions =
  (values: typeof arrays, f: Reduce) =>
  (dtype: DType): fc.Arbitrary<Unlabelled> =>
    shapes({ minRank: 1 }).chain((shape) =>
      fc
        .record({
          x: values(dtype, shape),
          dims: fc.subarray(
            shape.map((_, i) => i),
            { minLength: 1 },
          ),
          keepDims: fc.boolean(),
        })
        .map(({ x, dims, keepDims }) => ({ inputs: [x], f: (t: Tensor) => f(t, dims, keepDims) })),
    );

const places =
  (place: typeof argMax, values: typeof arrays) =>
  (dtype: DType): fc.Arbitrary<Unlabelled> =>
    shapes({ minRank: 1 }).chain((shape) =>
      fc
        .record({ x: values(dtype, shape), dim: fc.nat(shape.length - 1) })
        .map(({ x, dim }) => ({ inputs: [x], f: (t: Tensor) => place(t, dim) })),
    );

/** Sums that a vectorised loop takes in another order than the interpreter. */
const longRows = (f: Reduce) => (dtype: DType) =>
  ordinaryArrays(dtype, [3, 1000]).map((x) => ({ inputs: [x], f: (t: Tensor) => f(t, [1], false) }));

export function reduceCases(count = 4): OpCase[] {
  const sum: Reduce = (x, dims, keepDims) => x.sum(dims, { keepDims });
  const mean: Reduce = (x, dims, keepDims) => x.mean(dims, { keepDims });
  return [
    ...drawnCasesOf("sum", reductions(ordinaryArrays, sum), sums, count),
    ...drawnCasesOf("long sum", longRows(sum), sums, 1),
    ...drawnCasesOf("mean", reductions(ordinaryArrays, mean), sums, count),
    ...drawnCasesOf("long mean", longRows(mean), sums, 1),
    ...drawnCasesOf(
      "maxOver",
      reductions(arrays, (x, dims, keepDims) => x.maxOver(dims, { keepDims })),
      () => exact,
      count,
    ),
    ...drawnCasesOf(
      "minOver",
      reductions(arrays, (x, dims, keepDims) => x.minOver(dims, { keepDims })),
      () => exact,
      count,
    ),
    ...drawnCasesOf(
      "prod",
      reductions(ordinaryArrays, (x, dims, keepDims) => x.prod(dims, { keepDims })),
      sums,
      count,
    ),
    ...drawnCasesOf(
      "any",
      reductions(arrays, (x, dims, keepDims) => x.any(dims, { keepDims })),
      () => exact,
      count,
    ),
    ...drawnCasesOf(
      "all",
      reductions(arrays, (x, dims, keepDims) => x.all(dims, { keepDims })),
      () => exact,
      count,
    ),
    ...drawnCasesOf("argMax", places(argMax, arrays), () => exact, count),
    ...drawnCasesOf("argMax of few values", places(argMax, ordinaryArrays), () => exact, count),
    ...drawnCasesOf("argMin", places(argMin, arrays), () => exact, count),
    ...drawnCasesOf("argMin of few values", places(argMin, ordinaryArrays), () => exact, count),
  ];
}
