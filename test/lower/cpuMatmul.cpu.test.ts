import { describe, expect, it } from "vitest";
import { encodeArray } from "../../src/core/codecs.ts";
import {
  type DotOptions,
  dot,
  type HostArray,
  hostArray,
  interpret,
  type Tensor,
  toValues,
} from "../../src/core/index.ts";
import { jit } from "../../src/jit/index.ts";
import { defaultClient, probeOneDnn } from "../../src/pjrt/index.ts";
import { fetchAndFree } from "../fetchAndFree.ts";

/** Small whole numbers: every product and sum is exact, so all forms must agree to the bit. */
const whole = (shape: readonly number[], seed: number): HostArray => {
  const values = Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => ((i * 7 + seed) % 9) - 4);
  return hostArray(shape, "bfloat16", encodeArray("bfloat16", values));
};

interface Case {
  readonly a: readonly number[];
  readonly b: readonly number[];
  readonly options: DotOptions;
  /** Whether the layout is one the call takes. */
  readonly called: boolean;
}

const cases: readonly Case[] = [
  { a: [6, 5], b: [5, 7], options: { contract: [[1], [0]] }, called: true },
  { a: [6, 5], b: [7, 5], options: { contract: [[1], [1]], out: "float32" }, called: true },
  { a: [5, 6], b: [5, 7], options: { contract: [[0], [0]], out: "float32" }, called: true },
  { a: [5, 6], b: [7, 5], options: { contract: [[0], [1]] }, called: true },
  { a: [2, 3, 5], b: [5, 7], options: { contract: [[2], [0]] }, called: true },
  { a: [3, 6, 5], b: [3, 7, 5], options: { contract: [[2], [2]], batch: [[0], [0]], out: "float32" }, called: true },
  { a: [3, 5, 6], b: [3, 5, 7], options: { contract: [[1], [1]], batch: [[0], [0]], out: "float32" }, called: true },
  {
    a: [2, 3, 4, 5],
    b: [2, 3, 5, 4],
    options: {
      contract: [[3], [2]],
      batch: [
        [0, 1],
        [0, 1],
      ],
    },
    called: true,
  },
  {
    a: [2, 3, 5],
    b: [2, 3, 4],
    options: {
      contract: [
        [0, 1],
        [0, 1],
      ],
      out: "float32",
    },
    called: true,
  },
  { a: [6, 3, 5], b: [7, 3, 5], options: { contract: [[2], [2]], batch: [[1], [1]], out: "float32" }, called: false },
  { a: [1, 5], b: [5, 7], options: { contract: [[1], [0]] }, called: false },
  { a: [5], b: [5], options: { contract: [[0], [0]], out: "float32" }, called: false },
];

describe("contractions on a CPU", () => {
  it.each(cases)("$a × $b, $options", async ({ a, b, options, called }) => {
    const product = (a: Tensor, b: Tensor) => dot(a, b, options);
    const [left, right] = [whole(a, 1), whole(b, 2)];
    const compiled = jit(product);
    const { stablehlo } = await compiled.lower(left, right);
    const available = await probeOneDnn(defaultClient());
    expect(stablehlo.includes("__onednn$matmul")).toBe(called && available);
    const got = await fetchAndFree(compiled(left, right));
    compiled.dispose();
    expect(toValues(got).data).toEqual(toValues(interpret(product, left, right)).data);
  });
});
