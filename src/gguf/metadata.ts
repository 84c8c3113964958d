/** Values of a GGUF file's metadata, and a cursor that reads them from bytes that may be anything. */
import { UserError } from "../base/errors.ts";

/** Numbers beyond 2^53 stay bigint; arrays of numbers and booleans (0, 1) are typed arrays. */
export type GgufValue = number | bigint | boolean | string | GgufNumbers | readonly GgufValue[];

/** Arrays of numbers. */
export type GgufNumbers =
  | Uint8Array
  | Int8Array
  | Uint16Array
  | Int16Array
  | Uint32Array
  | Int32Array
  | Float32Array
  | Float64Array
  | BigUint64Array
  | BigInt64Array;

/** Thrown where the bytes at hand end before a value that the file has room for: read more of the file, and begin again. */
export class MoreBytes extends Error {}

export function malformed(message: string): never {
  throw new UserError("E_GGUF", message);
}

/** Arrays in arrays are read to this depth, and so many of them: they take more memory than bytes of the file. */
const [maxDepth, maxInnerArrays] = [3, 1 << 16];

/** Reads forward through the first bytes of a file of `fileSize` bytes. Little-endian. */
export class Cursor {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #fileSize: number;
  #innerArrays = 0;
  at = 0;

  constructor(bytes: Uint8Array, fileSize: number) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#fileSize = fileSize;
  }

  /** Moves over `length` bytes and returns where they begin. @throws UserError where the file has not so many */
  skip(length: number, what: string): number {
    const start = this.at;
    const left = this.#fileSize - start;
    if (length > left) malformed(`${what} needs ${length} bytes at byte ${start}, where ${left} are left`);
    if (start + length > this.#bytes.length) throw new MoreBytes();
    this.at += length;
    return start;
  }

  u32(what: string): number {
    return this.#view.getUint32(this.skip(4, what), true);
  }

  u64(what: string): bigint {
    return this.#view.getBigUint64(this.skip(8, what), true);
  }

  /** A number of things of at least `bytesEach` bytes that follow: never more than the file has room for. */
  count(what: string, bytesEach: number): number {
    const count = this.u64(what);
    const room = Math.floor((this.#fileSize - this.at) / bytesEach);
    if (count > room) malformed(`${what} is ${count}, and the file has room for ${room} at most`);
    return Number(count);
  }

  string(what: string): string {
    const length = this.count(`the length of ${what}`, 1);
    const start = this.skip(length, what);
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(this.#bytes.subarray(start, start + length));
  }

  value(what: string): GgufValue {
    return this.#valueOf(this.u32(`the type of ${what}`), what, 0);
  }

  #valueOf(type: number, what: string, depth: number): GgufValue {
    if (type === stringType) return this.string(what);
    if (type === arrayType) return this.#array(what, depth);
    const kind = numbers[type] ?? malformed(`${what} has the value type ${type}; known are 0 to 12`);
    const [value] = this.#numbers(kind, 1, what);
    if (type === boolType) return value !== 0;
    return typeof value === "bigint" && BigInt(Number(value)) === value && Number.isSafeInteger(Number(value))
      ? Number(value)
      : value!;
  }

  #array(what: string, depth: number): GgufValue {
    if (depth > 0 && (depth === maxDepth || ++this.#innerArrays > maxInnerArrays)) {
      malformed(`${what} is more than ${maxInnerArrays} arrays in arrays, or deeper than ${maxDepth}`);
    }
    const type = this.u32(`the element type of ${what}`);
    const kind = numbers[type];
    if (kind !== undefined) return this.#numbers(kind, this.count(`the size of ${what}`, kind.BYTES_PER_ELEMENT), what);
    if (type !== stringType && type !== arrayType) {
      return malformed(`${what} has elements of the value type ${type}; known are 0 to 12`);
    }
    const count = this.count(`the size of ${what}`, type === stringType ? 8 : 12);
    const values: GgufValue[] = [];
    for (let i = 0; i < count; i++) values.push(this.#valueOf(type, `${what}[${i}]`, depth + 1));
    return values;
  }

  #numbers(kind: NumbersClass, count: number, what: string): GgufNumbers {
    const start = this.skip(count * kind.BYTES_PER_ELEMENT, what);
    // A copy: values in the file are aligned to nothing.
    return new kind(this.#bytes.slice(start, this.at).buffer);
  }
}

type NumbersClass = { new (buffer: ArrayBufferLike): GgufNumbers; readonly BYTES_PER_ELEMENT: number };

const [boolType, stringType, arrayType] = [7, 8, 9];

/** The value types that are numbers, by their number in the file. */
const numbers: Readonly<Record<number, NumbersClass>> = {
  0: Uint8Array,
  1: Int8Array,
  2: Uint16Array,
  3: Int16Array,
  4: Uint32Array,
  5: Int32Array,
  6: Float32Array,
  [boolType]: Uint8Array,
  10: BigUint64Array,
  11: BigInt64Array,
  12: Float64Array,
};
