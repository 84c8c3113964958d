/**
 * The header of a safetensors file: 8 bytes of length (little-endian), then JSON that gives each tensor a dtype, a shape
 * and a byte range of what follows. A file may come from anywhere, so nothing in it is believed before it is checked.
 */
import { UserError } from "../base/errors.ts";
import { parseJson } from "../base/json.ts";
import { dtypeInfo, dtypeOfSafetensors } from "../core/dtype.ts";
import { byteLength, type Spec, showSpec } from "../core/hostArray.ts";

/** Longest header read, in bytes: the limit of the format's own library. */
export const maxHeaderBytes = 100_000_000;

/** A tensor's place: `begin` counts bytes from the end of the header. */
export interface TensorPlace extends Spec {
  readonly begin: number;
  readonly bytes: number;
}

export interface SafetensorsHeader {
  readonly metadata: Readonly<Record<string, string>>;
  readonly tensors: ReadonlyMap<string, TensorPlace>;
}

function fail(message: string): never {
  throw new UserError("E_SAFETENSORS", message);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** The index just past the JSON string that opens at `start`. */
function stringEnd(json: string, start: number): number {
  let at = start + 1;
  while (json[at] !== '"') at += json[at] === "\\" ? 2 : 1;
  return at + 1;
}

/** Fails on a name that stands twice in one object of valid JSON: `JSON.parse` would silently keep the last. */
function refuseRepeatedNames(json: string): void {
  const open: Set<string>[] = [];
  for (let at = 0; at < json.length; at++) {
    const char = json[at];
    if (char === "{") open.push(new Set());
    else if (char === "}") open.pop();
    else if (char === '"') {
      const start = at;
      at = stringEnd(json, start) - 1;
      let next = at + 1;
      while (json.charCodeAt(next) <= 0x20) next++;
      if (json[next] !== ":") continue;
      const name = JSON.parse(json.slice(start, at + 1)) as string;
      if (open.at(-1)!.has(name)) fail(`the name ${JSON.stringify(name)} appears twice in the header`);
      open.at(-1)!.add(name);
    }
  }
}

function parseObject(bytes: Uint8Array): Record<string, unknown> {
  let json: string;
  let header: unknown;
  try {
    json = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    header = parseJson(json);
  } catch {
    return fail("the header is no JSON; is this a safetensors file?");
  }
  if (!isRecord(header)) fail("the header is no JSON object");
  refuseRepeatedNames(json);
  return header;
}

function parseMetadata(metadata: unknown): Record<string, string> {
  if (metadata === undefined) return {};
  if (!isRecord(metadata) || !Object.values(metadata).every((value) => typeof value === "string")) {
    fail("__metadata__ must map names to strings");
  }
  return metadata as Record<string, string>;
}

function parsePlace(name: string, entry: unknown): TensorPlace {
  if (!isRecord(entry)) fail(`tensor "${name}" has no description`);
  const { dtype: dtypeName, shape, data_offsets: offsets } = entry;
  const dtype = typeof dtypeName === "string" ? dtypeOfSafetensors(dtypeName) : undefined;
  if (dtype === undefined) {
    return fail(`tensor "${name}" has the dtype ${JSON.stringify(dtypeName)}, which Halfbyte does not read`);
  }
  if (!Array.isArray(shape) || !shape.every(isCount)) fail(`tensor "${name}" has no valid shape`);
  const [begin, end, ...more]: unknown[] = Array.isArray(offsets) ? offsets : [];
  if (!isCount(begin) || !isCount(end) || begin > end || more.length > 0) {
    return fail(`tensor "${name}" has no valid data_offsets`);
  }
  // A product beyond 2^53 is inexact here, but then it is far beyond any end - begin.
  if (byteLength({ shape, dtype }) !== end - begin) {
    fail(`tensor "${name}" is ${showSpec({ shape, dtype })}, but data_offsets give it ${end - begin} bytes`);
  }
  return { dtype, shape, begin, bytes: end - begin };
}

/**
 * Parses and checks the JSON `bytes` of a header before `dataBytes` bytes of data: the tensors must tile the data without
 * gap or overlap. @throws UserError (E_SAFETENSORS)
 */
export function parseHeader(bytes: Uint8Array, dataBytes: number): SafetensorsHeader {
  const { __metadata__, ...entries } = parseObject(bytes);
  const metadata = parseMetadata(__metadata__);
  const tensors = new Map(Object.entries(entries).map(([name, entry]) => [name, parsePlace(name, entry)] as const));
  let position = 0;
  const inOrder = [...tensors].sort(([, a], [, b]) => a.begin - b.begin || a.bytes - b.bytes);
  for (const [name, { begin, bytes: size }] of inOrder) {
    if (begin < position) fail(`tensor "${name}" overlaps the one before it (byte ${begin})`);
    if (begin > position) fail(`${begin - position} bytes before tensor "${name}" belong to no tensor`);
    position = begin + size;
  }
  if (position > dataBytes) fail(`the tensors need ${position} bytes, the file has ${dataBytes}: it is cut off`);
  if (position < dataBytes) fail(`${dataBytes - position} bytes at the end of the file belong to no tensor`);
  return { metadata, tensors };
}

/**
 * Lays out tensors and writes their header, padded with spaces so that the data begins at a multiple of 8 bytes. Wider
 * elements come first, so every tensor is aligned; then by name, so equal contents give equal files.
 * @throws UserError on a repeated or reserved name and on a dtype that the format has no name for
 */
export function buildHeader(
  specs: Iterable<readonly [string, Spec]>,
  metadata: Readonly<Record<string, string>>,
): { readonly bytes: Uint8Array; readonly places: ReadonlyMap<string, TensorPlace> } {
  const width = ({ dtype }: Spec) => dtypeInfo(dtype).array.BYTES_PER_ELEMENT;
  const inOrder = [...specs].sort(([a, x], [b, y]) => width(y) - width(x) || (a < b ? -1 : a > b ? 1 : 0));
  const places = new Map<string, TensorPlace>();
  const header: Record<string, unknown> = Object.create(null);
  if (Object.keys(metadata).length > 0) header.__metadata__ = metadata;
  let begin = 0;
  for (const [name, { shape, dtype }] of inOrder) {
    const dtypeName = dtypeInfo(dtype).safetensors;
    if (name === "__metadata__" || places.has(name)) fail(`the tensor name "${name}" is reserved or given twice`);
    if (dtypeName === undefined) fail(`tensor "${name}": safetensors has no ${dtype}; pack it and save uint8`);
    const bytes = byteLength({ shape, dtype });
    places.set(name, { shape, dtype, begin, bytes });
    header[name] = { dtype: dtypeName, shape, data_offsets: [begin, begin + bytes] };
    begin += bytes;
  }
  const json = new TextEncoder().encode(JSON.stringify(header));
  const bytes = new Uint8Array(8 + Math.ceil(json.length / 8) * 8).fill(0x20);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(bytes.length - 8), true);
  bytes.set(json, 8);
  return { bytes, places };
}
