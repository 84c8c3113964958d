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
const whole = (shape: readonly number[], seed: number, dtype: "bfloat16" | "float32" = "bfloat16"): HostArray => {
  const values = Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => ((i * 7 + seed) % 9) - 4);
  return hostArray(shape, dtype, encodeArray(dtype, values));
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
    const available = (await probeOneDnn(defaultClient())).bfloat16;
    expect(stablehlo.includes("__onednn$matmul")).toBe(called && available);
    const got = await fetchAndFree(compiled(left, right));
    compiled.dispose();
    expect(toValues(got).data).toEqual(toValues(interpret(product, left, right)).data);
  });

  it.each([
    { name: "rows by rows", a: [256, 256], b: [256, 256], contract: [[1], [1]], batch: [[], []], called: true },
    { name: "rows by columns", a: [256, 256], b: [256, 256], contract: [[1], [0]], batch: [[], []], called: true },
    { name: "a weight gradient", a: [1024, 128], b: [1024, 128], contract: [[0], [0]], batch: [[], []], called: true },
    { name: "batches", a: [8, 128, 128], b: [8, 128, 128], contract: [[1], [1]], batch: [[0], [0]], called: true },
    { name: "small ones", a: [64, 64], b: [64, 64], contract: [[1], [0]], batch: [[], []], called: false },
  ] as const)("of float32 operands: $name", async ({ a, b, contract, batch, called }) => {
    const product = (a: Tensor, b: Tensor) => dot(a, b, { contract, batch });
    const [left, right] = [whole(a, 1, "float32"), whole(b, 2, "float32")];
    const compiled = jit(product);
    const { stablehlo } = await compiled.lower(left, right);
    const available = (await probeOneDnn(defaultClient())).float32;
    expect(stablehlo.includes("__onednn$matmul")).toBe(called && available);
    const got = await fetchAndFree(compiled(left, right));
    compiled.dispose();
    expect(toValues(got).data).toEqual(toValues(interpret(product, left, right)).data);
  });
});
