/** PJRT_NamedValue arrays: options into the plugin, attributes out of it. */
import { decodeStruct, writeStruct } from "./api.ts";
import { structLayout } from "./layouts.ts";
import { addressOf, copyBytes, type Pointer, readString, viewAt } from "./native.ts";

/** A value of an attribute. */
export type NamedValue = string | bigint | boolean | number | readonly bigint[];

const types = { string: 0, int64: 1, int64List: 2, float: 3, bool: 4 } as const;

export interface EncodedNamedValues {
  readonly bytes: Uint8Array;
  readonly count: number;
  /** Memory that `bytes` points to; keep it alive with them. */
  readonly held: readonly ArrayBufferView[];
}

/** Options: a bigint is an int64, a number a float. */
export function encodeNamedValues(
  values: Readonly<Record<string, string | bigint | boolean | number>>,
): EncodedNamedValues {
  const { stride } = structLayout("PJRT_NamedValue");
  const entries = Object.entries(values);
  const bytes = new Uint8Array(stride * entries.length);
  const held: ArrayBufferView[] = [];
  const text = (value: string) => {
    const encoded = Buffer.from(value);
    held.push(encoded);
    return encoded;
  };
  entries.forEach(([key, value], i) => {
    const name = text(key);
    let type: number = types.int64;
    let size = 1;
    let bits: bigint;
    if (typeof value === "string") {
      const content = text(value);
      [type, size, bits] = [types.string, content.length, addressOf(content)];
    } else if (typeof value === "boolean") [type, bits] = [types.bool, value ? 1n : 0n];
    else if (typeof value === "number") {
      [type, bits] = [types.float, BigInt(new Uint32Array(new Float32Array([value]).buffer)[0]!)];
    } else bits = value;
    const fields = { name, name_size: name.length, type, value: bits, value_size: size };
    writeStruct("PJRT_NamedValue", fields, bytes, i * stride);
  });
  return { bytes, count: entries.length, held };
}

/** Attributes that the plugin owns, copied. */
export function decodeNamedValues(address: Pointer, count: number): Record<string, NamedValue> {
  const { stride, fields } = structLayout("PJRT_NamedValue");
  const bytes = copyBytes(address, stride * count);
  const view = new DataView(bytes.buffer);
  const valueOffset = fields.find(({ name }) => name === "value")!.offset;
  const result: Record<string, NamedValue> = {};
  for (let i = 0; i < count; i++) {
    const { name, name_size, type, value_size } = decodeStruct("PJRT_NamedValue", bytes, i * stride);
    const at = i * stride + valueOffset;
    const pointer = view.getBigUint64(at, true);
    const key = readString(name, name_size);
    if (type === types.string) result[key] = readString(pointer, value_size);
    else if (type === types.int64) result[key] = view.getBigInt64(at, true);
    else if (type === types.float) result[key] = view.getFloat32(at, true);
    else if (type === types.bool) result[key] = view.getUint8(at) !== 0;
    else {
      const list = viewAt(pointer, 8 * value_size);
      result[key] = Array.from({ length: value_size }, (_, j) => list.getBigInt64(8 * j, true));
    }
  }
  return result;
}
