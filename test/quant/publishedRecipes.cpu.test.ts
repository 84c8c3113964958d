/** Published FP4 recipes: each trains, has the error that its paper measures, and is without bias where it says so. */
import { describe, expect, it } from "vitest";
import { grad } from "../../src/autodiff/index.ts";
import { type HostArray, hostArray, type Tensor } from "../../src/core/index.ts";
import {
  bf16,
  dequantize,
  describeGemm,
  type LinearPrecision,
  linear,
  mxfp4RhtSr,
  type QuantizedOperand,
  quantize,
  quartet2,
  recipeByName,
  rotationMatrix,
  streamAt,
  type Word,
} from "../../src/quant/index.ts";
import { compiledFunction, floats, interpreted, normals, numbers } from "./bothWays.ts";
import { threeGemms } from "./threeGemms.ts";

const published = ["nvfp4_4over6", "quartet2", "quartet", "tetrajet2", "mxfp4_rht_sr", "ufp4", "llm_fp4"] as const;

describe.each(published)("%s", (name) => {
  const { precision, notes } = recipeByName(name);

  it("says where it comes from", () => expect(notes[0]).toMatch(/^arXiv \d{4}\.\d{5}/));

  it("trains: the loss of a small regression is finite and falls", async () => {
    const next = normals(7);
    const [x, target, w0] = [
      floats([64, 48], "bfloat16", next),
      floats([64, 32], "float32", () => 0.3 * next()),
      floats([32, 48], "float32", () => 0.1 * next()),
    ];
    const loss = (w: Tensor, x: Tensor, target: Tensor, step: Word) => {
      const random = { seed: 1, step, microBatch: 0 };
      const off = linear(x, w, { module: "mlp.up", layer: 0, precision, random }).astype("float32").sub(target);
      return off.mul(off).mean();
    };
    const train = compiledFunction((w: Tensor, x: Tensor, target: Tensor, step: Tensor) => [
      w.sub(grad((w: Tensor) => loss(w, x, target, step))(w).mul(4)),
      loss(w, x, target, step),
    ]);
    let w = w0;
    const losses: number[] = [];
    for (let step = 0; step < 12; step++) {
      const [after, value] = await train(w, x, target, hostArray([], "uint32", Uint32Array.of(step)));
      w = after!;
      losses.push(numbers(value!)[0]!);
    }
    expect(losses.every(Number.isFinite)).toBe(true);
    expect(losses.at(-1)!).toBeLessThan(0.6 * losses[0]!);
  });
});

describe("the switches", () => {
  it("change what they say", () => {
    const { dgrad, wgrad, fprop } = quartet2();
    expect(describeGemm(fprop)).toBe("e2m1 1x16 × e2m1 1x16");
    expect(describeGemm(dgrad)).toBe(
      "e2m1 1x16 gain 0.9881 bound 255.99 eden × e2m1 1x16 gain 0.9881 bound 255.99 eden of fprop's values, rotated by 128 with fresh signs of the layer",
    );
    expect(dgrad.rotation).toEqual(wgrad.rotation);
    expect(recipeByName("quartet2", { rotationSize: 32 }).precision).toEqual(quartet2({ rotationSize: 32 }));
    expect(describeGemm(mxfp4RhtSr({ rotationSigns: "none" }).wgrad)).toBe(
      "e2m1 1x32 floor gain 1.3333 stochastic × e2m1 1x32 floor gain 1.3333 stochastic, rotated by 64 without signs",
    );
  });
});

/** Σ(x̂ − x)² / Σx² of normal numbers. */
function relativeError(operand: QuantizedOperand, size?: 128): number {
  const next = normals(11);
  const x = floats([256, 1024], "bfloat16", next);
  const place = { module: "mlp.up", layer: 1, gemm: "dgrad" } as const;
  const stream = (of: "left" | "signs") => streamAt({ seed: 1, step: 2, microBatch: 0 }, { ...place, operand: of });
  const f = (x: Tensor) => {
    const quantized = quantize(x, operand, {
      axis: "row",
      draws: stream("left"),
      ...(size && { rotation: rotationMatrix({ size, signs: "fresh" }, stream("signs")) }),
    });
    const source = quantized.source.astype("float32");
    const off = dequantize(quantized, operand).sub(source);
    return [off.mul(off).sum(), source.mul(source).sum()];
  };
  const [noise, signal] = interpreted(f, x).map((leaf) => numbers(leaf)[0]!);
  return noise! / signal!;
}

describe("the squared error of normal numbers, in thousandths of the signal", () => {
  const nv = { type: "e4m3", outer: "tensor" } as const;
  const nearest = { element: "e2m1", rounding: "nearest", block: "1x16", scale: nv } as const;
  const gain = (17 / 16) * 0.93;
  // Quartet II's measurements.
  it.each<[string, QuantizedOperand, 128 | undefined, number]>([
    ["nearest in 1×16", nearest, undefined, 9.0],
    ["by four over six", { ...nearest, scale: { ...nv, bound: 256, fourOverSix: "mse" } }, undefined, 7.6],
    ["nearest in 16×16", { ...nearest, block: "16x16" }, undefined, 12.4],
    [
      "stochastic with gain 17/16, rotated",
      { ...nearest, rounding: "stochastic", scale: { ...nv, gain: 17 / 16 } },
      128,
      23.5,
    ],
    ["EDEN, rotated", { ...nearest, rounding: "eden", scale: { ...nv, gain, bound: 255.99 } }, 128, 9.8],
  ])("%s", (_, operand, size, expected) => {
    expect(Math.abs(1000 * relativeError(operand, size) - expected)).toBeLessThan(0.02 * expected);
  });
});

describe("the mean of n gradients", () => {
  const next = normals(5);
  const [x, w, dy] = [
    floats([128, 128], "float32", next),
    floats([96, 128], "float32", next),
    floats([128, 96], "float32", next),
  ];
  const exact = interpreted(threeGemms(bf16), x, w, dy).map(numbers);

  /** Squared distance of the mean from the exact gradients dx and dW, after 1 and after n draws. */
  async function errors(precision: LinearPrecision, n: number): Promise<[number, number]> {
    const f = compiledFunction((x: Tensor, w: Tensor, dy: Tensor, step: Tensor) =>
      threeGemms(precision, { seed: 9, step, microBatch: 0 })(x, w, dy),
    );
    const sums = [1, 2].map((i) => new Float64Array(exact[i]!.length));
    const distance = (count: number) =>
      sums.reduce((total, sum, g) => total + sum.reduce((d, v, i) => d + (v / count - exact[g + 1]![i]!) ** 2, 0), 0);
    let first = 0;
    for (let step = 0; step < n; step++) {
      const results = await f(x, w, dy, hostArray([], "uint32", Uint32Array.of(step)));
      sums.forEach((sum, g) => numbers(results[g + 1] as HostArray).forEach((v, i) => (sum[i]! += v)));
      first += distance(step + 1) * (step === 0 ? 1 : 0);
    }
    return [first, distance(n)];
  }

  const valueAlone = (precision: LinearPrecision): LinearPrecision => {
    const { left, rotation } = precision.dgrad as Extract<LinearPrecision["dgrad"], { rotation: { signs: "fresh" } }>;
    const gemm = { rotation, left, right: left } as LinearPrecision["dgrad"];
    return { fprop: bf16.fprop, dgrad: gemm, wgrad: gemm };
  };
  const n = 64;

  it.each<[string, LinearPrecision]>([
    ["EDEN", valueAlone(quartet2())],
    ["stochastic rounding with gain 17/16", valueAlone(quartet2({ stochasticRounding: true }))],
    ["MXFP4 with gain 4/3", mxfp4RhtSr()],
  ])("falls as 1/n: %s", async (_, precision) => {
    const [first, last] = await errors(precision, n);
    expect((last * n) / first).toBeGreaterThan(0.75);
    expect((last * n) / first).toBeLessThan(1.3);
  });

  it("stays where four over six chooses by what was drawn", async () => {
    const scale = { type: "e4m3", outer: "tensor", bound: 256, fourOverSix: "mse" } as const;
    const operand = { element: "e2m1", rounding: "stochastic", block: "1x16", scale } as const;
    // Without rotation: fresh signs would make part of the bias a matter of chance too.
    const gemm = { rotation: "none", left: operand, right: operand } as const;
    const [first, last] = await errors({ fprop: bf16.fprop, dgrad: gemm, wgrad: gemm }, 256);
    expect((last * 256) / first).toBeGreaterThan(1.8);
  });
});
