/** The fields of a protocol buffer's message: what SentencePiece's files need of the format. */
import type { Refuse } from "./tokenizerParts.ts";

export interface Field {
  readonly number: number;
  /** Integers and floats as numbers (integers modulo 2^32, signed); strings and messages as their bytes. */
  readonly value: number | Uint8Array;
}

/** @throws UserError through `refuse` where the bytes are no message */
export function protocolFields(bytes: Uint8Array, refuse: Refuse): Field[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const fields: Field[] = [];
  let at = 0;
  const take = (length: number) => {
    if (length > bytes.length - at)
      refuse(`not a protocol buffer: byte ${at} of ${bytes.length} begins ${length} bytes`);
    at += length;
    return at - length;
  };
  /** The low 32 bits; the upper ones of a negative number say nothing more. */
  const varint = () => {
    let value = 0;
    for (let shift = 0; shift < 70; shift += 7) {
      const byte = bytes[take(1)]!;
      if (shift < 32) value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return refuse(`not a protocol buffer: a number without an end at byte ${at}`);
  };
  while (at < bytes.length) {
    const key = varint() >>> 0;
    const [number, type] = [key >>> 3, key & 7];
    if (number === 0) refuse(`not a protocol buffer: field 0 at byte ${at}`);
    if (type === 0) fields.push({ number, value: varint() });
    else if (type === 1) fields.push({ number, value: view.getFloat64(take(8), true) });
    else if (type === 5) fields.push({ number, value: view.getFloat32(take(4), true) });
    else if (type === 2) {
      const length = varint() >>> 0;
      const start = take(length);
      fields.push({ number, value: bytes.subarray(start, at) });
    } else refuse(`not a protocol buffer: field ${number} has the wire type ${type}`);
  }
  return fields;
}
