/** Writes GGUF files for tests: metadata of the common types, and tensors given as bytes of a type's number. */
import { writeFileSync } from "node:fs";

export type MetadataToWrite = string | number | boolean | readonly string[] | readonly number[] | Float32Array;

export interface TensorToWrite {
  /** Row-major. */
  readonly shape: readonly number[];
  /** The type's number in the file. */
  readonly type: number;
  readonly bytes: Uint8Array;
}

export interface GgufToWrite {
  readonly version?: number;
  readonly alignment?: number;
  readonly metadata: Readonly<Record<string, MetadataToWrite>>;
  readonly tensors: Readonly<Record<string, TensorToWrite>>;
}

/** The file's bytes. Whole numbers are u32 or i32, other numbers f32; general.alignment is written where it is given. */
export function ggufBytes({ version = 3, alignment, metadata, tensors }: GgufToWrite): Buffer {
  const pairs = Object.entries({ ...metadata, ...(alignment && { "general.alignment": alignment }) });
  const head = [
    Buffer.from("GGUF"),
    u32(version),
    u64(Object.keys(tensors).length),
    u64(pairs.length),
    ...pairs.flatMap(([key, value]) => [text(key), valueBytes(value)]),
  ];
  const unit = alignment ?? 32;
  const data: Buffer[] = [];
  let offset = 0;
  for (const [name, { shape, type, bytes }] of Object.entries(tensors)) {
    head.push(text(name), u32(shape.length), ...[...shape].reverse().map(u64), u32(type), u64(offset));
    data.push(Buffer.from(bytes), padding(bytes.length, unit));
    offset += bytes.length + padding(bytes.length, unit).length;
  }
  const begin = Buffer.concat(head);
  return Buffer.concat([begin, padding(begin.length, unit), ...data]);
}

export function writeGguf(path: string, contents: GgufToWrite): string {
  writeFileSync(path, ggufBytes(contents));
  return path;
}

const padding = (length: number, unit: number): Buffer => Buffer.alloc((unit - (length % unit)) % unit);

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function u64(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

const text = (value: string): Buffer => Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)]);

function numberBytes(value: number, type: number): Buffer {
  const bytes = Buffer.alloc(4);
  if (type === 4) bytes.writeUInt32LE(value);
  else if (type === 5) bytes.writeInt32LE(value);
  else bytes.writeFloatLE(value);
  return bytes;
}

const typeOf = (values: readonly number[] | Float32Array): number => {
  if (values instanceof Float32Array || !values.every(Number.isInteger)) return 6;
  return values.some((value) => value < 0) ? 5 : 4;
};

/** A value with its type in front. */
function valueBytes(value: MetadataToWrite): Buffer {
  if (typeof value === "string") return Buffer.concat([u32(8), text(value)]);
  if (typeof value === "boolean") return Buffer.concat([u32(7), Buffer.of(value ? 1 : 0)]);
  if (typeof value === "number") return Buffer.concat([u32(typeOf([value])), numberBytes(value, typeOf([value]))]);
  if (value instanceof Float32Array || typeof value[0] === "number") {
    const numbers = value as readonly number[] | Float32Array;
    const type = typeOf(numbers);
    return Buffer.concat([u32(9), u32(type), u64(numbers.length), ...Array.from(numbers, (n) => numberBytes(n, type))]);
  }
  return Buffer.concat([u32(9), u32(8), u64(value.length), ...(value as readonly string[]).map(text)]);
}
