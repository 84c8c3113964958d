/** Cases of the contraction: any batch, free and contracted dims in any order, over every dtype and result dtype. */
import fc from "fast-check";
import { type DType, dot, type Shape, type Tensor } from "../../../src/core/index.ts";
import { sums } from "./compare.ts";
import { drawnCasesOf, type OpCase } from "./opCase.ts";
import { arrays, ordinaryArrays } from "./values.ts";

type Unlabelled = Pick<OpCase, "f" | "inputs">;

const sizes = (max: number) =>
  fc.array(
    fc.integer({ min: 0, max: 4 }).map((n) => (n === 0 ? 1 : n)),
    { maxLength: max },
  );

/** An operand's dims by role, and the order they lie in. */
function layout(
  batch: Shape,
  contract: Shape,
  free: Shape,
): fc.Arbitrary<{ shape: Shape; batch: number[]; contract: number[] }> {
  const dims = [...batch, ...contract, ...free];
  return fc
    .shuffledSubarray(
      dims.map((_, i) => i),
      { minLength: dims.length },
    )
    .map((order) => ({
      shape: order.map((i) => dims[i]!),
      batch: batch.map((_, i) => order.indexOf(i)),
      contract: contract.map((_, i) => order.indexOf(batch.length + i)),
    }));
}

const contractions =
  (out?: DType) =>
  (dtype: DType): fc.Arbitrary<Unlabelled> =>
    fc
      .record({ batch: sizes(2), contract: sizes(2), freeA: sizes(2), freeB: sizes(1) })
      .chain(({ batch, contract, freeA, freeB }) =>
        fc.tuple(layout(batch, contract, freeA), layout(batch, contract, freeB)),
      )
      .chain(([a, b]) =>
        fc.tuple(ordinaryArrays(dtype, a.shape), ordinaryArrays(dtype, b.shape)).map((inputs) => ({
          inputs,
          f: (...[x, y]: Tensor[]) =>
            dot(x!, y!, { contract: [a.contract, b.contract], batch: [a.batch, b.batch], ...(out && { out }) }),
        })),
      );

/** [m, k] × [k, n] of sizes that reach the fast kernels, and with an empty dim. */
const matrices = (m: number, k: number, n: number) => (dtype: DType) =>
  fc
    .tuple(ordinaryArrays(dtype, [m, k]), ordinaryArrays(dtype, [k, n]))
    .map((inputs) => ({ inputs, f: (...[x, y]: Tensor[]) => dot(x!, y!) }));

/** Integers of any size: sums wrap at 32 bits. Refused for floats, whose sums of such numbers are no test. */
const wrapping = (dtype: DType) =>
  fc.tuple(arrays(dtype, [5, 40]), arrays(dtype, [40, 6])).map((inputs) => ({
    inputs,
    f: (...[x, y]: Tensor[]) => dot(x!.or(0), y!.or(0)),
  }));

export function dotCases(count = 6): OpCase[] {
  return [
    ...drawnCasesOf("dot", contractions(), sums, count),
    ...drawnCasesOf("dot that wraps", wrapping, sums, 1),
    ...drawnCasesOf("dot to float32", contractions("float32"), () => sums("float32"), count),
    ...drawnCasesOf("dot to bfloat16", contractions("bfloat16"), () => sums("bfloat16"), count),
    ...drawnCasesOf("dot 33x65x17", matrices(33, 65, 17), sums, 1),
    ...drawnCasesOf("dot 3x0x2", matrices(3, 0, 2), sums, 1),
    ...drawnCasesOf("dot 0x3x2", matrices(0, 3, 2), sums, 1),
  ];
}
