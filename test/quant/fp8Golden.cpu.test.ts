/** FP8 with float32 scales against golden data: one scale a tensor, and blocks of 128. */
import { describe, expect, it } from "vitest";
import { encodeArray } from "../../src/core/codecs.ts";
import { type HostArray, hostArray, type Tensor } from "../../src/core/index.ts";
import { largestMagnitude, largestMagnitudes, padToBlocks } from "../../src/quant/blocks.ts";
import { type ElementName, type Fp32Scale, formats, type QuantizedOperand } from "../../src/quant/index.ts";
import { blockSize } from "../../src/quant/quantize.ts";
import { fp32Scales } from "../../src/quant/scales.ts";
import { type Golden, golden, goldenJson } from "../golden.ts";
import { compiledFunction, interpreted, numbers } from "./bothWays.ts";
import { expectGolden, quantizerUnderTest } from "./goldenQuantizer.ts";

const tensors = await golden("04_fp8_current_scaling/cases");
const tensorCases = goldenJson<{ name: string }[]>("04_fp8_current_scaling/index");
const blocks = await golden("12_fp8_block/cases");
const blockCases = goldenJson<{ cases: { name: string; block: [number, number] }[] }>("12_fp8_block/index").cases;

/** Scales are stored as what decodes. */
const scale = { suffix: ".scale_inv" } as const;

describe("FP8 with one scale a tensor meets golden data exactly", () => {
  const modes = ["e4m3", "e4m3.pow2", "e5m2", "e5m2.pow2"];
  const quantizers = modes.map((mode) => {
    const [element, powerOfTwo] = mode.split(".") as [ElementName, string | undefined];
    const operand: QuantizedOperand = {
      element,
      block: "tensor",
      rounding: "nearest",
      scale: { type: "fp32", powerOfTwo: powerOfTwo !== undefined },
    };
    return { mode, quantizer: quantizerUnderTest(operand) };
  });

  it.each(tensorCases.map(({ name }) => name))("%s", async (name) => {
    for (const { mode, quantizer } of quantizers) {
      const interpreterOnly = name.includes("denormal") || name.includes("tinier");
      const key = `${name}/${mode}`;
      const wanted = { data: tensors, key, input: tensors.get(`${name}/input`), scale, packed: false };
      await expectGolden(quantizer, { ...wanted, factorIsDenormal: interpreterOnly }, interpreterOnly);
    }
  });
});

describe("FP8 in blocks of 128 meets golden data exactly", () => {
  const modes = (["1x128", "128x128"] as const).flatMap((block) =>
    (["pow2", "fp32"] as const).map((mode) => {
      const operand: QuantizedOperand = {
        element: "e4m3",
        block,
        rounding: "nearest",
        scale: { type: "fp32", powerOfTwo: mode === "pow2" },
      };
      return { block, mode, quantizer: quantizerUnderTest(operand) };
    }),
  );

  it.each(blockCases.map(({ name, block }) => [name, block.join("x")] as const))("%s", async (name, block) => {
    let compared = 0;
    for (const { mode, quantizer } of modes.filter((candidate) => candidate.block === block)) {
      const key = `${name}/${mode}`;
      const wanted = { data: blocks, key, input: blocks.get(`${name}/input`), scale, packed: false };
      // An infinite element reaches products as NaN, decoders as ±448; a bfloat16 denormal has few bits.
      const factorIsDenormal = name.includes("inf") || name.includes("denormal");
      await expectGolden(quantizer, { ...wanted, factorIsDenormal }, name.includes("denormal"));
      compared++;
    }
    expect(compared).toBe(2);
  });
});

/** The input of a case; one is stored as another's with an infinite element. */
function inputOf(data: Golden, name: string): HostArray {
  const [other, place] = name.split("_inf_at_") as [string, string?];
  const stored = data.get(`${other}/input`);
  if (place === undefined) return stored;
  const [row, column] = place.split("_").map(Number) as [number, number];
  const bits = stored.data.slice() as Uint16Array;
  bits[row * stored.shape[1]! + column] = 0x7f80;
  return hostArray(stored.shape, stored.dtype, bits);
}

/** The encode scales of `data`'s keys whose operand is `operand`, in both evaluators. */
async function expectEncodeScales(data: Golden, keys: readonly string[], operand: QuantizedOperand): Promise<void> {
  const f = (x: Tensor) => {
    const size = blockSize(operand, "row");
    const amax =
      operand.block === "tensor" ? largestMagnitude(x) : largestMagnitudes(padToBlocks(x, size), size).ofBlocks;
    return [fp32Scales(amax, operand.scale as Fp32Scale, formats[operand.element], x.dtype).encode];
  };
  const compiled = compiledFunction(f);
  for (const key of keys) {
    const x = inputOf(data, key.split("/")[0]!);
    const wanted = Array.from(data.values(`${key}.scale`));
    expect({ key, scale: Array.from(numbers(interpreted(f, x)[0]!)) }).toEqual({ key, scale: wanted });
    if (/denormal|tinier/.test(key)) continue;
    expect({ key, scale: Array.from(numbers((await compiled(x))[0]!)) }).toEqual({ key, scale: wanted });
  }
}

describe("FP8's encode scales", () => {
  /** The operand of "e5m2.pow2", or of "pow2" in blocks. */
  const operandOf = (mode: string, block: "tensor" | "1x128" | "128x128"): QuantizedOperand => ({
    element: mode.startsWith("e5m2") ? "e5m2" : "e4m3",
    block,
    rounding: "nearest",
    scale: { type: "fp32", powerOfTwo: mode.includes("pow2") },
  });

  it("an infinite element takes its tile's scale to 1 and becomes the largest value, as golden has it", async () => {
    const name = "128x128_128x128_student_t_bf16_inf_at_5_7";
    const x = inputOf(blocks, name);
    const { f, compiled } = quantizerUnderTest(operandOf("pow2", "128x128"));
    for (const [elements] of [interpreted(f, x), await compiled(x)]) {
      const codes = encodeArray("float8_e4m3fn", numbers(elements!).subarray(5 * 128, 6 * 128));
      expect(codes).toEqual(blocks.get(`${name}/pow2.q_row5`).data);
    }
  });

  it("are golden's, and with them all of it is read", async () => {
    const keysOf = (data: Golden) =>
      data.names.filter((name) => name.endsWith(".scale")).map((name) => name.slice(0, -".scale".length));
    const modeOf = (key: string) => key.slice(key.indexOf("/") + 1);
    for (const mode of new Set(keysOf(tensors).map(modeOf))) {
      if (mode.includes("eps")) continue;
      const keys = keysOf(tensors).filter((key) => modeOf(key) === mode);
      await expectEncodeScales(tensors, keys, operandOf(mode, "tensor"));
    }
    for (const block of ["1x128", "128x128"] as const) {
      for (const mode of ["pow2", "fp32"]) {
        const keys = keysOf(blocks).filter((key) => key.startsWith(`${block}_`) && modeOf(key) === mode);
        expect(keys).not.toEqual([]);
        await expectEncodeScales(blocks, keys, operandOf(mode, block));
      }
    }
    expect(blocks.unread()).toEqual([]);
    // A smallest amax is an option that no recipe here has.
    expect(tensors.unread().filter((name) => !name.includes(".eps"))).toEqual([]);
  });
});
