/** The MX quantizers against golden data: rows of 32, columns, 32×32 tiles, the rotation of 32. */
import { describe, expect, it } from "vitest";
import type { Tensor } from "../../src/core/index.ts";
import type { QuantizedOperand, Rotation } from "../../src/quant/index.ts";
import { type ElementName, rotate, rotationMatrix } from "../../src/quant/index.ts";
import { golden, goldenJson } from "../golden.ts";
import { compiledFunction, interpreted, numbers } from "./bothWays.ts";
import { expectGolden, type QuantizerUnderTest, quantizerUnderTest, transposed } from "./goldenQuantizer.ts";

const cases = await golden("03_mx/mx_cases");
const options = await golden("14_mx_options/cases");
const optionCases = goldenJson<{ cases: { name: string; modes: string[] }[] }>("14_mx_options/index").cases;

const rules = { rceil: "up", floor: "floor" } as const;
const quantizers = new Map<string, QuantizerUnderTest>();

/** The quantizer of "e2m1.rceil", in rows or tiles. */
function quantizerOf(mode: string, tiles = false): QuantizerUnderTest {
  const key = `${mode}${tiles}`;
  const known = quantizers.get(key);
  if (known !== undefined) return known;
  const [element, rule] = mode.split(".") as [ElementName, keyof typeof rules];
  const block = tiles ? "32x32" : "1x32";
  const operand: QuantizedOperand = {
    element,
    block,
    rounding: "nearest",
    scale: { type: "e8m0", round: rules[rule] },
  };
  const made = quantizerUnderTest(operand);
  quantizers.set(key, made);
  return made;
}

const scale = { suffix: ".scale", dtype: "float8_e8m0fnu" } as const;
const keys = cases.names.filter((name) => name.endsWith(".q")).map((name) => name.slice(0, -2));
const names = [...new Set(keys.map((key) => key.slice(0, key.indexOf("/"))))];

describe("MX blocks meet golden data exactly", () => {
  it.each(names)("%s", async (name) => {
    for (const key of keys.filter((key) => key.startsWith(`${name}/`))) {
      const [, mode] = key.split("/") as [string, string];
      const packed = mode.startsWith("e2m1");
      const stored = cases.get(`${name}/input`);
      const input = mode.endsWith(".colT") ? transposed(stored) : stored;
      const denormal = name.includes("denormal");
      const wanted = { data: cases, key, input, scale, packed, factorIsDenormal: denormal };
      await expectGolden(quantizerOf(mode), wanted, denormal);
    }
  });

  it("all 62 of them", () => {
    expect(keys.length).toBe(62);
    expect(cases.unread()).toEqual([]);
  });
});

describe("MX tiles and rotated columns meet golden data exactly", () => {
  it.each(optionCases.map(({ name, modes }) => [name, modes] as const))("%s", async (name, modes) => {
    for (const mode of modes) {
      const rotated = mode.endsWith(".colrht");
      const input = options.get(rotated ? `${name}/rht32_of_transpose` : `${name}/input`);
      const wanted = { data: options, key: `${name}/${mode}`, input, scale, packed: mode.startsWith("e2m1") };
      await expectGolden(quantizerOf(mode, !rotated), wanted, name.includes("denormal"));
    }
  });
});

describe("the rotation of 32", () => {
  const rotation: Rotation = { size: 32, signs: "fixed" };

  it("meets golden data within one bfloat16 ulp, along rows and along columns", async () => {
    const ordered = (code: number) => (code & 0x8000 ? -(code & 0x7fff) : code & 0x7fff);
    let compared = 0;
    for (const axis of ["row", "col"] as const) {
      const f = (x: Tensor) => rotate(x, rotationMatrix(rotation), axis);
      const compiled = compiledFunction(f);
      for (const { name } of optionCases.filter(({ name }) => options.has(`${name}/rht32_of_transpose`))) {
        const stored = options.get(`${name}/rht32_of_transpose`);
        const source = options.get(`${name}/input`);
        const [input, wanted] = axis === "col" ? [source, transposed(stored)] : [transposed(source), stored];
        for (const [output] of [interpreted(f, input), await compiled(input)]) {
          const [a, b] = [output!.data as Uint16Array, wanted.data as Uint16Array];
          expect(Math.max(...Array.from(b, (code, i) => Math.abs(ordered(code) - ordered(a[i]!))))).toBeLessThanOrEqual(
            1,
          );
          compared++;
        }
      }
    }
    expect(compared).toBeGreaterThanOrEqual(20);
    expect(options.unread()).toEqual([]);
  });

  it("is the golden matrix", async () => {
    const constants = await golden("14_mx_options/rht32_constants");
    const [signs, hadamard] = [constants.values("signs"), constants.values("hadamard_pm1")];
    const { matrix, scale } = rotationMatrix(rotation);
    const own = numbers(interpreted(() => matrix)[0]!);
    expect(Array.from(own)).toEqual(
      Array.from(own, (_, k) => signs[k % 32]! * hadamard[(k % 32) * 32 + Math.floor(k / 32)]!),
    );
    expect(scale).toBe(constants.scalar("scale"));
    expect(constants.unread()).toEqual([]);
  });
});
