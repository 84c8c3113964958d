/** The NVFP4 quantizer against golden data made by other people's software: every case and mode, in both evaluators. */
import { describe, expect, it } from "vitest";
import { encodeArray, unpackNibbles } from "../../src/core/codecs.ts";
import { type HostArray, hostArray, type Tensor } from "../../src/core/index.ts";
import {
  dequantize,
  type Nvfp4Options,
  quantizeNvfp4,
  rotateTokens,
  rotationMatrix,
  tensorFactor,
} from "../../src/quant/index.ts";
import { golden, goldenJson } from "../golden.ts";
import { compiledFunction, interpreted, numbers } from "./bothWays.ts";

const cases = await golden("02_nvfp4/nvfp4_cases");
const index = goldenJson<{ name: string; shape: [number, number]; modes: string[] }[]>("02_nvfp4/index");

const plain = { rht: false, rounding: "nearest" } as const;
const options: Record<string, Nvfp4Options> = {
  row1d: { axis: "row", block: "1d", ...plain },
  col1d: { axis: "col", block: "1d", ...plain },
  row2d: { axis: "row", block: "2d", ...plain },
  col2d: { axis: "col", block: "2d", ...plain },
  // From the stored rotated tensor.
  colrht: { axis: "col", block: "1d", ...plain },
};

const quantizers = Object.fromEntries(
  Object.entries(options).map(([mode, chosen]) => {
    const f = (x: Tensor) => {
      const quantized = quantizeNvfp4(x, chosen);
      const { values, amax, elements, blockScales } = quantized;
      const asProductsSeeIt = values.astype("float32").mul(tensorFactor(amax));
      return [elements, blockScales, amax, dequantize(quantized), asProductsSeeIt];
    };
    return [mode, { f, compiled: compiledFunction(f) }];
  }),
);

/** The transpose of a matrix. */
function transposed({ shape, dtype, data }: HostArray): HostArray {
  const [M, N] = shape as [number, number];
  const result = data.slice() as Uint16Array;
  for (let i = 0; i < M; i++) for (let j = 0; j < N; j++) result[j * M + i] = data[i * N + j] as number;
  return hostArray([N, M], dtype, result);
}

/** Compares quantizer outputs in the golden data's orientation: columns modes are stored transposed. */
function check(name: string, mode: string, input: HostArray, outputs: readonly HostArray[]): void {
  const columns = mode.startsWith("col");
  const oriented = (array: HostArray) => (columns ? transposed(array) : array);
  const [elements, scales, amax, dequantized, asProductsSeeIt] = outputs as readonly [
    HostArray,
    HostArray,
    HostArray,
    HostArray,
    HostArray,
  ];
  const values = numbers(oriented(input));
  const key = `${name}/${mode}`;

  const codes = encodeArray("float4_e2m1fn", numbers(oriented(elements)));
  const wanted = unpackNibbles(cases.get(`${key}.q`).data as Uint8Array);
  expect(codes.length).toBe(wanted.length);
  const wrong = Array.from(wanted.keys()).filter(
    (i) => codes[i] !== wanted[i] && !(values[i] === 0 && ((codes[i] as number) & 7) === (wanted[i]! & 7)),
  );
  expect({ key, wrong }).toEqual({ key, wrong: [] });

  const stored = cases.get(`${key}.sf`);
  const [rows, perRow] = stored.shape as [number, number];
  const scaleCodes = encodeArray("float8_e4m3fn", numbers(oriented(scales)));
  const rowsPerScale = rows / (scaleCodes.length / perRow);
  const spread = Array.from(
    { length: rows * perRow },
    (_, i) => scaleCodes[Math.floor(i / perRow / rowsPerScale) * perRow + (i % perRow)],
  );
  expect({ key, scales: spread }).toEqual({ key, scales: Array.from(stored.data as Uint8Array) });
  expect({ key, amax: numbers(amax)[0] }).toEqual({ key, amax: cases.scalar(`${key}.amax`) });

  if (!cases.has(`${key}.dq`) || name.includes("max_f32") || name.includes("nonfinite")) return;
  // Where A/2688 is itself a denormal, a product's factor has too few bits to compare.
  const readings = name.includes("denormal") ? [dequantized] : [dequantized, asProductsSeeIt];
  const expected = cases.values(`${key}.dq`);
  for (const reading of readings) {
    const found = numbers(oriented(reading));
    const off = Array.from(found.keys()).filter(
      (i) => Math.abs(found[i]! - expected[i]!) > 1e-6 * Math.abs(expected[i]!),
    );
    expect({ key, off }).toEqual({ key, off: [] });
  }
}

const inputOf = (name: string, mode: string): HostArray =>
  mode === "colrht" ? transposed(cases.get(`${name}/colrht.rht`)) : cases.get(`${name}/input`);

/** Compiled code may flush float32's denormals to zero. */
const bindsInterpreterOnly = (name: string): boolean => name.includes("denormal") || name.includes("tinier");

describe("quantizeNvfp4 meets golden data exactly", () => {
  it.each(index.map(({ name, modes }) => [name, modes] as const))("%s", async (name, modes) => {
    for (const mode of modes) {
      const input = inputOf(name, mode);
      check(name, mode, input, interpreted(quantizers[mode]!.f, input));
      if (!bindsInterpreterOnly(name)) check(name, mode, input, await quantizers[mode]!.compiled(input));
    }
  });

  it("covers 88 quantizations", () => {
    expect(index.flatMap(({ modes }) => modes).length).toBe(88);
  });
});

/** Distance of two bfloat16 codes in units in the last place. */
function ulps(a: number, b: number): number {
  const ordered = (code: number) => (code & 0x8000 ? -(code & 0x7fff) : code & 0x7fff);
  return Math.abs(ordered(a) - ordered(b));
}

describe("the rotation", () => {
  it("is the golden matrix", async () => {
    const constants = await golden("02_nvfp4/rht_constants");
    const wanted = constants.values("rht_matrix");
    const own = rotationMatrix();
    // Golden: y = x @ matrix on row vectors; ours multiplies columns, so it is the transpose.
    for (let i = 0; i < 16; i++) for (let j = 0; j < 16; j++) expect(own[i * 16 + j]).toBe(wanted[j * 16 + i]);
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
