/** Cases of random numbers, from keys that are known while tracing and from keys of the program. */
import fc from "fast-check";
import {
  type DType,
  foldIn,
  isFloat,
  normal,
  randomBits,
  randomKey,
  type Tensor,
  uniform,
} from "../../../src/core/index.ts";
import { bits, sums } from "./compare.ts";
import { drawnCasesOf, type OpCase } from "./opCase.ts";
import { ordinaryArrays, shapes } from "./values.ts";

type Unlabelled = Pick<OpCase, "f" | "inputs">;
type Key = ReturnType<typeof randomKey>;
type Shape = Tensor["shape"];

const drawings =
  (f: (key: Key, shape: Shape, dtype: DType) => Tensor) =>
  (dtype: DType): fc.Arbitrary<Unlabelled> =>
    fc
      .record({ shape: shapes({ maxRank: 3 }), word: ordinaryArrays("uint32", []), seed: fc.nat() })
      .map(({ shape, word, seed }) => ({
        inputs: [word],
        f: (step: Tensor) => f(foldIn(randomKey(seed, step), "layer"), [...shape, 3], dtype),
      }));

export function randomCases(count = 2): OpCase[] {
  return [
    ...drawnCasesOf(
      "randomBits",
      drawings((key, shape, dtype) => randomBits(key, shape).bitcast(dtype === "uint32" ? "int32" : dtype)),
      () => bits,
      count,
    ).filter(({ label }) => label.endsWith("uint32")),
    ...drawnCasesOf(
      "uniform",
      drawings((key, shape, dtype) => uniform(key, shape, { dtype })),
      () => bits,
      count,
    ),
    ...drawnCasesOf(
      "uniform within limits",
      drawings((key, shape, dtype) => uniform(key, shape, { dtype, low: -3, high: 0.1 })),
      sums,
      count,
    ),
    ...drawnCasesOf(
      "normal",
      drawings((key, shape, dtype) => normal(key, shape, { dtype, std: 0.5, mean: 0.25 })),
      (dtype) => sums(isFloat(dtype) && dtype === "float64" ? "float32" : dtype),
      count,
    ),
  ];
}
