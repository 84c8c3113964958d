/** Cases of loops: running values of every dtype, in both directions, with captured tensors and without steps. */
import fc from "fast-check";
import { scan } from "../../../src/autodiff/index.ts";
import { type DType, stack, type Tensor, where } from "../../../src/core/index.ts";
import { exact } from "./compare.ts";
import { drawnCasesOf, type OpCase } from "./opCase.ts";
import { arrays, shapes } from "./values.ts";

/** The larger of carry and slice at each step, from a captured start; stacked with the slice that came in. */
const runningMaximum = (dtype: DType): fc.Arbitrary<Pick<OpCase, "f" | "inputs">> =>
  fc
    .record({
      shape: shapes({ maxRank: 2 }),
      steps: fc.nat(6),
      reverse: fc.boolean(),
      unroll: fc.integer({ min: 1, max: 7 }),
    })
    .chain(({ shape, steps, reverse, unroll }) =>
      fc.tuple(arrays(dtype, shape), arrays(dtype, [steps, ...shape]), arrays(dtype, shape)).map((inputs) => ({
        inputs,
        f: (...[init, xs, floor]: Tensor[]) => {
          const { carry, ys } = scan(
            (c: Tensor, x: Tensor) => {
              const next = where(c.lt(x), x, c);
              return { carry: next, y: stack([where(next.lt(floor!), floor!, next), x], 0) };
            },
            init!,
            xs!,
            { reverse, unroll },
          );
          return steps === 0 ? carry : ys;
        },
      })),
    );

export function scanCases(count = 2): OpCase[] {
  return drawnCasesOf("scan", runningMaximum, () => exact, count);
}
