/**
 * The one table of element types: what each is called by XLA (MLIR), by safetensors and by PJRT, how many bits a value
 * has, and how it lies in host memory. No other file spells a dtype.
 */
import { callerPlace, UserError } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";

/** What holds the elements of a host array. */
export type TypedArray =
  | Float32Array
  | Float64Array
  | Int8Array
  | Int16Array
  | Int32Array
  | BigInt64Array
  | Uint8Array
  | Uint16Array
  | Uint32Array
  | BigUint64Array;

type TypedArrayClass = {
  new (length: number): TypedArray;
  new (buffer: ArrayBufferLike, byteOffset?: number, length?: number): TypedArray;
  readonly BYTES_PER_ELEMENT: number;
};

export type DTypeKind = "float" | "int" | "uint" | "bool";

export interface DTypeInfo {
  readonly kind: DTypeKind;
  /** Bits of one value. Types of fewer than 8 bits take one byte each in host memory, packed on the device. */
  readonly bits: number;
  readonly mlir: string;
  /** PJRT_Buffer_Type. */
  readonly pjrt: number;
  /** Name in a safetensors header; absent where the format has none. */
  readonly safetensors?: string;
  /** Host storage. Floats without a JavaScript array of their own are stored as bit patterns. */
  readonly array: TypedArrayClass;
}

const table = {
  bool: { kind: "bool", bits: 8, mlir: "i1", pjrt: 1, safetensors: "BOOL", array: Uint8Array },
  int4: { kind: "int", bits: 4, mlir: "i4", pjrt: 21, array: Int8Array },
  int8: { kind: "int", bits: 8, mlir: "i8", pjrt: 2, safetensors: "I8", array: Int8Array },
  int16: { kind: "int", bits: 16, mlir: "i16", pjrt: 3, safetensors: "I16", array: Int16Array },
  int32: { kind: "int", bits: 32, mlir: "i32", pjrt: 4, safetensors: "I32", array: Int32Array },
  int64: { kind: "int", bits: 64, mlir: "i64", pjrt: 5, safetensors: "I64", array: BigInt64Array },
  uint4: { kind: "uint", bits: 4, mlir: "ui4", pjrt: 22, array: Uint8Array },
  uint8: { kind: "uint", bits: 8, mlir: "ui8", pjrt: 6, safetensors: "U8", array: Uint8Array },
  uint16: { kind: "uint", bits: 16, mlir: "ui16", pjrt: 7, safetensors: "U16", array: Uint16Array },
  uint32: { kind: "uint", bits: 32, mlir: "ui32", pjrt: 8, safetensors: "U32", array: Uint32Array },
  uint64: { kind: "uint", bits: 64, mlir: "ui64", pjrt: 9, safetensors: "U64", array: BigUint64Array },
  float64: { kind: "float", bits: 64, mlir: "f64", pjrt: 12, safetensors: "F64", array: Float64Array },
  float32: { kind: "float", bits: 32, mlir: "f32", pjrt: 11, safetensors: "F32", array: Float32Array },
  float16: { kind: "float", bits: 16, mlir: "f16", pjrt: 10, safetensors: "F16", array: Uint16Array },
  bfloat16: { kind: "float", bits: 16, mlir: "bf16", pjrt: 13, safetensors: "BF16", array: Uint16Array },
  float8_e4m3fn: { kind: "float", bits: 8, mlir: "f8E4M3FN", pjrt: 17, safetensors: "F8_E4M3", array: Uint8Array },
  float8_e5m2: { kind: "float", bits: 8, mlir: "f8E5M2", pjrt: 16, safetensors: "F8_E5M2", array: Uint8Array },
  float8_e8m0fnu: { kind: "float", bits: 8, mlir: "f8E8M0FNU", pjrt: 28, safetensors: "F8_E8M0", array: Uint8Array },
  float4_e2m1fn: { kind: "float", bits: 4, mlir: "f4E2M1FN", pjrt: 29, array: Uint8Array },
} as const satisfies Record<string, DTypeInfo>;

/** Element types, by the names that printed programs use. */
export type DType = keyof typeof table;

/** Every dtype, in table order. */
export const dtypes = Object.keys(table) as readonly DType[];

/** What the table says of a dtype. @throws UserError, with the caller's line, where it has no such name */
export function dtypeInfo(dtype: DType): DTypeInfo {
  return Object.hasOwn(table, dtype) ? table[dtype] : refuseDType(dtype, callerPlace());
}

export function isFloat(dtype: DType): boolean {
  return dtypeInfo(dtype).kind === "float";
}

export function isInteger(dtype: DType): boolean {
  const { kind } = dtypeInfo(dtype);
  return kind === "int" || kind === "uint";
}

/** A dtype by its name, for names that come from a user or a file. */
export function parseDType(name: string): DType {
  return Object.hasOwn(table, name) ? (name as DType) : refuseDType(name);
}

function refuseDType(name: string, place?: string): never {
  const near = nearest(String(name), dtypes);
  const hint = near ? `. Did you mean "${near}"?` : `; known: ${dtypes.join(", ")}`;
  throw new UserError("E_DTYPE", `unknown dtype "${name}"${hint}${place === undefined ? "" : ` (at ${place})`}`);
}

/** The dtype of a safetensors name, or undefined where Halfbyte has none. */
export function dtypeOfSafetensors(name: string): DType | undefined {
  return dtypes.find((dtype) => dtypeInfo(dtype).safetensors === name);
}
