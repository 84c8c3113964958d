/** Cases of calls: of the plugin's own functions, and of named functions that bring their decomposition. */
import fc from "fast-check";
import { composite } from "../../../src/autodiff/index.ts";
import { encodeArray } from "../../../src/core/codecs.ts";
import {
  customCall,
  type DType,
  hostArray,
  iota,
  scatterUpdate,
  spec,
  type Tensor,
  toValues,
  zeros,
} from "../../../src/core/index.ts";
import { exact } from "./compare.ts";
import { drawnCasesOf, type OpCase } from "./opCase.ts";
import { arrays, hostOf, shapes } from "./values.ts";

type Unlabelled = Pick<OpCase, "f" | "inputs">;

/** The k largest of each row, as the plugin's function of that name gives them where no two are equal. */
export function largest(x: Tensor, k: number): readonly Tensor[] {
  const [numRows, width] = x.shape as [number, number];
  const outputs = [spec([numRows, k], x.dtype), spec([numRows, k], "int32")];
  return customCall("TopK", [x], outputs, {
    interpret: ([rows]) => {
      const { data } = toValues(rows!);
      const order = Array.from({ length: numRows }, (_, i) =>
        Array.from({ length: width }, (_, j) => j)
          .sort((a, b) => data[i * width + b]! - data[i * width + a]!)
          .slice(0, k),
      );
      const values = order.flatMap((row, i) => row.map((j) => data[i * width + j]!));
      return [hostOf(x.dtype, outputs[0]!.shape, values), hostOf("int32", outputs[1]!.shape, order.flat())];
    },
    vjp: ({ inputs: [x], outputs: [, places], cts: [ct] }) => [
      scatterUpdate(zeros(x!.shape, x!.dtype), [iota([numRows, 1], 0, "int32"), places!], ct!),
    ],
  });
}

const distinctRows = (dtype: DType): fc.Arbitrary<Unlabelled> =>
  fc.record({ rows: fc.integer({ min: 1, max: 3 }), width: fc.integer({ min: 4, max: 9 }) }).chain(({ rows, width }) =>
    fc
      .shuffledSubarray(
        Array.from({ length: rows * width }, (_, i) => i / 4 - 3),
        { minLength: rows * width },
      )
      .map((list) => ({
        inputs: [
          dtype === "float32"
            ? hostArray([rows, width], dtype, encodeArray(dtype, list))
            : hostOf(dtype, [0, width], []),
        ],
        f: (x: Tensor) => {
          const [values, indices] = largest(x.mul(1), 3) as [Tensor, Tensor];
          return values.add(indices.astype("float32").mul(100));
        },
      })),
  );

/** Reads a Tensor from outside, and one inside another. */
const composites = (dtype: DType): fc.Arbitrary<Unlabelled> =>
  shapes({ maxRank: 2 }).chain((shape) =>
    fc.tuple(arrays(dtype, shape), arrays(dtype, shape)).map((inputs) => ({
      inputs,
      f: (...[x, y]: Tensor[]) => {
        const outside = y!.neg();
        const inner = composite("test.inner", (t: Tensor) => t.abs());
        const outer = composite("test.outer", ({ t }: { t: Tensor }) => [inner(t).max(outside)], {
          eps: 1e-5,
          axis: 1,
          ok: true,
          text: 'a "b"',
        });
        return outer({ t: x! })[0]!;
      },
    })),
  );

export function callCases(count = 2): OpCase[] {
  return [
    ...drawnCasesOf("custom call", distinctRows, () => exact, count).filter(({ label }) => label.endsWith(" float32")),
    ...drawnCasesOf("composite", composites, () => exact, count),
  ];
}
