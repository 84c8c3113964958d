/**
 * Weights as inference programs store them: quantized on the host, in the conventions of compressed-tensors, which are not
 * those of training (scales.ts). All arithmetic in float32, one rounding an operation, float32's denormals kept.
 *
 *     e4m3    G = (1/A)·2688      s = E4M3((a/6) · G), 1/8 where that is 0      code = E2M1(w / (s/G))
 *     e8m0    s = 2^(⌊log2 a⌋ − ⌊log2 max⌋), one more where a's mantissa is 1.75 or above      code = round(w / s)
 *     float   s = D(a / 448), D's epsilon where that is 0      code = E4M3(D(w / s))
 *
 * a: the largest magnitude in what a scale covers; A: in the tensor; max: the element's largest value; D: rounding to the
 * dtype of the weight.
 */
import { decode, decodeArray, encodeArray, encoderOf, packNibbles, rounder } from "../core/codecs.ts";
import { type DType, dtypeInfo, type HostArray, type TypedArray } from "../core/index.ts";
import { type ElementName, e2m1, e4m3, formats } from "./formats.ts";

/** How a weight [out, in] is stored: its elements and what shares a scale. */
export type WeightStorage =
  | { readonly element: "e2m1"; readonly scale: "e4m3"; readonly group: 16 }
  | { readonly element: "e2m1" | "e4m3"; readonly scale: "e8m0"; readonly group: 32 }
  /** Of `rows` × `columns` elements; Infinity stands for all there are. */
  | { readonly element: "e4m3"; readonly scale: "float"; readonly rows: number; readonly columns: number };

/** A weight's codes and scales. */
export interface EncodedWeight {
  /** E2M1 two a byte (the even index in the low four bits), E4M3 one. */
  readonly codes: Uint8Array;
  /** One byte for each group of a row; empty where scales are floats. */
  readonly scales: Uint8Array;
  /** Of what codes decode to in float32; infinite where a code times its scale is beyond it. */
  readonly largestDecoded: number;
  readonly error: QuantizationError;
}

/** What rounding did to a weight. */
export interface QuantizationError {
  readonly elements: number;
  /** Σ(w − ŵ)² and Σw². */
  readonly squaredError: number;
  readonly squares: number;
  readonly maxAbsError: number;
  /** Elements beyond the format's largest value. */
  readonly saturated: number;
  /** Elements that were not 0 and became 0. */
  readonly underflows: number;
  readonly blocks: number;
  /** Blocks of zeros. */
  readonly zeroBlocks: number;
}

const maxFloat32 = 3.4028234663852886e38;
/** The largest element times the largest block scale. */
const range = e2m1.max * e4m3.max;
/** What a block scale of 0 is replaced by: the distance from 1 to the next E4M3 number. */
const scaleOfNothing = 0.125;
/** From 1 to the next number: what a scale of 0 is replaced by. */
const epsilons: Partial<Record<DType, number>> = { bfloat16: 2 ** -7, float16: 2 ** -10, float32: 2 ** -23 };

/** Dtypes of weights that can be quantized. */
export const quantizableDTypes: readonly DType[] = ["bfloat16", "float16", "float32"];

const { fround } = Math;

/** Magnitudes of stored floats compare as integers, NaN above infinity. */
function magnitudes({ dtype, data }: HostArray): { readonly bits: Uint16Array | Uint32Array; readonly mask: number } {
  if (data instanceof Uint16Array) return { bits: data, mask: 0x7fff };
  const { buffer, byteOffset, length } = data as Float32Array;
  return { bits: new Uint32Array(buffer, byteOffset, length), mask: dtypeInfo(dtype).bits === 32 ? 0x7fffffff : 0 };
}

const fromBits = (dtype: DType, bits: number): number =>
  dtype === "float32" ? (new Float32Array(Uint32Array.of(bits).buffer)[0] as number) : decode(dtype, bits);

/** The largest magnitude of each region of a matrix, row by row of regions; NaN where one is NaN. */
function largestOfRegions(w: HostArray, rows: number, columns: number): Float32Array {
  const [out, inner] = w.shape as [number, number];
  const [height, width] = [Math.min(rows, out), Math.min(columns, inner)];
  const across = Math.ceil(inner / width);
  const { bits, mask } = magnitudes(w);
  const largest = new Uint32Array(Math.ceil(out / height) * across);
  for (let r = 0; r < out; r++) {
    const base = Math.floor(r / height) * across;
    for (let region = 0; region < across; region++) {
      const end = r * inner + Math.min((region + 1) * width, inner);
      let most = largest[base + region]!;
      for (let i = r * inner + region * width; i < end; i++) {
        const magnitude = bits[i]! & mask;
        if (magnitude > most) most = magnitude;
      }
      largest[base + region] = most;
    }
  }
  return Float32Array.from(largest, (most) => fromBits(w.dtype, most));
}

/** G, for a largest magnitude A; 1 for a tensor of zeros. */
export function globalScale(amax: number): number {
  return amax === 0 ? 1 : Math.min(fround(fround(1 / amax) * range), maxFloat32);
}

/** A float scale: a / 448 in the dtype, never 0. */
export function floatScale(amax: number, dtype: DType): number {
  return rounder(dtype)(fround(amax / e4m3.max)) || epsilons[dtype]!;
}

/**
 * The first pass over a weight: its float scales (one for the tensor where blocks have bytes of their own, none for e8m0).
 * undefined where the weight holds a NaN or an infinity.
 */
export function floatScalesOf(w: HostArray, storage: WeightStorage): Float32Array | undefined {
  const [rows, columns] = storage.scale === "float" ? [storage.rows, storage.columns] : [Infinity, Infinity];
  const largest = largestOfRegions(w, rows, columns);
  if (!largest.every(Number.isFinite)) return undefined;
  switch (storage.scale) {
    case "e4m3":
      return largest.map(globalScale);
    case "e8m0":
      return new Float32Array(0);
    case "float":
      return largest.map((amax) => floatScale(amax, w.dtype));
  }
}

const encodeE4m3 = encoderOf("float8_e4m3fn", "rne_sat");
const scratch = new Float32Array(1);
const scratchBits = new Uint32Array(scratch.buffer);

/** E8M0's byte for a block whose largest magnitude is `amax`. */
function exponentByte(amax: number, element: "e2m1" | "e4m3"): number {
  scratch[0] = amax;
  // A quarter of the exponent's step carries into the exponent from a mantissa of 1.75 on.
  // Near float32's end that would give values beyond it, so there the exponent stays.
  const exponent = Math.min((scratchBits[0]! + 0x200000) >>> 23, 254);
  return Math.max(0, exponent - (element === "e2m1" ? 2 : 8));
}

const codeTables = new Map<ElementName, Uint8Array>();

/** The code of each bfloat16, to nearest with ties to even, saturating. */
function codesOfBfloat16(element: "e2m1" | "e4m3"): Uint8Array {
  let table = codeTables.get(element);
  if (table === undefined) {
    const all = Uint16Array.from({ length: 2 ** 16 }, (_, i) => i);
    table = encodeArray(formats[element].dtype!, decodeArray("bfloat16", all), "rne_sat") as Uint8Array;
    codeTables.set(element, table);
  }
  return table;
}

/** The bfloat16 that rounds to narrower formats as the float32 does: cut, its last bit set where anything was cut off. */
const toOddBfloat16 = (bits: number): number => (bits >>> 16) | ((bits & 0xffff) === 0 ? 0 : 1);

const toNearestBfloat16 = (bits: number): number => ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff;

const valuesOf = {
  e2m1: Float32Array.from({ length: 16 }, (_, code) => decode("float4_e2m1fn", code)),
  e4m3: Float32Array.from({ length: 256 }, (_, code) => decode("float8_e4m3fn", code)),
} as const;

/**
 * Quantizes a weight [out, in], all of whose values are finite; `in` is a multiple of the group.
 * @param floats what `floatScalesOf` gave
 */
export function encodeWeight(w: HostArray, storage: WeightStorage, floats: Float32Array): EncodedWeight {
  const [out, inner] = w.shape as [number, number];
  const { element } = storage;
  const width = storage.scale === "float" ? Math.min(storage.columns, inner) : storage.group;
  const height = storage.scale === "float" ? Math.min(storage.rows, out) : 1;
  const across = Math.ceil(inner / width);
  const scales = new Uint8Array(storage.scale === "float" ? 0 : out * across);
  const codes = new Uint8Array(out * inner);
  const { max } = element === "e2m1" ? e2m1 : e4m3;
  const values = valuesOf[element];
  const table = codesOfBfloat16(element);
  const narrow = storage.scale !== "float" ? toOddBfloat16 : narrowing(w.dtype);
  let [squaredError, squares, maxAbsError, saturated, underflows, zeroBlocks, largestDecoded] = [0, 0, 0, 0, 0, 0, 0];
  const quotients = new Float32Array(width);
  const quotientBits = new Uint32Array(quotients.buffer);
  for (let r = 0; r < out; r++) {
    const row = decodeArray(w.dtype, w.data.subarray(r * inner, (r + 1) * inner) as TypedArray);
    for (let block = 0; block < across; block++) {
      const [begin, end] = [block * width, Math.min((block + 1) * width, inner)];
      let divisor: number;
      if (storage.scale === "float") divisor = floats[Math.floor(r / height) * across + block]!;
      else {
        let amax = 0;
        for (let i = begin; i < end; i++) amax = Math.max(amax, Math.abs(row[i]!));
        if (amax === 0) zeroBlocks++;
        if (storage.scale === "e4m3") {
          const global = floats[0]!;
          const byte = encodeE4m3(fround(fround(amax / e2m1.max) * global)) || encodeE4m3(scaleOfNothing);
          scales[r * across + block] = byte;
          divisor = fround(valuesOf.e4m3[byte]! / global);
        } else {
          const byte = exponentByte(amax, element);
          scales[r * across + block] = byte;
          divisor = 2 ** (byte - 127);
        }
      }
      for (let i = begin; i < end; i++) quotients[i - begin] = row[i]! / divisor;
      for (let i = begin; i < end; i++) {
        const v = row[i]!;
        const q = quotients[i - begin]!;
        const code = table[narrow(quotientBits[i - begin]!)]!;
        codes[r * inner + i] = code;
        const value = values[code]!;
        const decoded = fround(value * divisor);
        if (decoded > largestDecoded) largestDecoded = decoded;
        else if (-decoded > largestDecoded) largestDecoded = -decoded;
        const error = Math.abs(v - decoded);
        squaredError += error * error;
        squares += v * v;
        if (error > maxAbsError) maxAbsError = error;
        if (q > max || q < -max) saturated++;
        if (value === 0 && v !== 0) underflows++;
      }
    }
  }
  const ofFloats = storage.scale === "float";
  if (ofFloats) {
    const largest = largestOfRegions(w, storage.rows, storage.columns);
    zeroBlocks = largest.filter((amax) => amax === 0).length;
  }
  const blocks = ofFloats ? floats.length : scales.length;
  return {
    codes: element === "e2m1" ? packNibbles(codes) : codes,
    scales,
    largestDecoded,
    error: { elements: codes.length, squaredError, squares, maxAbsError, saturated, underflows, blocks, zeroBlocks },
  };
}

/** Rounds the bits of a quotient to the weight's dtype, on the way to a table's index. */
function narrowing(dtype: DType): (bits: number) => number {
  if (dtype === "bfloat16") return toNearestBfloat16;
  if (dtype === "float32") return toOddBfloat16;
  const toDType = rounder(dtype);
  return (bits) => {
    scratchBits[0] = bits;
    scratch[0] = toDType(scratch[0]!);
    return toOddBfloat16(scratchBits[0]!);
  };
}

/** Stored codes with the factor of each of their blocks, whatever convention stored it. */
export interface DecodableWeight {
  readonly element: "e2m1" | "e4m3";
  /** [out, in]. */
  readonly shape: readonly [number, number];
  readonly codes: Uint8Array;
  /** Float32 factors, row by row of blocks. */
  readonly factors: Float32Array;
  readonly block: { readonly rows: number; readonly columns: number };
}

/** Values of a stored weight, row by row: code times factor, rounded to float32. */
export function decodeWeight({ element, shape, codes, factors, block }: DecodableWeight): Float32Array {
  const [out, inner] = shape;
  const values = valuesOf[element];
  const [height, width] = [Math.min(block.rows, out), Math.min(block.columns, inner)];
  const across = Math.ceil(inner / width);
  const result = new Float32Array(out * inner);
  for (let r = 0; r < out; r++) {
    for (let i = 0; i < inner; i++) {
      const at = r * inner + i;
      const code = element === "e2m1" ? (codes[at >> 1]! >> ((at & 1) * 4)) & 15 : codes[at]!;
      result[at] = values[code]! * factors[Math.floor(r / height) * across + Math.floor(i / width)]!;
    }
  }
  return result;
}
