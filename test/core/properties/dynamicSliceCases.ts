/** Cases of windows at places known only when running, some of which reach outside. */
import fc from "fast-check";
import {
  type DType,
  dynamicSlice,
  dynamicUpdateSlice,
  type HostArray,
  type Shape,
  type Tensor,
} from "../../../src/core/index.ts";
import { bits } from "./compare.ts";
import { indices } from "./gatherCases.ts";
import { drawnCasesOf, type OpCase } from "./opCase.ts";
import { arrays, shapes } from "./values.ts";

interface Window {
  readonly shape: Shape;
  readonly sizes: Shape;
  readonly starts: readonly HostArray[];
}

const listOf = <T>(list: readonly fc.Arbitrary<T>[]) => fc.tuple(...list) as fc.Arbitrary<T[]>;

const windows: fc.Arbitrary<Window> = shapes({ maxRank: 3 }).chain((shape) =>
  fc
    .record({ sizes: listOf(shape.map((n) => fc.nat(n))), starts: listOf(shape.map((n) => indices([], n))) })
    .map(({ sizes, starts }) => ({ shape, sizes, starts })),
);

const slices = (dtype: DType): fc.Arbitrary<Pick<OpCase, "f" | "inputs">> =>
  windows.chain(({ shape, sizes, starts }) =>
    arrays(dtype, shape).map((x) => ({
      inputs: [x, ...starts],
      f: (...[x, ...at]: Tensor[]) => dynamicSlice(x!, at, sizes),
    })),
  );

/** The first start is a number. */
const updates = (dtype: DType): fc.Arbitrary<Pick<OpCase, "f" | "inputs">> =>
  windows.chain(({ shape, sizes, starts }) =>
    fc.tuple(arrays(dtype, shape), arrays(dtype, sizes)).map(([x, update]) => ({
      inputs: [x, update, ...starts],
      f: (...[x, update, ...at]: Tensor[]) => dynamicUpdateSlice(x!, update!, at.length > 0 ? [1, ...at.slice(1)] : []),
    })),
  );

export function dynamicSliceCases(count = 3): OpCase[] {
  return [
    ...drawnCasesOf("dynamicSlice", slices, () => bits, count),
    ...drawnCasesOf("dynamicUpdateSlice", updates, () => bits, count),
  ];
}
