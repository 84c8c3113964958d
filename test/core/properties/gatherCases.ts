/** Cases of reading and writing by index, with indices outside among them. */
import fc from "fast-check";
import {
  type DType,
  dtypeInfo,
  dtypes,
  gather,
  type HostArray,
  iota,
  isInteger,
  oneHot,
  type Shape,
  scatterAdd,
  scatterUpdate,
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

/** An array, indices for some of its dims (of shapes that broadcast), and the shape that is read. */
const anywhere = (dtype: DType, values: typeof arrays) =>
  fc
    .record({ shape: shapes({ minRank: 1, maxRank: 4, minDim: 1 }), at: shapes({ maxRank: 2 }) })
    .chain(({ shape, at }) =>
      fc
        .subarray(
          shape.map((_, dim) => dim),
          { minLength: 1 },
        )
        .chain((dims) =>
          fc
            .tuple(...dims.map((dim, i) => indices(i === 0 ? at : at.map((n) => (dim % 2 ? n : 1)), shape[dim]!)))
            .chain((ids) => {
              const first = dims[0]!;
              const whole = shape.map((_, dim) => dim).filter((dim) => !dims.includes(dim));
              const sizes = (list: readonly number[]) => list.map((dim) => shape[dim]!);
              const window = [
                ...sizes(whole.filter((d) => d < first)),
                ...at,
                ...sizes(whole.filter((d) => d > first)),
              ];
              return fc.record({
                x: values(dtype, shape),
                updates: values(dtype, window),
                ids: fc.constant(ids),
                listOf: fc.constant((list: readonly Tensor[]) =>
                  shape.map((_, dim) => (dims.includes(dim) ? list[dims.indexOf(dim)]! : null)),
                ),
              });
            }),
        ),
    );

const gathers =
  (outside: "clamp" | "zero") =>
  (dtype: DType): fc.Arbitrary<Unlabelled> =>
    anywhere(dtype, arrays).map(({ x, ids, listOf }) => ({
      inputs: [x, ...ids],
      f: (...[x, ...list]: Tensor[]) => gather(x!, listOf(list), { outside }),
    }));

const writes =
  (f: typeof scatterAdd, values: typeof arrays) =>
  (dtype: DType): fc.Arbitrary<Unlabelled> =>
    anywhere(dtype, values).map(({ x, updates, ids, listOf }) => ({
      inputs: [x, updates, ...ids],
      f: (...[x, updates, ...list]: Tensor[]) => f(x!, listOf(list), updates!),
    }));

/** One element along the dim, or several. */
const picks = (dtype: DType): fc.Arbitrary<Unlabelled> =>
  fc
    .record({ shape: shapes({ minRank: 1, maxRank: 3, minDim: 1 }), count: fc.constantFrom(1, 1, 3) })
    .chain(({ shape, count }) =>
      fc.nat(shape.length - 1).chain((dim) =>
        fc.tuple(arrays(dtype, shape), indices(shape.with(dim, count), shape[dim]!)).map((inputs) => ({
          inputs,
          f: (...[x, ids]: Tensor[]) => takeAlong(x!, ids!, dim),
        })),
      ),
    );

const oneHots = (dtype: DType): fc.Arbitrary<Unlabelled> =>
  shapes({ maxRank: 2 }).chain((shape) =>
    indices(shape, 5).map((ids) => ({ inputs: [ids], f: (t: Tensor) => oneHot(t, 5, dtype) })),
  );

/** Dims longer than the indices' dtype can count; of its numbers all, or for 16 bits those about the ends. */
function longDimCases(): OpCase[] {
  return (["uint8", "int8", "uint16", "int16"] as const).flatMap((dtype) => {
    const ids = hostOf(dtype, [8], [0, 1, 44, 127, 128, 200, 255, 32768]);
    const size = dtype.endsWith("8") ? 300 : 66_000;
    const row = (type: DType) => iota([1, size], 1, "int32").rem(97).astype(type).broadcastTo([8, size]);
    const uses: Readonly<Record<string, (ids: Tensor) => Tensor>> = {
      oneHot: (list) => oneHot(list, size, "float32").mul(row("float32")).sum(1),
      "oneHot has one 1": (list) => oneHot(list, size, "float32").sum(1),
      takeAlong: (list) => takeAlong(row("float32"), list.expandDims(1), 1),
      "takeAlong of integers": (list) => takeAlong(row("int32"), list.expandDims(1), 1),
      take: (list) => take(row("int32"), list, 1),
    };
    return Object.entries(uses).map(
      ([name, f]): OpCase => ({ label: `${name} at ${dtype}`, inputs: [ids], f: (list) => f(list!), rule: exact }),
    );
  });
}

export function gatherCases(count = 3): OpCase[] {
  return [
    ...drawnCasesOf("take", takes, () => bits, count),
    ...drawnCasesOf("gather", gathers("clamp"), () => bits, count),
    // 0 is written into the program, where it is none of float8_e8m0fnu.
    ...drawnCasesOf("gather or zero", gathers("zero"), () => exact, 2),
    ...drawnCasesOf("scatterAdd of rows", scatters, sums, 2),
    ...drawnCasesOf("scatterAdd", writes(scatterAdd, ordinaryArrays), sums, count),
    ...drawnCasesOf("scatterUpdate", writes(scatterUpdate, arrays), () => bits, count),
    ...drawnCasesOf("takeAlong", picks, () => exactButZeros, count),
    ...drawnCasesOf("oneHot", oneHots, () => exact, count),
    ...longDimCases(),
  ];
}
