/** `linear`: its three GEMMs against golden data, its derivative in both evaluators, what it refuses. */
import { describe, expect, it } from "vitest";
import { grad, remat, scan } from "../../src/autodiff/index.ts";
import { type HostArray, hostArray, iota, type Tensor, trace } from "../../src/core/index.ts";
import {
  bf16,
  fp8BlockScaling,
  fp8CurrentScaling,
  type LinearPrecision,
  linear,
  mxfp4,
  mxfp8,
  nvfp4,
  type RandomKey,
  type Word,
} from "../../src/quant/index.ts";
import { golden } from "../golden.ts";
import { compiled, compiledFunction, floats, interpreted, normals, numbers, relativeToMax } from "./bothWays.ts";
import { asFloat32, threeGemms } from "./threeGemms.ts";

const gemms = await golden("05_qgemm/gemm_M64_K128_N96");
const [x, w, dy] = ["x", "w", "dy"].map((name) => gemms.get(name)) as [HostArray, HostArray, HostArray];

describe("linear in both evaluators", () => {
  const random: RandomKey = { seed: 5, step: 7, microBatch: 1 };
  const next = normals(1);
  // No dim is a multiple of 16: rows, columns and tokens are padded.
  const ragged = [
    floats([21, 40], "bfloat16", next),
    floats([24, 40], "float32", next),
    floats([21, 24], "bfloat16", next),
  ];
  const rows = {
    element: "e2m1",
    block: "1x16",
    scale: { type: "e4m3", outer: "tensor" },
    rounding: "nearest",
  } as const;
  const again = { ...rows, source: "fprop", rounding: "stochastic" } as const;
  const fresh = { size: 128, signs: "fresh" } as const;
  const requantized: LinearPrecision = {
    fprop: { rotation: "none", left: rows, right: rows },
    dgrad: { rotation: fresh, left: { ...rows, rounding: "stochastic8" }, right: again },
    wgrad: { rotation: { ...fresh, size: 32 }, left: { ...rows, rounding: "stochastic" }, right: again },
  };
  const recipes: [string, LinearPrecision][] = [
    ["bf16", bf16],
    ["nvfp4", nvfp4()],
    ["nvfp4 without rotation", nvfp4({ rht: false })],
    ["nvfp4 without stochastic rounding", nvfp4({ stochasticRounding: false })],
    ["nvfp4 with 1-D weight scales", nvfp4({ weightScaling: "1d" })],
    ["BF16 forward, NVFP4 backward", { ...nvfp4(), fprop: bf16.fprop }],
    ["NVFP4 forward, BF16 backward", { ...bf16, fprop: nvfp4().fprop }],
    ["mxfp4", mxfp4()],
    ["mxfp8", mxfp8()],
    ["fp8_current_scaling", fp8CurrentScaling()],
    ["fp8_block_scaling", fp8BlockScaling()],
    ["FP8 in blocks with float32 scales", fp8BlockScaling({ powerOfTwo: false, hybrid: true })],
    ["row-scaled activations", nvfp4({ rowScaledActivation: true })],
    ["backward from fprop's values, every operand rotated with fresh signs", requantized],
  ];

  it.each(recipes)("%s", async (_, precision) => {
    const f = threeGemms(precision, random);
    const [expected, found] = [interpreted(f, ...ragged), await compiled(f, ...ragged)];
    // The rotated operands may differ by a bfloat16 ulp where a sum lies between two values, and then by a code.
    const bound = (["fprop", "dgrad", "wgrad"] as const).map((gemm) =>
      precision[gemm].rotation !== "none" ? 2e-2 : gemm === "wgrad" ? 1e-5 : 2 ** -8,
    );
    expected.forEach((array, i) => {
      expect(found[i]!.shape).toEqual(array.shape);
      expect(relativeToMax(numbers(found[i]!), numbers(array))).toBeLessThan(bound[i]!);
    });
  });

  it("takes any number of leading dims as tokens", async () => {
    const f = threeGemms(nvfp4({ stochasticRounding: false }));
    const flat = interpreted(f, x, w, dy);
    const split = (array: HostArray) => hostArray([4, 16, array.shape[1]!], array.dtype, array.data);
    const nested = interpreted(f, split(x), w, split(dy));
    expect(nested.map((array) => array.shape)).toEqual([
      [4, 16, 96],
      [4, 16, 128],
      [96, 128],
    ]);
    nested.forEach((array, i) => expect(array.data).toEqual(flat[i]!.data));
  });

  it("computes plainly in float32 where the model does", async () => {
    const args = [x, w, dy].map(asFloat32);
    const [y] = interpreted(threeGemms(bf16), ...args);
    const exact = new Float64Array(64 * 96);
    const [a, b] = [numbers(x), numbers(w)];
    for (let i = 0; i < 64; i++)
      for (let j = 0; j < 96; j++)
        for (let k = 0; k < 128; k++) exact[i * 96 + j]! += a[i * 128 + k]! * b[j * 128 + k]!;
    expect(relativeToMax(numbers(y!), exact)).toBeLessThan(1e-6);
  });
});

describe("the emulated product", () => {
  it("applies the tensor scales one after the other, since their product underflows", async () => {
    // A_x·A_w/2688² is about 1e-42, below float32's normal numbers, while y is about 1e-33.
    const next = normals(3);
    const tiny = [floats([16, 64], "float32", () => next() * 1e-16), floats([32, 64], "float32", () => next() * 1e-19)];
    const f = (x: Tensor, w: Tensor) =>
      linear(x, w, { module: "mlp.up", layer: 0, precision: nvfp4({ stochasticRounding: false }) });
    const scaleBack = (values: ArrayLike<number>) => Array.from(values, (v) => v * 1e35);
    const unit = [
      floats([16, 64], "float32", (i) => numbers(tiny[0]!)[i]! * 1e16),
      floats([32, 64], "float32", (i) => numbers(tiny[1]!)[i]! * 1e19),
    ];
    const [reference] = interpreted(f, ...unit);
    for (const [found] of [interpreted(f, ...tiny), await compiled(f, ...tiny)]) {
      expect(relativeToMax(scaleBack(numbers(found!)), numbers(reference!))).toBeLessThan(1e-2);
    }
  });

  it("lets a NaN or an infinity through to y, dx and dW", async () => {
    const f = threeGemms(nvfp4({ stochasticRounding: false }));
    const runCompiled = compiledFunction(f);
    for (const bad of [Number.NaN, Number.POSITIVE_INFINITY]) {
      const poisoned = floats(x.shape, "bfloat16", (i) => (i === 1234 ? bad : numbers(x)[i]!));
      const poisonedDy = floats(dy.shape, "bfloat16", (i) => (i === 777 ? bad : numbers(dy)[i]!));
      for (const run of [async (...a: HostArray[]) => interpreted(f, ...a), runCompiled]) {
        const [y, , dw] = await run(poisoned, w, dy);
        expect(numbers(y!).some((v) => !Number.isFinite(v))).toBe(true);
        expect(numbers(dw!).some((v) => !Number.isFinite(v))).toBe(true);
        const [, dx, dwOfDy] = await run(x, w, poisonedDy);
        expect(numbers(dx!).some((v) => !Number.isFinite(v))).toBe(true);
        expect(numbers(dwOfDy!).some((v) => !Number.isFinite(v))).toBe(true);
      }
    }
  });
});

describe("fresh signs", () => {
  it("differ from step to step and between dgrad and wgrad, and cancel in the product", async () => {
    // Elements of 8 bits, so that the products stay close to the exact ones.
    const e4m3 = { element: "e4m3", block: "1x16", scale: { type: "e8m0", round: "up" }, rounding: "nearest" } as const;
    const gemm = { rotation: { size: 64, signs: "fresh" }, left: e4m3, right: e4m3 } as const;
    const precision: LinearPrecision = { fprop: gemm, dgrad: gemm, wgrad: gemm };
    const at = (step: number) => interpreted(threeGemms(precision, { seed: 1, step, microBatch: 0 }), x, w, dy);
    const exact = interpreted(threeGemms(bf16), x, w, dy);
    const [first, second] = [at(1), at(2)];
    for (const i of [0, 1, 2]) {
      expect(relativeToMax(numbers(first[i]!), numbers(exact[i]!))).toBeLessThan(0.05);
      expect(Array.from(numbers(first[i]!))).not.toEqual(Array.from(numbers(second[i]!)));
    }
    expect(at(1).map(({ data }) => data)).toEqual(first.map(({ data }) => data));
  });
});

describe("linear as a graph", () => {
  const specs = [
    { shape: [32, 64], dtype: "bfloat16" },
    { shape: [48, 64], dtype: "float32" },
    { shape: [32, 48], dtype: "bfloat16" },
  ] as const;
  const names = (precision: LinearPrecision) =>
    trace(threeGemms(precision, { seed: 0, step: 0, microBatch: 0 }), ...specs).eqns;

  it("contracts in the forms that the CPU lowering has fast paths for", () => {
    const forms = names(nvfp4())
      .filter(({ op, params }) => op.name === "dot" && params.batch[0].length === 0)
      .map(({ params }) => params.contract);
    expect(forms).toEqual([
      [[1], [1]],
      [[1], [0]],
      [[0], [0]],
    ]);
  });

  it("quantizes a tiled weight once and names what remat may keep", () => {
    const labels = (precision: LinearPrecision) =>
      names(precision).flatMap(({ op, params }) => (op.name === "checkpoint_name" ? [params.name] : []));
    expect(labels(nvfp4())).toEqual(["linear_input", "quantization", "quantization"]);
    expect(labels(nvfp4({ weightScaling: "1d" }))).toEqual(["linear_input"]);
    const numQuantized = (precision: LinearPrecision) =>
      names(precision).filter(({ op }) => op.name === "round_even").length;
    // Each nearest quantization rounds elements and scales: x, W (and once more without tiles), dy twice, x again.
    expect(numQuantized(nvfp4({ stochasticRounding: false }))).toBe(10);
    expect(numQuantized(nvfp4({ stochasticRounding: false, weightScaling: "1d" }))).toBe(12);
  });

  it("quantizes an input once for all layers that read it", () => {
    const f = (x: Tensor, w: Tensor) =>
      ["attn.q", "attn.k", "attn.v"].map((module) => linear(x, w, { module, layer: 0, precision: nvfp4() }));
    const { eqns } = trace(f, { shape: [2, 16, 64], dtype: "bfloat16" }, { shape: [48, 64], dtype: "float32" });
    // Elements and scales of x once; the tests' one weight is three tensors to the layers, as real ones are.
    expect(eqns.filter(({ op }) => op.name === "round_even").length).toBe(2 + 3 * 2);
  });

  it("draws the same under remat and in a scan over layers as unrolled", () => {
    const random: RandomKey = { seed: 3, step: 11, microBatch: 0 };
    const layerAt = (layer: Word) => (x: Tensor, w: Tensor) =>
      x.add(linear(x, w, { module: "mlp.up", layer, precision: nvfp4(), random }));
    const step = { plain: layerAt, remat: (layer: Word) => remat(layerAt(layer)) };
    const unrolled = (kind: keyof typeof step) => (w: Tensor, x: Tensor) =>
      grad((w: Tensor) =>
        [0, 1]
          .reduce((h, layer) => step[kind](layer)(h, w.at(0, layer)), x)
          .astype("float32")
          .sum(),
      )(w);
    const scanned = (w: Tensor, x: Tensor) =>
      grad((w: Tensor) => {
        const body = (h: Tensor, { w, layer }: { w: Tensor; layer: Tensor }) => ({
          carry: step.plain(layer)(h, w),
          y: null,
        });
        return scan(body, x, { w, layer: iota([2], 0, "uint32") })
          .carry.astype("float32")
          .sum();
      })(w);
    const next = normals(8);
    const args = [floats([2, 32, 32], "float32", next), floats([16, 32], "bfloat16", next)];
    const [plain] = interpreted(unrolled("plain"), ...args);
    expect(numbers(plain!).some((v) => v !== 0)).toBe(true);
    expect(interpreted(unrolled("remat"), ...args)[0]!.data).toEqual(plain!.data);
    expect(interpreted(scanned, ...args)[0]!.data).toEqual(plain!.data);
  });

  it("refuses what does not fit", () => {
    const f = (precision: LinearPrecision) => threeGemms(precision);
    expect(() => trace(f(nvfp4()), ...specs)).toThrow(
      /left operand of dgrad needs random numbers, so the site needs `random`/,
    );
    const site = { module: "mlp.up", layer: 0, precision: bf16 };
    const call = (x: Tensor, w: Tensor) => linear(x, w, site);
    expect(() => trace(call, { shape: [4, 8], dtype: "bfloat16" }, { shape: [4, 9], dtype: "float32" })).toThrow(
      /linear: x is bfloat16\[4,8\], w is float32\[4,9\]/,
    );
    expect(() => trace(call, { shape: [4, 8], dtype: "float32" }, { shape: [4, 8], dtype: "bfloat16" })).toThrow(
      /in float32 or x's dtype/,
    );
  });
});
