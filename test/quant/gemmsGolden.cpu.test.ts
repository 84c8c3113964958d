/** The three GEMMs of a layer in every recipe that golden data hold, in both evaluators: to 1e-5 of the largest value. */
import { describe, expect, it } from "vitest";
import type { HostArray, Tensor } from "../../src/core/index.ts";
import {
  bf16,
  fp8BlockScaling,
  fp8CurrentScaling,
  type LinearPrecision,
  linear,
  mxfp4,
  mxfp8,
  nvfp4,
  type OperandSpec,
  type QuantizedOperand,
} from "../../src/quant/index.ts";
import { type Golden, golden } from "../golden.ts";
import { compiled, floats, interpreted, numbers, relativeToMax } from "./bothWays.ts";
import { expectGolden, quantizerUnderTest, transposed } from "./goldenQuantizer.ts";
import { asFloat32, threeGemms } from "./threeGemms.ts";

const results = ["y", "dx", "dw"] as const;

interface Wanted {
  readonly data: Golden;
  /** The results' names begin with it. */
  readonly recipe: string;
  readonly precision: LinearPrecision;
  /** After "y", "dx", "dw": only the first rows are stored. */
  readonly suffix?: string;
  /** dW is compared with bfloat16 inputs, since rotations are rounded to the input's dtype. */
  readonly rotated?: boolean;
}

/** With float32 inputs of bfloat16 values no result is rounded. */
async function expectGemms({ data, recipe, precision, suffix = "", rotated = false }: Wanted): Promise<void> {
  const stored = ["x", "w", "dy"].map((name) => data.get(name));
  const f = threeGemms(precision);
  const check = (found: readonly HostArray[], names: readonly (typeof results)[number][]) => {
    for (const name of names) {
      const wanted = data.values(`${recipe}/${name}${suffix}`);
      const values = numbers(found[results.indexOf(name)]!).subarray(0, wanted.length);
      expect({ name, off: relativeToMax(values, wanted) < 1e-5 }).toEqual({ name, off: true });
    }
  };
  const wide = stored.map(asFloat32);
  const unrotated = rotated ? (["y", "dx"] as const) : results;
  check(interpreted(f, ...wide), unrotated);
  check(await compiled(f, ...wide), unrotated);
  if (!rotated) return;
  const [x, w, dy] = stored as [HostArray, HostArray, HostArray];
  check(interpreted(f, x, asFloat32(w), dy), ["dw"]);
  check(await compiled(f, x, asFloat32(w), dy), ["dw"]);
}

const plain = await golden("05_qgemm/gemm_M64_K128_N96");
const mx = await golden("14_mx_options/gemm");
const blocks = await golden("12_fp8_block/gemm");
const options = await golden("11_nvfp4_options/gemm");
const deterministic = { stochasticRounding: false, weightScaling: "1d", rht: false } as const;

/**
 * Elements of a bfloat16 result more than one unit in the last place off. Where a sum cancels, a unit is smaller than the
 * error that float32 sums may have, 1e-5 of the largest value.
 */
function offByMoreThanOneUlp(found: HostArray, wanted: HostArray): number[] {
  const ordered = (code: number) => (code & 0x8000 ? -(code & 0x7fff) : code & 0x7fff);
  const [p, q] = [found.data as Uint16Array, wanted.data as Uint16Array];
  const [a, b] = [numbers(found), numbers(wanted)];
  const sumError = 1e-5 * Math.max(...Array.from(b, Math.abs));
  return Array.from(p.keys()).filter(
    (i) => Math.abs(ordered(p[i]!) - ordered(q[i]!)) > 1 && Math.abs(a[i]! - b[i]!) > sumError,
  );
}

const places = { y: 0, dx: 1, dw: 2 } as const;

const [x, w, dy] = ["x", "w", "dy"].map((name) => plain.get(name)) as [HostArray, HostArray, HostArray];

describe("the three GEMMs, bit by bit of what is rounded", () => {
  // With float32 x the results are not rounded; the values of x, w and dy are the same bfloat16 ones.
  const deterministic = nvfp4({ stochasticRounding: false });

  it("of nvfp4 give golden's float32 sums", async () => {
    const f = threeGemms(deterministic);
    const args = [x, w, dy].map(asFloat32);
    for (const found of [interpreted(f, ...args), await compiled(f, ...args)]) {
      // The rotation of float32 is not rounded to bfloat16 before it is quantized, so dW is compared below.
      for (const name of ["y", "dx"] as const) {
        expect(found[places[name]]!.dtype).toBe("float32");
        expect(relativeToMax(numbers(found[places[name]]!), plain.values(`nvfp4/${name}`))).toBeLessThan(1e-5);
      }
    }
  });

  it("of nvfp4 in bfloat16, dW in float32", async () => {
    const f = threeGemms(deterministic);
    for (const found of [interpreted(f, x, asFloat32(w), dy), await compiled(f, x, asFloat32(w), dy)]) {
      const [y, dx, dw] = found as [HostArray, HostArray, HostArray];
      expect([y.dtype, dx.dtype, dw.dtype]).toEqual(["bfloat16", "bfloat16", "float32"]);
      expect(relativeToMax(numbers(dw), plain.values("nvfp4/dw"))).toBeLessThan(1e-5);
      for (const [name, result] of [
        ["y", y],
        ["dx", dx],
      ] as const) {
        expect(offByMoreThanOneUlp(result, bfloat16(plain.values(`nvfp4/${name}`), result.shape))).toEqual([]);
        expect(offByMoreThanOneUlp(result, plain.get(`nvfp4/${name}_te_bf16`))).toEqual([]);
      }
    }
  });

  it("of nvfp4 with dW in bfloat16 meet TransformerEngine's reference within one ulp", async () => {
    const f = threeGemms(deterministic);
    for (const [, , dw] of [interpreted(f, x, w, dy), await compiled(f, x, w, dy)]) {
      expect(offByMoreThanOneUlp(dw!, plain.get("nvfp4/dw_te_bf16"))).toEqual([]);
    }
  });

  it("of bf16 meet golden within one ulp", async () => {
    const f = threeGemms(bf16);
    for (const found of [interpreted(f, x, w, dy), await compiled(f, x, w, dy)]) {
      for (const [name, i] of Object.entries(places)) {
        expect(found[i]!.dtype).toBe("bfloat16");
        expect(offByMoreThanOneUlp(found[i]!, plain.get(`bf16/${name}_bf16`))).toEqual([]);
      }
    }
  });

  it("give weight gradients in float32 for float32 weights, also in bf16", async () => {
    const [, , dw] = await compiled(threeGemms(bf16), x, asFloat32(w), dy);
    expect(dw!.dtype).toBe("float32");
    const exact = plain.values("bf16/dw_bf16");
    expect(relativeToMax(numbers(dw!), exact)).toBeLessThan(2 ** -8);
    expect(Array.from(numbers(dw!))).not.toEqual(Array.from(exact));
  });
});

const bfloat16 = (values: Float32Array | Float64Array, shape: readonly number[]): HostArray =>
  floats(shape, "bfloat16", (i) => values[i]!);

describe("the three GEMMs meet golden data", () => {
  it.each<[string, Wanted]>([
    ["FP8, a scale a tensor", { data: plain, recipe: "fp8_current", precision: fp8CurrentScaling() }],
    ["MXFP8", { data: plain, recipe: "mxfp8_rceil", precision: mxfp8() }],
    ["MXFP4 in rows alone", { data: plain, recipe: "mxfp4_rceil", precision: mxfp4(deterministic) }],
    [
      "MXFP4 by OCP's rule",
      { data: mx, recipe: "mxfp4_floor", precision: mxfp4({ ...deterministic, round: "floor" }) },
    ],
    ["MXFP8, hybrid", { data: mx, recipe: "mxfp8_hybrid_rceil", precision: mxfp8({ hybrid: true }) }],
    [
      "MXFP4 with tiles and rotation",
      { data: mx, recipe: "mxfp4_rceil_2d_rht", precision: mxfp4({ stochasticRounding: false }), rotated: true },
    ],
  ])("%s", async (_, wanted) => expectGemms(wanted));

  it.each([
    ["power-of-two scales", "pow2", 32, true],
    ["float32 scales, multiplied after each part's sum", "fp32", 16, false],
  ] as const)("FP8 in blocks of 128, %s", async (_, recipe, rows, powerOfTwo) => {
    const precision = fp8BlockScaling({ powerOfTwo });
    await expectGemms({ data: blocks, recipe, precision, suffix: `.rows${rows}` });
  });

  it.each([
    ["46_mae_256", nvfp4({ fourOverSix: "all" })],
    ["46_mse_448_weights_only", nvfp4({ fourOverSix: "weights", fourOverSixError: "mse", bound: 448 })],
    ["rows_x", nvfp4({ rowScaledActivation: true, weightScaling: "1d" })],
    ["rows_x_46_mae_256_w_46_256", nvfp4({ rowScaledActivation: true, weightScaling: "1d", fourOverSix: "all" })],
  ] as const)("NVFP4 forward, %s", async (recipe, precision) => {
    const f = (x: Tensor, w: Tensor) => linear(x, w, { module: "mlp.up", layer: 0, precision });
    const inputs = [asFloat32(options.get("x")), asFloat32(options.get("w"))];
    for (const [y] of [interpreted(f, ...inputs), await compiled(f, ...inputs)]) {
      expect(relativeToMax(numbers(y!), options.values(`${recipe}/y`))).toBeLessThan(1e-5);
    }
  });
});

/** The operands that golden stores quantized: key, description and the matrix whose rows contract. */
const storedOperands = ({ data, key, precision }: { data: Golden; key: string; precision: LinearPrecision }) => {
  const { fprop, dgrad, wgrad } = precision;
  const all: Record<string, { operand: OperandSpec; source: string; transpose?: boolean }> = {
    x: { operand: fprop.left, source: "x" },
    w: { operand: fprop.right, source: "w" },
    dy: { operand: dgrad.left, source: "dy" },
    wT: { operand: dgrad.right, source: "w", transpose: true },
    xT: { operand: wgrad.right, source: "x", transpose: true },
    dyT: { operand: wgrad.left, source: "dy", transpose: true },
    "x.row": { operand: fprop.left, source: "x" },
    "w.row": { operand: fprop.right, source: "w" },
    "dy.row": { operand: dgrad.left, source: "dy" },
    "w.col": { operand: dgrad.right, source: "w", transpose: true },
    "x.col": { operand: wgrad.right, source: "x", transpose: true },
    "dy.col": { operand: wgrad.left, source: "dy", transpose: true },
  };
  return Object.entries(all).flatMap(([name, { operand, source, transpose }]) => {
    const own = `${key}/${name}`;
    if (!data.has(`${own}.q`)) return [];
    const rotated = `${own}.rht`;
    const matrix = data.get(source);
    const of = data.has(rotated) ? data.get(rotated) : transpose ? transposed(matrix) : matrix;
    return [{ data, key: own, operand: operand as QuantizedOperand, of }];
  });
};

describe("the operands of those GEMMs are golden's, code by code", () => {
  const forward = (precision: LinearPrecision) => ({ data: options, precision });
  it.each<[string, { data: Golden; precision: LinearPrecision }]>([
    ["nvfp4", { data: plain, precision: nvfp4({ stochasticRounding: false }) }],
    ["fp8_current", { data: plain, precision: fp8CurrentScaling() }],
    ["mxfp8_rceil", { data: plain, precision: mxfp8() }],
    ["mxfp4_rceil", { data: plain, precision: mxfp4(deterministic) }],
    ["mxfp4_floor", { data: mx, precision: mxfp4({ ...deterministic, round: "floor" }) }],
    ["mxfp8_hybrid_rceil", { data: mx, precision: mxfp8({ hybrid: true }) }],
    ["mxfp4_rceil_2d_rht", { data: mx, precision: mxfp4({ stochasticRounding: false }) }],
    ["pow2", { data: blocks, precision: fp8BlockScaling() }],
    ["46_mae_256", forward(nvfp4({ fourOverSix: "all" }))],
    ["46_mse_448_weights_only", forward(nvfp4({ fourOverSix: "weights", fourOverSixError: "mse", bound: 448 }))],
    ["rows_x", forward(nvfp4({ rowScaledActivation: true, weightScaling: "1d" }))],
    [
      "rows_x_46_mae_256_w_46_256",
      forward(nvfp4({ rowScaledActivation: true, weightScaling: "1d", fourOverSix: "all" })),
    ],
  ])("%s", async (key, { data, precision }) => {
    const stored = storedOperands({ data, key, precision });
    expect(stored.length).toBeGreaterThanOrEqual(2);
    for (const { key, operand, of } of stored) {
      const scale = {
        e4m3: { suffix: ".sf", dtype: "float8_e4m3fn" },
        e8m0: { suffix: ".scale", dtype: "float8_e8m0fnu" },
        fp32: { suffix: ".scale_inv" },
        delayed: { suffix: ".scale_inv" },
      } as const;
      await expectGolden(quantizerUnderTest(operand), {
        data,
        key,
        input: of,
        scale: scale[operand.scale.type],
        packed: operand.element === "e2m1",
        ...(operand.scale.type === "e4m3" && { amaxSuffix: ".amax" }),
      });
    }
  });

  it("and the float32 scales of FP8 in blocks, whose codes are not stored", async () => {
    for (const mode of ["fp32", "pow2"]) {
      const { fprop, dgrad, wgrad } = fp8BlockScaling({ powerOfTwo: mode === "pow2" });
      for (const [name, operand, source] of [
        ["x", fprop.left, blocks.get("x")],
        ["w", fprop.right, blocks.get("w")],
        ["dy", dgrad.left, blocks.get("dy")],
        ["xT", wgrad.right, transposed(blocks.get("x"))],
        ["dyT", wgrad.left, transposed(blocks.get("dy"))],
      ] as const) {
        const { f, compiled } = quantizerUnderTest(operand as QuantizedOperand);
        const wanted = blocks.values(`${mode}/${name}.scale_inv`);
        for (const [, scales] of [interpreted(f, source), await compiled(source)]) {
          expect(Array.from(numbers(scales!))).toEqual(Array.from(wanted));
        }
      }
    }
  });
});

describe("of the stored GEMMs", () => {
  it("nothing is left unread", () => {
    expect([plain, mx, blocks, options].flatMap((data) => data.unread())).toEqual([]);
  });
});
