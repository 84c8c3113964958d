/** NVFP4's options against golden data: four over six, one outer scale a row, gain 17/16. */
import { describe, expect, it } from "vitest";
import { type E4m3Scale, formats, type QuantizedOperand } from "../../src/quant/index.ts";
import { golden, goldenJson } from "../golden.ts";
import { expectGolden, expectOuterScales, type QuantizerUnderTest, quantizerUnderTest } from "./goldenQuantizer.ts";

interface Case {
  name: string;
  shape: [number, number];
  modes: string[];
  /** [row of blocks, block] where the errors of 6 and 4 agree within 1e-6: compiled code may take either. */
  near_ties?: Record<string, [number, number][]>;
}

const cases = await golden("11_nvfp4_options/cases");
const index = goldenJson<{ cases: Case[] }>("11_nvfp4_options/index").cases;
const quantizers = new Map<string, QuantizerUnderTest>();

/** "row2d.46.mae.256" as a description. */
function operandOf(mode: string): QuantizedOperand {
  const [blocks, ...rest] = mode.split(".");
  const scale: E4m3Scale = {
    type: "e4m3",
    outer: "tensor",
    ...(rest[0] === "46" && { fourOverSix: rest[1] as "mae" | "mse", bound: Number(rest[2]) }),
    ...(rest[0] === "gain17_16" && { gain: 17 / 16 }),
  };
  const elements = { element: "e2m1", rounding: "nearest" } as const;
  if (blocks === "row2d") return { ...elements, block: "16x16", scale: { ...scale, outer: "tensor" } };
  return { ...elements, block: "1x16", scale: { ...scale, outer: blocks === "rows" ? "row" : "tensor" } };
}

function quantizerOf(mode: string): QuantizerUnderTest {
  const made = quantizers.get(mode) ?? quantizerUnderTest(operandOf(mode));
  quantizers.set(mode, made);
  return made;
}

describe("NVFP4's options meet golden data exactly", () => {
  it.each(index.map((one) => [one.name, one] as const))("%s", async (name, { modes, shape, near_ties: ties }) => {
    const perRow = shape[1] / 16;
    for (const mode of modes) {
      // Of tiles, the scales of all 16 rows are stored.
      const rows = mode.startsWith("row2d") ? 16 : 1;
      const either = (ties?.[mode] ?? []).flatMap(([row, block]) =>
        Array.from({ length: rows }, (_, i) => (row * rows + i) * perRow + block),
      );
      const wanted = {
        data: cases,
        key: `${name}/${mode}`,
        input: cases.get(`${name}/input`),
        scale: { suffix: ".sf", dtype: "float8_e4m3fn" },
        amaxSuffix: ".amax",
        packed: true,
        withoutDecoded: name.includes("max_f32") || name.includes("nonfinite"),
        factorIsDenormal: name.includes("denormal"),
        either: new Set(either),
      } as const;
      await expectGolden(quantizerOf(mode), wanted, name.includes("denormal") || name.includes("tinier"));
    }
  });

  it("with gain 17/16 have golden's encode scale of each tensor", async () => {
    const keys = cases.names.filter((name) => name.endsWith(".s_enc")).map((name) => name.slice(0, -".s_enc".length));
    expect(keys.length).toBe(20);
    await expectOuterScales(cases, keys, { type: "e4m3", outer: "tensor", gain: 17 / 16 });
  });

  it("cover every mode that is stored", () => {
    const stored = cases.names.filter((name) => name.endsWith(".q"));
    expect(index.reduce((sum, { modes }) => sum + modes.length, 0)).toBe(stored.length);
    // Which of the two candidates was taken shows in scales and codes.
    expect(cases.unread().filter((name) => !name.endsWith(".pick4"))).toEqual([]);
  });

  it("with gain 17/16 no element exceeds 6 where the block scale is normal", () => {
    expect(formats.e2m1.max * (16 / 17) * (1 + 1 / 16)).toBeLessThanOrEqual(6);
  });
});
