/** The NVFP4 quantizer against golden data made by other people's software: every case and mode, in both evaluators. */
import { describe, expect, it } from "vitest";
import type { HostArray, Tensor } from "../../src/core/index.ts";
import {
  type E4m3Scale,
  nvfp4,
  type QuantizedOperand,
  type Rotation,
  rotate,
  rotationMatrix,
} from "../../src/quant/index.ts";
import { golden, goldenJson } from "../golden.ts";
import { compiledFunction, interpreted, numbers } from "./bothWays.ts";
import {
  expectGolden,
  expectOuterScales,
  type QuantizerUnderTest,
  quantizerUnderTest,
  transposed,
} from "./goldenQuantizer.ts";

const cases = await golden("02_nvfp4/nvfp4_cases");
const index = goldenJson<{ name: string; shape: [number, number]; modes: string[] }[]>("02_nvfp4/index");

const { fprop } = nvfp4({ stochasticRounding: false });
const [rowBlocks, tiles] = [fprop.left, fprop.right] as [QuantizedOperand, QuantizedOperand];
const quantizers: Record<string, QuantizerUnderTest> = {
  row1d: quantizerUnderTest(rowBlocks, "row"),
  col1d: quantizerUnderTest(rowBlocks, "col"),
  row2d: quantizerUnderTest(tiles, "row"),
  col2d: quantizerUnderTest(tiles, "col"),
  // From the stored rotated tensor.
  colrht: quantizerUnderTest(rowBlocks, "col"),
};

const inputOf = (name: string, mode: string): HostArray =>
  mode === "colrht" ? transposed(cases.get(`${name}/colrht.rht`)) : cases.get(`${name}/input`);

/** Compiled code may flush float32's denormals to zero. */
const bindsInterpreterOnly = (name: string): boolean => name.includes("denormal") || name.includes("tinier");

describe("the NVFP4 quantizer meets golden data exactly", () => {
  it.each(index.map(({ name, modes }) => [name, modes] as const))("%s", async (name, modes) => {
    for (const mode of modes) {
      const wanted = {
        data: cases,
        key: `${name}/${mode}`,
        input: inputOf(name, mode),
        columns: mode.startsWith("col"),
        scale: { suffix: ".sf", dtype: "float8_e4m3fn" },
        amaxSuffix: ".amax",
        packed: true,
        withoutDecoded: name.includes("max_f32") || name.includes("nonfinite"),
        // Where A/2688 is itself a denormal, a product's factor has too few bits to compare.
        factorIsDenormal: name.includes("denormal"),
      } as const;
      await expectGolden(quantizers[mode]!, wanted, bindsInterpreterOnly(name));
    }
  });

  it("has golden's encode scale of each tensor, and its reciprocal", async () => {
    const keys = cases.names.filter((name) => name.endsWith(".s_enc")).map((name) => name.slice(0, -".s_enc".length));
    expect(keys.length).toBeGreaterThan(60);
    await expectOuterScales(cases, keys, rowBlocks.scale as E4m3Scale);
  });

  it("covers all 88 quantizations", () => {
    expect(index.flatMap(({ modes }) => modes).length).toBe(88);
    // Not compared: what decodes of the largest numbers and of infinities.
    expect(cases.unread().filter((name) => !/(max_f32|nonfinite).*\.dq/.test(name))).toEqual([]);
  });
});

/** Distance of two bfloat16 codes in units in the last place. */
function ulps(a: number, b: number): number {
  const ordered = (code: number) => (code & 0x8000 ? -(code & 0x7fff) : code & 0x7fff);
  return Math.abs(ordered(a) - ordered(b));
}

const rotation: Rotation = { size: 16, signs: "fixed" };
const rotateTokens = (x: Tensor) => rotate(x, rotationMatrix(rotation), "col");

describe("the rotation", () => {
  it("is the golden matrix", async () => {
    const constants = await golden("02_nvfp4/rht_constants");
    const wanted = constants.values("rht_matrix");
    const own = numbers(interpreted(() => rotationMatrix(rotation).matrix)[0]!);
    // Golden: y = x @ matrix on row vectors; ours multiplies columns, so it is the transpose.
    for (let i = 0; i < 16; i++) for (let j = 0; j < 16; j++) expect(own[i * 16 + j]).toBe(wanted[j * 16 + i]);
    const [signs, hadamard] = [constants.values("signs"), constants.values("hadamard_pm1")];
    expect(Array.from(own, (v) => 4 * v)).toEqual(
      Array.from(own, (_, k) => signs[k % 16]! * hadamard[(k % 16) * 16 + Math.floor(k / 16)]!),
    );
    expect(constants.unread()).toEqual([]);
  });

  it("meets golden data within one bfloat16 ulp", async () => {
    const rotate = compiledFunction(rotateTokens);
    let compared = 0;
    for (const { name, modes } of index) {
      if (!modes.includes("colrht") || !name.endsWith("bf16")) continue;
      const wanted = transposed(cases.get(`${name}/colrht.rht`)).data as Uint16Array;
      const input = cases.get(`${name}/input`);
      for (const [output] of [interpreted(rotateTokens, input), await rotate(input)]) {
        const found = output!.data as Uint16Array;
        expect(Math.max(...Array.from(wanted, (code, i) => ulps(code, found[i]!)))).toBeLessThanOrEqual(1);
        compared++;
      }
    }
    expect(compared).toBeGreaterThanOrEqual(20);
  });

  it("of float32 stays within 1e-6 of the largest value", async () => {
    const input = cases.get("32x64_normal_f32/input");
    const wanted = numbers(transposed(cases.get("32x64_normal_f32/colrht.rht")));
    for (const [output] of [interpreted(rotateTokens, input), await compiledFunction(rotateTokens)(input)]) {
      numbers(output!).forEach((value, i) => expect(Math.abs(value - wanted[i]!)).toBeLessThan(1e-6 * 4));
    }
  });
});
