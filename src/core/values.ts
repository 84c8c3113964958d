/** Values as the interpreter computes with them: every float decoded, in the array type that holds it exactly. */
import { decodeArray, encodeArray, roundTo } from "./codecs.ts";
import { type DType, dtypeInfo } from "./dtype.ts";
import type { HostArray, Shape, Spec } from "./hostArray.ts";
import { sizeOf } from "./hostArray.ts";

export type NumberArray =
  | Float32Array
  | Float64Array
  | Int8Array
  | Int16Array
  | Int32Array
  | Uint8Array
  | Uint16Array
  | Uint32Array;

/**
 * Row-major numbers. 64-bit integers are held as float64: exact to 2^53 from 0, beyond it the nearest. Those of uint64 from
 * 2^63 on are held as the negative number of the same bits, as they come of int64.
 */
export interface Values extends Spec {
  readonly data: NumberArray;
}

/** An array for the decoded values of a dtype. */
export function allocate(dtype: DType, length: number): NumberArray {
  const { kind, bits, array } = dtypeInfo(dtype);
  if (kind === "float") return bits === 64 ? new Float64Array(length) : new Float32Array(length);
  if (bits === 64) return new Float64Array(length);
  return new array(length) as NumberArray;
}

export function toValues(host: HostArray): Values {
  const { kind, bits } = dtypeInfo(host.dtype);
  if (kind === "float") return { shape: host.shape, dtype: host.dtype, data: decodeArray(host.dtype, host.data) };
  const held = (x: bigint) => Number(BigInt.asIntN(64, x));
  const data = bits === 64 ? Float64Array.from(host.data as BigInt64Array, held) : (host.data as NumberArray);
  return { shape: host.shape, dtype: host.dtype, data };
}

export function toHostArray({ shape, dtype, data }: Values): HostArray {
  const { kind, bits, array } = dtypeInfo(dtype);
  if (kind === "float") return { shape, dtype, data: encodeArray(dtype, data as Float32Array) };
  if (bits !== 64) return { shape, dtype, data };
  const wide = new array(data.length) as BigInt64Array;
  // 2^63 stands for the number before it, which no float64 holds.
  const toBigInt = (x: number) => (x >= 2 ** 63 ? 2n ** 63n - 1n : BigInt.asUintN(64, BigInt(x)));
  for (let i = 0; i < wide.length; i++) wide[i] = toBigInt(data[i]!);
  return { shape, dtype, data: wide };
}

/** Whether two held numbers of a dtype are in the other order than their values: of uint64, on both sides of 2^63. */
export function isSwapped(dtype: DType, a: number, b: number): boolean {
  return dtype === "uint64" && a < 0 !== b < 0;
}

/** Whether one value stands for itself in a dtype: any number for floats (it is rounded), 0 and 1 for bool. */
export function representable(value: number, dtype: DType): boolean {
  const { kind, bits } = dtypeInfo(dtype);
  if (kind === "float") return true;
  if (kind === "bool") return value === 0 || value === 1;
  const wide = kind === "int" ? bits - 1 : bits;
  return Number.isSafeInteger(value) && value >= (kind === "int" ? -(2 ** wide) : 0) && value < 2 ** wide;
}

/** Values of `spec` from a function of the flat index; floats are rounded to the dtype. */
export function generate({ shape, dtype }: Spec, f: (index: number) => number): Values {
  const data = allocate(dtype, sizeOf(shape));
  const round = rounder(dtype);
  for (let i = 0; i < data.length; i++) data[i] = round(f(i));
  return { shape, dtype, data };
}

/** Rounds a number computed in float64 to a dtype, as XLA does it: through float32 for narrower floats. */
export function rounder(dtype: DType): (x: number) => number {
  const { kind, bits } = dtypeInfo(dtype);
  if (kind !== "float" || bits >= 32) return (x) => x; // typed arrays round and wrap on store
  return (x) => roundTo(dtype, Math.fround(x));
}

/** Row-major strides of a shape. */
export function stridesOf(shape: Shape): number[] {
  const strides = new Array<number>(shape.length);
  let stride = 1;
  for (let i = shape.length - 1; i >= 0; i--) {
    strides[i] = stride;
    stride *= shape[i]!;
  }
  return strides;
}

/**
 * For each element of `shape` in row-major order, the flat offset `base + Σ index[d]·strides[d]` into another array:
 * the one loop behind transpose, slice, broadcast and reverse.
 */
export function offsets(shape: Shape, strides: readonly number[], base = 0): Int32Array {
  const result = new Int32Array(sizeOf(shape));
  if (result.length === 0) return result;
  result[0] = base;
  let filled = 1;
  for (let d = shape.length - 1; d >= 0; d--) {
    const stride = strides[d]!;
    for (let i = 1; i < shape[d]!; i++) {
      for (let j = 0; j < filled; j++) result[i * filled + j] = result[j]! + i * stride;
    }
    filled *= shape[d]!;
  }
  return result;
}

/** The values of `input` at flat `offsets`, in a new shape. */
export function gatherOffsets(input: Values, at: Int32Array, shape: Shape): Values {
  const data = allocate(input.dtype, at.length);
  for (let i = 0; i < at.length; i++) data[i] = input.data[at[i]!]!;
  return { shape, dtype: input.dtype, data };
}
