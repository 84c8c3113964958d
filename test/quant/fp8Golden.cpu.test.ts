/** FP8 with float32 scales against golden data: one scale a tensor, and blocks of 128. */
import { describe, expect, it } from "vitest";
import type { ElementName, QuantizedOperand } from "../../src/quant/index.ts";
import { golden, goldenJson } from "../golden.ts";
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
