/**
 * The head of a GGUF file: magic, version, counts, metadata, and where each tensor lies. A file may come from anywhere, so
 * counts, lengths and offsets are checked against its size before anything is made of them.
 */
import { nearest } from "../base/nearest.ts";
import { type Shape, sizeOf } from "../core/index.ts";
import { Cursor, type GgufValue, malformed } from "./metadata.ts";
import { type GgufTensorType, otherTypes, tensorTypes } from "./tensorTypes.ts";

/** A tensor's place. */
export interface GgufTensor {
  /** Row-major: the file's dims the other way round. */
  readonly shape: Shape;
  readonly type: GgufTensorType;
  /** Byte of its file at which it begins. */
  readonly begin: number;
  readonly bytes: number;
}

/** What a file says before its tensors. */
export interface GgufHeader {
  readonly version: number;
  /** By key, such as "general.architecture". */
  readonly metadata: ReadonlyMap<string, GgufValue>;
  readonly tensors: ReadonlyMap<string, GgufTensor>;
}

/** Longest head read, in bytes: some ten times what large vocabularies take. */
export const maxHeadBytes = 256 * 1024 * 1024;

/** Most tensors and most metadata pairs. */
const maxEntries = 1 << 20;

const magic = 0x46554747;

/** Bytes of the shortest entries: a key, a type, a one-byte value; a name, the number of dims, a type, an offset. */
const [leastPair, leastTensor] = [8 + 4 + 1, 8 + 4 + 4 + 8];

/**
 * Parses the head at the beginning of `bytes`, the first of a file of `fileSize`.
 * @throws UserError (E_GGUF) on anything that is not as it must be; MoreBytes where `bytes` end too early
 */
export function parseGgufHeader(bytes: Uint8Array, fileSize: number): GgufHeader {
  const cursor = new Cursor(bytes, fileSize);
  if (cursor.u32("the magic") !== magic) malformed('it does not begin with "GGUF": this is no GGUF file');
  const version = cursor.u32("the version");
  if (version !== 2 && version !== 3) refuseVersion(version);
  const tensorCount = cursor.count("the number of tensors", leastTensor);
  const pairCount = cursor.count("the number of metadata pairs", leastPair);
  if (Math.max(tensorCount, pairCount) > maxEntries) {
    malformed(`it has ${tensorCount} tensors and ${pairCount} metadata pairs; at most ${maxEntries} of each are read`);
  }
  const metadata = new Map<string, GgufValue>();
  for (let i = 0; i < pairCount; i++) {
    const key = cursor.string(`key ${i} of the metadata`);
    if (metadata.has(key)) malformed(`the key "${key}" is there twice`);
    metadata.set(key, cursor.value(`"${key}"`));
  }
  const places = new Map<string, Place>();
  for (let i = 0; i < tensorCount; i++) {
    const name = cursor.string(`the name of tensor ${i}`);
    if (places.has(name)) malformed(`the tensor "${name}" is there twice`);
    places.set(name, readPlace(cursor, name));
  }
  const alignment = alignmentOf(metadata);
  const dataStart = Math.ceil(cursor.at / alignment) * alignment;
  return { version, metadata, tensors: placed(places, { alignment, dataStart, fileSize }) };
}

function refuseVersion(version: number): never {
  const turned = version > 0xffff;
  malformed(
    turned
      ? "it is written in big-endian order, which is not read: write it again on a little-endian machine"
      : `it has version ${version} of the format; versions 2 and 3 are read`,
  );
}

/** A tensor's entry, whose `offset` counts from where the data begins. */
interface Place extends Omit<GgufTensor, "begin"> {
  readonly offset: bigint;
}

function readPlace(cursor: Cursor, name: string): Place {
  const what = `tensor "${name}"`;
  const numDims = cursor.u32(`the number of dims of ${what}`);
  if (numDims > 4) malformed(`${what} has ${numDims} dims; at most 4 are possible`);
  const dims = Array.from({ length: numDims }, () => cursor.u64(`a dim of ${what}`));
  const elements = dims.reduce((product, dim) => product * dim, 1n);
  if (dims.some((dim) => dim > BigInt(Number.MAX_SAFE_INTEGER)) || elements > BigInt(Number.MAX_SAFE_INTEGER)) {
    malformed(`${what} has the dims ${dims.join(" × ")}, which no file has room for`);
  }
  const number = cursor.u32(`the type of ${what}`);
  const type = tensorTypes[number];
  if (type === undefined) return refuseType(what, number);
  const shape = dims.map(Number).reverse();
  if ((shape.at(-1) ?? 1) % type.blockValues !== 0) {
    malformed(
      `${what} has rows of ${shape.at(-1)} values, which ${type.name}'s blocks of ${type.blockValues} don't divide`,
    );
  }
  const bytes = (sizeOf(shape) / type.blockValues) * type.blockBytes;
  return { shape, type, bytes, offset: cursor.u64(`the offset of ${what}`) };
}

function refuseType(what: string, number: number): never {
  const known = Object.values(tensorTypes).map(({ name }) => name);
  const name = otherTypes[number];
  const near = name === undefined ? undefined : nearest(name, known);
  const fix = near === undefined ? "" : `; take a file of another type, such as ${near}`;
  malformed(`${what} is of the type ${name ?? `number ${number}`}; ${known.join(", ")} are read${fix}`);
}

function alignmentOf(metadata: ReadonlyMap<string, GgufValue>): number {
  const alignment = metadata.get("general.alignment") ?? 32;
  const fits = typeof alignment === "number" && alignment >= 1 && alignment <= 1 << 30 && Number.isInteger(alignment);
  if (fits && (alignment & (alignment - 1)) === 0) return alignment;
  return malformed(`general.alignment is ${alignment}; it must be a power of two`);
}

interface Data {
  readonly alignment: number;
  /** Byte of the file. */
  readonly dataStart: number;
  readonly fileSize: number;
}

/** Checks that tensors lie in the file, aligned, and share no byte. */
function placed(places: ReadonlyMap<string, Place>, { alignment, dataStart, fileSize }: Data): Map<string, GgufTensor> {
  const tensors = new Map<string, GgufTensor>();
  for (const [name, { offset, ...place }] of places) {
    if (offset % BigInt(alignment) !== 0n)
      malformed(`tensor "${name}" begins at ${offset}, no multiple of ${alignment}`);
    const begin = dataStart + Number(offset);
    if (begin + place.bytes > fileSize) {
      malformed(`tensor "${name}" ends at byte ${begin + place.bytes} of a file of ${fileSize}: it is cut off`);
    }
    tensors.set(name, { ...place, begin });
  }
  let [end, before] = [0, ""];
  for (const [name, { begin, bytes }] of [...tensors].sort(([, a], [, b]) => a.begin - b.begin || a.bytes - b.bytes)) {
    if (begin < end) malformed(`tensor "${name}" shares bytes with "${before}"`);
    [end, before] = [begin + bytes, name];
  }
  return tensors;
}
