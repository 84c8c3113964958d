/** Cases of reading and adding rows by index, with indices outside the table among them. */
import fc from "fast-check";
import {
  type DType,
  dtypeInfo,
  dtypes,
  type HostArray,
  isInteger,
  oneHot,
  type Shape,
  scatterAdd,
  sizeOf,
  type Tensor,
  take,
  takeAlong,
} from "../../../src/core/index.ts";
import { bits, exact, exactButZeros, sums } from "./compare.ts";
import { drawnCasesOf, type OpCase } from "./opCase.ts";
import { arrays, hostOf, integerRange, ordinaryArrays, shapes } from "./values.ts";

type Unlabelled = Pick<OpCase, "f" | "inputs">;

const indexDtypes = dtypes.filter((dtype) => isInteger(dtype) && dtypeInfo(dtype).bits >= 8);

/** Indices around the rows, and the limits of their dtype. */
export function indices(shape: Shape, rows: number): fc.Arbitrary<HostArray> {
  return fc.constantFrom(...indexDtypes).chain((dtype) => {
    const { min, max } = integerRange(dtype);
    const near = fc.integer({ min: Math.max(min, -2), max: Math.min(rows + 1, max) });
    const size = sizeOf(shape);
    return fc
      .array(fc.oneof({ weight: 9, arbitrary: near }, fc.constantFrom(min, max)), { minLength: size, maxLength: size })
      .map((list) => hostOf(dtype, shape, list));
  });
}

/** More rows than an int8 can count, at times. */
const rowCounts = fc.oneof(fc.integer({ min: 1, max: 4 }), fc.constant(300));

const takes = (dtype: DType): fc.Arbitrary<Unlabelled> =>
  fc
    .record({ rows: rowCounts, row: shapes({ maxRank: 2 }), at: shapes({ maxRank: 2 }) })
    .chain(({ rows, row, at }) => fc.tuple(arrays(dtype, [rows, ...row]), indices(at, rows)))
    .map((inputs) => ({ inputs, f: (...[table, ids]: Tensor[]) => take(table!, ids!) }));

const scatters = (dtype: DType): fc.Arbitrary<Unlabelled> =>
  fc
    .record({ rows: rowCounts, row: shapes({ maxRank: 2 }), at: shapes({ maxRank: 2 }) })
    .chain(({ rows, row, at }) =>
      fc.tuple(ordinaryArrays(dtype, [rows, ...row]), indices(at, rows), ordinaryArrays(dtype, [...at, ...row])),
    )
    .map((inputs) => ({ inputs, f: (...[target, ids, updates]: Tensor[]) => scatterAdd(target!, ids!, updates!) }));

const picks = (dtype: DType): fc.Arbitrary<Unlabelled> =>
  shapes({ minRank: 1, maxRank: 3 }).chain((shape) =>
    fc.nat(shape.length - 1).chain((dim) =>
      fc.tuple(arrays(dtype, shape), indices(shape.with(dim, 1), shape[dim]!)).map((inputs) => ({
        inputs,
        f: (...[x, ids]: Tensor[]) => takeAlong(x!, ids!, dim),
      })),
    ),
  );

const oneHots = (dtype: DType): fc.Arbitrary<Unlabelled> =>
  shapes({ maxRank: 2 }).chain((shape) =>
    indices(shape, 5).map((ids) => ({ inputs: [ids], f: (t: Tensor) => oneHot(t, 5, dtype) })),
  );

export function gatherCases(count = 5): OpCase[] {
  return [
    ...drawnCasesOf("take", takes, () => bits, count),
    ...drawnCasesOf("scatterAdd", scatters, sums, count),
    ...drawnCasesOf("takeAlong", picks, () => exactButZeros, count),
    ...drawnCasesOf("oneHot", oneHots, () => exact, count),
  ];
}
