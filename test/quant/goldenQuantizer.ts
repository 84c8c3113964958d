/** Compares a quantizer with golden codes, scales and decoded values, in both evaluators. */
import { expect } from "vitest";
import { encodeArray, unpackNibbles } from "../../src/core/codecs.ts";
import { type DType, full, type HostArray, hostArray, type Tensor } from "../../src/core/index.ts";
import {
  dequantize,
  type E4m3Scale,
  formats,
  type QuantizedOperand,
  type QuantizeOptions,
  quantize,
} from "../../src/quant/index.ts";
import { codeRange, outerScale } from "../../src/quant/scales.ts";
import type { Golden } from "../golden.ts";
import { compiledFunction, interpreted, numbers } from "./bothWays.ts";

/** The transpose of a matrix. */
export function transposed({ shape, dtype, data }: HostArray): HostArray {
  const [M, N] = shape as [number, number];
  const result = data.slice() as Uint16Array;
  for (let i = 0; i < M; i++) for (let j = 0; j < N; j++) result[j * M + i] = data[i * N + j] as number;
  return hostArray([N, M], dtype, result);
}

export interface QuantizerUnderTest {
  readonly operand: QuantizedOperand;
  readonly axis: QuantizeOptions["axis"];
  readonly f: (x: Tensor) => Tensor[];
  readonly compiled: (x: HostArray) => Promise<HostArray[]>;
}

/** Elements, stored scales, largest magnitudes, decoded values, values as products see them (or the decoded ones again). */
export function quantizerUnderTest(
  operand: QuantizedOperand,
  axis: QuantizeOptions["axis"] = "row",
): QuantizerUnderTest {
  const f = (x: Tensor): Tensor[] => {
    const quantized = quantize(x, operand, { axis });
    const { values, factor, parts, elements, scales, amax } = quantized;
    const decoded = dequantize(quantized, operand);
    const wide = values.astype("float32");
    const spread = factor?.rank === 1 && axis === "row" ? factor.reshape([-1, 1]) : factor;
    const seen = parts ? decoded : spread ? wide.mul(spread) : wide;
    return [elements, scales, amax ?? scales, decoded, seen];
  };
  return { operand, axis, f, compiled: compiledFunction(f) };
}

export interface GoldenQuantization {
  readonly data: Golden;
  /** The tensors' common beginning: `KEY.q`. */
  readonly key: string;
  readonly input: HostArray;
  /** Stored transposed, as the modes along columns are. */
  readonly columns?: boolean;
  /** How scales are stored: the tensor's name after the key, and the dtype of its codes (absent: float32 values). */
  readonly scale: { readonly suffix: string; readonly dtype?: DType };
  readonly amaxSuffix?: string;
  readonly packed: boolean;
  /** Decoded values are not compared. */
  readonly withoutDecoded?: boolean;
  /** They are, but not as products see them: a float32 factor is itself a denormal. */
  readonly factorIsDenormal?: boolean;
  /** Blocks, by their index in the stored scales, where either of two results is right. */
  readonly either?: ReadonlySet<number>;
}

/** Runs the quantizer interpreted and, unless told otherwise, compiled, and compares all that golden holds of it. */
export async function expectGolden(
  quantizer: QuantizerUnderTest,
  wanted: GoldenQuantization,
  interpreterOnly = false,
): Promise<void> {
  compare(quantizer, { ...wanted, either: new Set() }, interpreted(quantizer.f, wanted.input));
  if (!interpreterOnly) compare(quantizer, wanted, await quantizer.compiled(wanted.input));
}

function compare({ operand }: QuantizerUnderTest, wanted: GoldenQuantization, outputs: readonly HostArray[]): void {
  const { data, key, columns = false, scale, either = new Set() } = wanted;
  const oriented = (array: HostArray) => (columns && array.shape.length === 2 ? transposed(array) : array);
  const [elements, scales, amax, decoded, seen] = outputs.map(oriented) as [
    HostArray,
    HostArray,
    HostArray,
    HostArray,
    HostArray,
  ];
  const input = numbers(oriented(wanted.input));

  // A tile's scale may be stored once, or for every row of it.
  const stored = data.get(`${key}${scale.suffix}`);
  const storedScales = data.values(`${key}${scale.suffix}`);
  const [rows, perRow] = stored.shape.length === 2 ? (stored.shape as [number, number]) : [1, 1];
  const own = scale.dtype ? encodeArray(scale.dtype, numbers(scales)) : numbers(scales);
  const rowsPerScale = rows / (own.length / perRow);
  const spread = Array.from(
    { length: rows * perRow },
    (_, i) => own[Math.floor(i / perRow / rowsPerScale) * perRow + (i % perRow)],
  );
  const offScales = spread.flatMap((value, i) => (value === storedScales[i] || either.has(i) ? [] : [i]));
  expect({ key, offScales }).toEqual({ key, offScales: [] });

  const width = elements.shape[1]!;
  const blockOf = (i: number) =>
    Math.floor((Math.floor(i / width) * rows) / elements.shape[0]!) * perRow +
    Math.floor(((i % width) * perRow) / width);
  const codes = data.get(`${key}.q`);
  const format = formats[operand.element];
  const found = encodeArray(format.dtype!, numbers(elements));
  const expected = wanted.packed ? unpackNibbles(codes.data as Uint8Array) : (codes.data as Uint8Array);
  expect(found.length).toBe(expected.length);
  const signless = wanted.packed ? 7 : 0x7f;
  const wrong = Array.from(expected.keys()).filter(
    (i) =>
      found[i] !== expected[i] &&
      !either.has(blockOf(i)) &&
      !(input[i] === 0 && ((found[i] as number) & signless) === (expected[i]! & signless)),
  );
  expect({ key, wrong }).toEqual({ key, wrong: [] });

  if (wanted.amaxSuffix !== undefined) {
    expect({ key, amax: Array.from(numbers(amax)) }).toEqual({
      key,
      amax: Array.from(data.values(`${key}${wanted.amaxSuffix}`)),
    });
  }
  if (wanted.withoutDecoded || !data.has(`${key}.dq`)) return;
  const values = data.values(`${key}.dq`);
  for (const reading of wanted.factorIsDenormal ? [decoded] : [decoded, seen]) {
    const read = numbers(reading);
    const off = Array.from(read.keys()).filter(
      (i) => !either.has(blockOf(i)) && !(Math.abs(read[i]! - values[i]!) <= 1e-6 * Math.abs(values[i]!)),
    );
    expect({ key, off }).toEqual({ key, off: [] });
  }
}

/** Encode scales of tensors (`KEY.s_enc`) and, where stored, their reciprocals, from their amax, in both evaluators. */
export async function expectOuterScales(data: Golden, keys: readonly string[], scale: E4m3Scale): Promise<void> {
  const column = (suffix: string) => Float32Array.from(keys, (key) => data.scalar(key + suffix));
  const f = (amax: Tensor) => {
    const outer = outerScale(amax, codeRange(scale, formats.e2m1));
    return [outer, full(outer.shape, 1, "float32").div(outer)];
  };
  const amax = hostArray([keys.length], "float32", column(".amax"));
  const results = [interpreted(f, amax), await compiledFunction(f)(amax)];
  for (const [i, suffix] of [".s_enc", ".s_dec"].entries()) {
    if (!data.has(keys[0] + suffix)) continue;
    const wanted = column(suffix);
    for (const [run, found] of results.entries()) {
      const own = numbers(found[i]!);
      // Compiled code may flush denormals.
      const wrong = keys.filter((key, k) => own[k] !== wanted[k] && (run === 0 || !/denormal|tinier/.test(key)));
      expect({ suffix, wrong }).toEqual({ suffix, wrong: [] });
    }
  }
}
