import { describe, expect, it } from "vitest";
import { vjp } from "../../src/autodiff/index.ts";
import { encodeArray } from "../../src/core/codecs.ts";
import {
  dot,
  full,
  type HostArray,
  hostArray,
  interpret,
  iota,
  type Tensor,
  toValues,
  treeLeaves,
  where,
} from "../../src/core/index.ts";
import { jit } from "../../src/jit/index.ts";
import {
  type AttentionInputs,
  causalAttention,
  crossEntropy,
  rmsNorm,
  rope,
  ropeTables,
  swiglu,
} from "../../src/nn/index.ts";
import { fetchAndFree } from "../fetchAndFree.ts";

type FloatName = "float32" | "bfloat16";

function random(shape: readonly number[], dtype: FloatName, seed: number): HostArray {
  const values = Float32Array.from(
    { length: shape.reduce((a, b) => a * b, 1) },
    (_, i) => Math.sin(seed + i * i * 0.37) * 1.5,
  );
  return hostArray(shape, dtype, encodeArray(dtype, values));
}

/** Value and cotangents of f at `args`, under a fixed cotangent. */
const withGradient =
  (f: (...args: Tensor[]) => Tensor) =>
  (ct: Tensor, ...args: Tensor[]) => {
    const { out, pullback } = vjp(f, ...args);
    return [out, ...pullback(ct)];
  };

/** Largest difference of each pair, relative to the largest value of the second. */
function differences(got: readonly HostArray[], wanted: readonly HostArray[]): number[] {
  return wanted.map((array, i) => {
    const [a, b] = [toValues(got[i]!).data, toValues(array).data];
    let [worst, scale] = [0, 1e-30];
    for (let j = 0; j < b.length; j++) {
      worst = Math.max(worst, Math.abs(a[j]! - b[j]!));
      scale = Math.max(scale, Math.abs(b[j]!));
    }
    return worst / scale;
  });
}

/** Compiled against interpreted: sums in another order, then at most one rounding that falls the other way. */
async function agrees(
  f: (...args: Tensor[]) => Tensor,
  ct: HostArray,
  args: readonly HostArray[],
  dtype: FloatName,
): Promise<void> {
  const g = withGradient(f) as (...args: unknown[]) => Tensor[];
  const compiled = jit(g);
  const got = await fetchAndFree<HostArray[]>(compiled(...([ct, ...args] as never[])));
  compiled.dispose();
  const wanted = treeLeaves<HostArray>(interpret(g, ...([ct, ...args] as never[])));
  for (const difference of differences(got, wanted))
    expect(difference).toBeLessThan(dtype === "float32" ? 1e-5 : 2 ** -7);
}

/** softmax(q kᵀ / √H) v written out, keys repeated for their groups. */
function plainAttention({ q, k, v }: AttentionInputs): Tensor {
  const [B, T, N, H] = q.shape as [number, number, number, number];
  const repeat = (x: Tensor) => {
    const K = x.shape[2]!;
    return x
      .expandDims(3)
      .broadcastTo([B, T, K, N / K, H])
      .reshape([B, T, N, H]);
  };
  const byHead = (x: Tensor) => x.transpose([0, 2, 1, 3]);
  const scores = dot(byHead(q), byHead(repeat(k)), {
    contract: [[3], [3]],
    batch: [
      [0, 1],
      [0, 1],
    ],
    out: "float32",
  }).mul(1 / Math.sqrt(H));
  const masked = where(iota([T, T], 1, "int32").le(iota([T, T], 0, "int32")), scores, -1e30);
  const weights = masked.sub(masked.maxOver(3, { keepDims: true })).exp();
  const normal = weights.div(weights.sum(3, { keepDims: true })).astype(v.dtype);
  return byHead(
    dot(normal, byHead(repeat(v)), {
      contract: [[3], [2]],
      batch: [
        [0, 1],
        [0, 1],
      ],
    }),
  );
}

describe.each(["float32", "bfloat16"] as const)(
  "layers in %s, compiled against interpreted, with gradients",
  (dtype) => {
    const x = random([24, 48], dtype, 1);
    it("RMSNorm", () =>
      agrees((x, w) => rmsNorm(x!, w!, 1e-5), random([24, 48], dtype, 2), [x, random([48], "float32", 3)], dtype));
    it("SwiGLU", () =>
      agrees((a, b) => swiglu(a!, b!), random([24, 48], dtype, 2), [x, random([24, 48], dtype, 5)], dtype));
    it("rotary positions", () => {
      const tables = () => ropeTables(12, { headDim: 8, theta: 1e4 });
      return agrees(
        (x) => rope(x!, tables()),
        random([2, 12, 3, 8], dtype, 6),
        [random([2, 12, 3, 8], dtype, 7)],
        dtype,
      );
    });

    // Blocks that do not divide the length, heads that do not divide into parts, groups of 1 and more, inexact scales.
    it.each([
      { B: 1, T: 19, N: 4, K: 2, H: 16, rows: 8, heads: 16 },
      { B: 2, T: 16, N: 6, K: 2, H: 8, rows: 16, heads: 3 },
      { B: 1, T: 7, N: 2, K: 2, H: 12, rows: 128, heads: 1 },
    ])("attention of %o", async ({ B, T, N, K, H, rows, heads }) => {
      const [q, ct] = [random([B, T, N, H], dtype, 1), random([B, T, N, H], dtype, 4)];
      const [k, v] = [random([B, T, K, H], dtype, 2), random([B, T, K, H], dtype, 3)];
      const tiled = (q?: Tensor, k?: Tensor, v?: Tensor) => causalAttention({ q: q!, k: k!, v: v! }, { rows, heads });
      await agrees(tiled, ct, [q, k, v], dtype);
      const run = (f: (...args: Tensor[]) => Tensor) => treeLeaves<HostArray>(interpret(withGradient(f), ct, q, k, v));
      const plain = run((q, k, v) => plainAttention({ q: q!, k: k!, v: v! }));
      for (const difference of differences(run(tiled), plain))
        expect(difference).toBeLessThan(dtype === "float32" ? 1e-5 : 0.03);
    });

    it.each([0, 0.05])("the loss with its head, masked rows and z-loss %d, against one written out", async (zLoss) => {
      const [M, D, V] = [20, 16, 40];
      const [hidden, head] = [random([M, D], dtype, 1), random([V, D], "float32", 2)];
      const targets = hostArray(
        [M],
        "int32",
        Int32Array.from({ length: M }, (_, i) => (i * 11) % V),
      );
      const weights = hostArray(
        [M],
        "float32",
        Float32Array.from({ length: M }, (_, i) => (i % 3 === 0 ? 0 : 1)),
      );
      const fused = (hidden: Tensor, head: Tensor, targets: Tensor, weights: Tensor) =>
        crossEntropy({ hidden, head, targets, weights, zLoss }).lossSum;
      const plain = (hidden: Tensor, head: Tensor, targets: Tensor, weights: Tensor) => {
        const logits = dot(hidden, head.astype(hidden.dtype), { contract: [[1], [1]], out: "float32" });
        const highest = logits.maxOver(1, { keepDims: true });
        const logSumExp = logits.sub(highest).exp().sum(1, { keepDims: true }).log().add(highest);
        const isTarget = iota(logits.shape, 1, "int32").eq(targets.expandDims(1));
        const nll = where(isTarget, logSumExp.sub(logits), 0).sum(1);
        const squares = logSumExp.mul(logSumExp).sum(1).mul(zLoss);
        return nll.add(squares).mul(weights).sum();
      };
      const gradients = (f: typeof fused) => (hidden: Tensor, head: Tensor, targets: Tensor, weights: Tensor) => {
        const { out, pullback } = vjp(
          (hidden: Tensor, head: Tensor) => f(hidden, head, targets, weights),
          hidden,
          head,
        );
        return [out, ...pullback(full([], 0.25, "float32"))];
      };
      const interpreted = (f: typeof fused) =>
        treeLeaves<HostArray>(interpret(gradients(f), hidden, head, targets, weights));
      const compiled = jit(gradients(fused));
      const got = await fetchAndFree<HostArray[]>(compiled(hidden, head, targets, weights));
      compiled.dispose();
      const limit = dtype === "float32" ? 1e-5 : 0.02;
      for (const difference of differences(got, interpreted(fused))) expect(difference).toBeLessThan(limit);
      for (const difference of differences(got, interpreted(plain))) expect(difference).toBeLessThan(limit);
    });
  },
);
