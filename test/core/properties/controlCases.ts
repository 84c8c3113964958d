/** Cases of conditions and of loops without a known length: values of every dtype, captured tensors, nesting. */
import fc from "fast-check";
import { cond, scan, whileLoop } from "../../../src/autodiff/index.ts";
import { type DType, hostArray, type Tensor, where } from "../../../src/core/index.ts";
import { bits, exact } from "./compare.ts";
import { drawnCasesOf, type OpCase } from "./opCase.ts";
import { arrays, shapes } from "./values.ts";

type Drawn = fc.Arbitrary<Pick<OpCase, "f" | "inputs">>;

const scalar = (value: number) => hostArray([], "int32", Int32Array.of(value));

/** One of two arrays, or of what the other branch reads from outside. */
const choice = (dtype: DType): Drawn =>
  fc.record({ shape: shapes({ maxRank: 2 }), chosen: fc.nat(2) }).chain(({ shape, chosen }) =>
    fc.tuple(arrays(dtype, shape), arrays(dtype, shape)).map(([x, y]) => ({
      inputs: [scalar(chosen), x, y],
      f: (...[n, x, y]: Tensor[]) =>
        cond(
          n!.eq(0),
          (a: Tensor) => a,
          (a: Tensor) =>
            cond(
              n!.eq(1),
              () => y!,
              () => where(a.lt(y!), a, y!),
            ),
          x!,
        ),
    })),
  );

/** The larger of both halves of the steps: `steps` times a condition in a loop in a loop, perhaps never. */
const countdown = (dtype: DType): Drawn =>
  fc.record({ shape: shapes({ maxRank: 2 }), steps: fc.nat(4) }).chain(({ shape, steps }) =>
    fc.tuple(arrays(dtype, shape), arrays(dtype, [2, ...shape])).map(([x, floors]) => ({
      inputs: [scalar(steps), x, floors],
      f: (...[steps, x, floors]: Tensor[]) =>
        scan(
          (carry: Tensor, floor: Tensor) => {
            const { state } = whileLoop(
              ({ left }) => left.gt(0),
              ({ left, state }) => ({
                left: left.sub(1),
                state: cond(
                  left.rem(2).eq(0),
                  () => where(state.lt(floor), floor, state),
                  () => state,
                ),
              }),
              { left: steps!, state: carry },
            );
            return { carry: state, y: null };
          },
          x!,
          floors!,
        ).carry,
    })),
  );

export function controlCases(count = 2): OpCase[] {
  return [
    ...drawnCasesOf("cond", choice, () => bits, count),
    ...drawnCasesOf("whileLoop", countdown, () => exact, count),
  ];
}
