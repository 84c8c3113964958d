/** Contractions under XLA's partitioner: right on every layout, and computed from pieces that stay where they are. */
import { describe, expect, it } from "vitest";
import { valueAndGrad } from "../../src/autodiff/index.ts";
import { encodeArray } from "../../src/core/codecs.ts";
import {
  type DotOptions,
  dot,
  hostArray,
  interpret,
  type Shape,
  sizeOf,
  spec,
  type Tensor,
} from "../../src/core/index.ts";
import { jit } from "../../src/jit/index.ts";
import { mesh, type Partition, partition, replicated, shardMap } from "../../src/sharding/index.ts";
import { fetchAndFree } from "../fetchAndFree.ts";
import { clientOf, collectivesIn } from "./devices.ts";

const client = clientOf(2);
const two = mesh({ data: 2 });

/** Small whole numbers: every product and sum is exact, so all forms agree to the bit. */
const whole = (shape: Shape, seed: number) =>
  hostArray(
    shape,
    "bfloat16",
    encodeArray(
      "bfloat16",
      Float32Array.from({ length: sizeOf(shape) }, (_, i) => ((i * 7 + seed) % 9) - 4),
    ),
  );

const first: DotOptions = { contract: [[0], [0]], out: "float32" };
const batched: DotOptions = { contract: [[1], [1]], batch: [[0], [0]], out: "float32" };

it.each([
  ["a weight gradient, tokens split", [64, 24], [64, 32], first, [partition("data"), partition("data")], true],
  ["a weight gradient, features split", [64, 24], [64, 32], first, [partition(null, "data"), replicated], true],
  [
    "a weight gradient of few tokens for a tile",
    [24, 24],
    [24, 32],
    first,
    [partition("data"), partition("data")],
    false,
  ],
  ["heads, batch split", [4, 32, 16], [4, 32, 16], batched, [partition("data"), partition("data")], true],
  ["a product", [64, 32], [32, 24], {}, [partition("data"), replicated], false],
] as const)("%s", async (_, a, b, options, inShardings, moved) => {
  const product = (x: Tensor, y: Tensor) => dot(x, y, options);
  const compiled = jit(product, { client, mesh: two, inShardings });
  const [x, y] = [whole(a, 1), whole(b, 2)];
  const { stablehlo } = await compiled.lower(x, y);
  expect(stablehlo).not.toContain("custom_call");
  expect(stablehlo.includes("stablehlo.transpose")).toBe(moved);
  expect(await fetchAndFree(compiled(x, y))).toEqual(interpret(product, x, y));
  compiled.dispose();
});

describe("what crosses devices", () => {
  const [tokens, dim, hidden] = [256, 64, 96];
  const x = spec([tokens, dim], "bfloat16");
  const w = spec([hidden, dim], "float32");
  const loss = (w: Tensor, x: Tensor) => {
    const y = dot(x, w.astype("bfloat16"), { contract: [[1], [1]] });
    return dot(y, w.astype("bfloat16"), { contract: [[1], [0]], out: "float32" })
      .tanh()
      .sum();
  };
  const compile = (weights: Partition) =>
    jit(valueAndGrad(loss), {
      client,
      mesh: two,
      inShardings: [weights, partition("data")],
      outShardings: { value: replicated, grad: weights },
    }).compile(w, x);

  it("data parallel: gradients alone, in an all-reduce; no operand is gathered", async () => {
    const executable = await compile(replicated);
    expect(collectivesIn(executable)).toEqual(["all-reduce"]);
    executable.dispose();
  });

  it("fully sharded: weights are gathered beside that, activations are not", async () => {
    const executable = await compile(partition("data"));
    expect(collectivesIn(executable)).toEqual(["all-gather", "all-reduce"]);
    expect(executable.memoryStats().temporaryBytes).toBeLessThan((await alone()).memoryStats().temporaryBytes);
    executable.dispose();
  });

  const alone = () => jit(valueAndGrad(loss), { client: clientOf(1) }).compile(w, x);

  it("inside shardMap a product is a library call on a device's own rows", async () => {
    const f = shardMap((x: Tensor, w: Tensor) => dot(x, w.astype("bfloat16"), { contract: [[1], [1]] }), {
      mesh: two,
      in: [partition("data"), replicated],
      out: partition("data"),
    });
    const executable = await jit(f, {
      client,
      mesh: two,
      inShardings: [partition("data"), replicated],
      outShardings: partition("data"),
    }).compile(x, w);
    expect(collectivesIn(executable)).toEqual([]);
    executable.dispose();
  });
});
