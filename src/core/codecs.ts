/**
 * The numbers of every float dtype, exactly: codes to values and values to codes, in plain TypeScript.
 *
 * Everything narrow is reached from the bits of a float32, by integer arithmetic. Where a float64 is the source, the two
 * ways differ by double rounding, and XLA's `convert` (measured) uses both: bfloat16 and float16 round through float32,
 * the 8- and 4-bit formats round the float64 once. `encodeArray` does the same; `rounder` and `roundTo`, which stand for
 * the rounding of an operation's result, always go through float32, as XLA computes narrow types in float32.
 */
import { invariant } from "../base/errors.ts";
import { type DType, dtypeInfo, type TypedArray } from "./dtype.ts";

export type FloatDType = Extract<DType, `float${string}` | "bfloat16">;

/**
 * - `rne`: nearest, ties to even, with the overflow of XLA's convert: infinity where the format has one, else NaN
 *   (float8_e4m3fn above 464), else the largest value (float4_e2m1fn, whose NaN becomes −0). float8_e8m0fnu: the nearest
 *   power of two, ties up; zero, negative and too large values become NaN; too small ones 2^-127.
 * - `rne_sat`: the same, but beyond the largest value, infinity included, stays the largest value. Not for float8_e8m0fnu.
 * - `ceil_sat`, `floor`: float8_e8m0fnu only, of |x|: the power of two at or above (largest 2^127), at or below.
 */
export type Rounding = "rne" | "rne_sat" | "ceil_sat" | "floor";

/** A sign, an exponent and a mantissa in 16 bits or fewer. Codes here are magnitudes, without the sign bit. */
interface NarrowFormat {
  readonly mantissaBits: number;
  readonly bias: number;
  readonly signBit: number;
  /** The largest finite value; beyond it lies infinity, or NaN where there is none, or nothing where there is neither. */
  readonly max: number;
  readonly infinity?: number;
  readonly nan?: number;
}

const formats: Partial<Record<DType, NarrowFormat>> = {
  float16: { mantissaBits: 10, bias: 15, signBit: 0x8000, max: 0x7bff, infinity: 0x7c00, nan: 0x7e00 },
  bfloat16: { mantissaBits: 7, bias: 127, signBit: 0x8000, max: 0x7f7f, infinity: 0x7f80, nan: 0x7fc0 },
  float8_e4m3fn: { mantissaBits: 3, bias: 7, signBit: 0x80, max: 0x7e, nan: 0x7f },
  float8_e5m2: { mantissaBits: 2, bias: 15, signBit: 0x80, max: 0x7b, infinity: 0x7c, nan: 0x7e },
  float4_e2m1fn: { mantissaBits: 1, bias: 1, signBit: 0x8, max: 0x7 },
};

const float32Infinity = 0x7f800000;
const scratch = new Float32Array(1);
const scratchBits = new Uint32Array(scratch.buffer);

/** The narrow code of float32 `bits`, nearest with ties to even. */
function encodeNarrow(format: NarrowFormat, bits: number, saturate: boolean): number {
  const { mantissaBits, bias, signBit, max } = format;
  const sign = bits >>> 31 === 0 ? 0 : signBit;
  const magnitude = bits & 0x7fffffff;
  if (magnitude > float32Infinity) {
    if (format.nan !== undefined) return format.nan | sign;
    return saturate ? max : signBit;
  }
  const exponent = Math.max(magnitude >>> 23, 1);
  const denormalBits = 128 - bias - exponent; // how far below the format's smallest normal number
  let code: number;
  if (denormalBits <= 0) {
    const shift = 23 - mantissaBits;
    const rounded = magnitude + (1 << (shift - 1)) - 1 + ((magnitude >>> shift) & 1);
    code = (rounded >>> shift) - ((127 - bias) << mantissaBits);
  } else {
    const shift = 23 - mantissaBits + denormalBits;
    if (shift > 24) return sign; // below half of the smallest number
    const significand = (magnitude & 0x7fffff) | 0x800000;
    code = (significand + (1 << (shift - 1)) - 1 + ((significand >>> shift) & 1)) >>> shift;
  }
  if (code > max) code = saturate ? max : (format.infinity ?? format.nan ?? max);
  return code | sign;
}

/** The float8_e8m0fnu code (a biased exponent, 255 = NaN) of float32 `bits`. */
function encodeExponent(bits: number, rounding: Rounding): number {
  const magnitude = bits & 0x7fffffff;
  if (magnitude > float32Infinity) return 255;
  if (rounding === "floor") return magnitude >>> 23;
  if (rounding === "ceil_sat") {
    if (magnitude <= 0x400000) return 0; // 2^-127, a float32 denormal, and everything below
    return Math.min((magnitude + 0x7fffff) >>> 23, 254);
  }
  if (bits === 0 || bits >>> 31 === 1) return 255;
  // Among float32's denormals convert is not the nearest: all between 2^-127 and 2^-126 goes up (measured).
  if (magnitude < 0x800000) return magnitude > 0x400000 ? 1 : 0;
  return (magnitude + 0x400000) >>> 23;
}

/** float32 bits to bfloat16 bits, as `encodeNarrow` but faster: the two types differ by the mantissa's length only. */
function encodeBfloat16(bits: number): number {
  if ((bits & 0x7fffffff) > float32Infinity) return (bits >>> 16) | 0x7fc0;
  return (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}

function encoder(dtype: DType, rounding: Rounding): (bits: number) => number {
  if (dtype === "float8_e8m0fnu") {
    invariant(rounding !== "rne_sat", "float8_e8m0fnu rounds by rne, ceil_sat or floor");
    return (bits) => encodeExponent(bits, rounding);
  }
  const format = formats[dtype];
  invariant(format !== undefined, `${dtype} is no narrow float`);
  invariant(rounding === "rne" || rounding === "rne_sat", `${dtype} rounds by rne or rne_sat, not ${rounding}`);
  const saturate = rounding === "rne_sat";
  if (dtype === "bfloat16" && !saturate) return encodeBfloat16;
  return (bits) => encodeNarrow(format, bits, saturate);
}

function decodeNarrow(format: NarrowFormat, code: number): number {
  const { mantissaBits, bias, signBit } = format;
  const sign = (code & signBit) === 0 ? 1 : -1;
  const magnitude = code & (signBit - 1);
  if (magnitude > format.max) return magnitude === format.infinity ? sign * Infinity : NaN;
  const exponent = magnitude >>> mantissaBits;
  const mantissa = magnitude & ((1 << mantissaBits) - 1);
  if (exponent === 0) return sign * mantissa * 2 ** (1 - bias - mantissaBits);
  return sign * (mantissa + (1 << mantissaBits)) * 2 ** (exponent - bias - mantissaBits);
}

const tables = new Map<DType, Float32Array>();

/** All values of a narrow format, index = code. Every one of them is a float32. */
function decodeTable(dtype: DType): Float32Array {
  let table = tables.get(dtype);
  if (table === undefined) {
    const format = formats[dtype];
    invariant(format !== undefined || dtype === "float8_e8m0fnu", `${dtype} is no float`);
    const decodeOne = (code: number) => (format ? decodeNarrow(format, code) : code === 255 ? NaN : 2 ** (code - 127));
    table = Float32Array.from({ length: 2 ** dtypeInfo(dtype).bits }, (_, code) => decodeOne(code));
    tables.set(dtype, table);
  }
  return table;
}

/** The value of one stored element of a float dtype: a code, or for float32 and float64 the number itself. */
export function decode(dtype: DType, code: number): number {
  if (dtype === "float32" || dtype === "float64") return code;
  const table = decodeTable(dtype);
  return table[code & (table.length - 1)]!;
}

/** The largest finite value of a float dtype. */
export function maxFinite(dtype: DType): number {
  if (dtype === "float64") return Number.MAX_VALUE;
  if (dtype === "float32") return 3.4028234663852886e38;
  return dtype === "float8_e8m0fnu" ? 2 ** 127 : decode(dtype, formats[dtype]?.max ?? 0);
}

/** Values of stored elements of a float dtype. float32 and float64 arrays are returned as they are, not copied. */
export function decodeArray(dtype: DType, data: TypedArray): Float32Array | Float64Array {
  if (data instanceof Float32Array || data instanceof Float64Array) {
    invariant(data instanceof dtypeInfo(dtype).array, `${dtype} is not stored as ${data.constructor.name}`);
    return data;
  }
  invariant(data instanceof Uint8Array || data instanceof Uint16Array, `${dtype} is not stored as codes`);
  const values = new Float32Array(data.length);
  if (dtype === "bfloat16") {
    const bits = new Uint32Array(values.buffer);
    for (let i = 0; i < data.length; i++) bits[i] = data[i]! << 16;
    return values;
  }
  const table = decodeTable(dtype);
  const mask = table.length - 1;
  for (let i = 0; i < data.length; i++) values[i] = table[data[i]! & mask]!;
  return values;
}

/**
 * Float32 bits of `x` rounded to odd: truncated, with the last bit set where anything was cut off. Rounding the result
 * again to at least two bits fewer equals rounding `x` once.
 */
function bitsRoundedToOdd(x: number): number {
  scratch[0] = x;
  const nearest = scratch[0];
  const bits = scratchBits[0]!;
  if (nearest === x || Number.isNaN(x)) return bits;
  return (Math.abs(nearest) > Math.abs(x) ? bits - 1 : bits) | 1;
}

function float32Bits(dtype: DType, values: ArrayLike<number>): Uint32Array {
  if (dtype !== "bfloat16" && dtype !== "float16" && !(values instanceof Float32Array)) {
    return Uint32Array.from(values, bitsRoundedToOdd);
  }
  const floats = values instanceof Float32Array ? values : new Float32Array(values);
  return new Uint32Array(floats.buffer, floats.byteOffset, floats.length);
}

/**
 * `values` as elements of a float dtype, in its host storage (bit patterns below 32 bits). A float32 source is rounded
 * once; see the top of the file for float64. An array that already is the storage is returned as it is.
 */
export function encodeArray(dtype: DType, values: ArrayLike<number>, rounding: Rounding = "rne"): TypedArray {
  if (dtype === "float32") return values instanceof Float32Array ? values : new Float32Array(values);
  if (dtype === "float64") return values instanceof Float64Array ? values : new Float64Array(values);
  const encodeOne = encoder(dtype, rounding);
  const bits = float32Bits(dtype, values);
  const codes = dtypeInfo(dtype).bits === 16 ? new Uint16Array(bits.length) : new Uint8Array(bits.length);
  for (let i = 0; i < bits.length; i++) codes[i] = encodeOne(bits[i]!);
  return codes;
}

/** The function that gives the code of a float32 value in a narrow dtype; take it once for a loop. */
export function encoderOf(dtype: DType, rounding: Rounding): (x: number) => number {
  const encodeOne = encoder(dtype, rounding);
  return (x) => {
    scratch[0] = x;
    return encodeOne(scratchBits[0]!);
  };
}

/** One value as a code of a narrow dtype; see `encodeArray`. */
export function encode(dtype: DType, value: number, rounding: Rounding = "rne"): number {
  return Number(encodeArray(dtype, [value], rounding)[0]);
}

function roundToBfloat16(x: number): number {
  scratch[0] = x;
  scratchBits[0] = encodeBfloat16(scratchBits[0]!) << 16;
  return scratch[0]!;
}

/** The function that rounds an operation's result to `dtype` (through float32, `rne`); take it once for a loop. */
export function rounder(dtype: DType): (x: number) => number {
  if (dtype === "float64") return (x) => x;
  if (dtype === "float32") return Math.fround;
  if (dtype === "bfloat16") return roundToBfloat16;
  const table = decodeTable(dtype);
  const encodeOne = encoder(dtype, "rne");
  return (x) => {
    scratch[0] = x;
    return table[encodeOne(scratchBits[0]!)]!;
  };
}

/** `x` rounded to the nearest value of a float dtype, as an operation's result is; see `rounder`. */
export function roundTo(dtype: DType, x: number): number {
  return dtype === "bfloat16" ? roundToBfloat16(x) : rounder(dtype)(x);
}

/** Packs 4-bit codes two a byte: even index in the low nibble, a missing last one as 0. */
export function packNibbles(codes: Uint8Array): Uint8Array {
  const packed = new Uint8Array(Math.ceil(codes.length / 2));
  for (let i = 0; i < codes.length; i++) packed[i >> 1]! |= (codes[i]! & 15) << ((i & 1) * 4);
  return packed;
}

/** The inverse of `packNibbles`: `length` codes (default: two for each byte). */
export function unpackNibbles(packed: Uint8Array, length = packed.length * 2): Uint8Array {
  const codes = new Uint8Array(length);
  for (let i = 0; i < length; i++) codes[i] = (packed[i >> 1]! >> ((i & 1) * 4)) & 15;
  return codes;
}
