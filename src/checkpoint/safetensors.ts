/**
 * Safetensors files: opened lazily (only the header, then one tensor at a time by position, so files of any size work)
 * and written as a stream. Values are little-endian, as on every machine Halfbyte runs on.
 */
import { createHash } from "node:crypto";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { UserError } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";
import { dtypeInfo, type TypedArray } from "../core/dtype.ts";
import { type HostArray, hostArray, type Spec, sameShape, showSpec, sizeOf } from "../core/hostArray.ts";
import { buildHeader, maxHeaderBytes, parseHeader, type TensorPlace } from "./safetensorsHeader.ts";

/** An open file. `close()` it; it holds a file descriptor. */
export interface SafetensorsFile {
  readonly path: string;
  readonly metadata: Readonly<Record<string, string>>;
  /** Shape and dtype of each tensor, by name. */
  readonly tensors: ReadonlyMap<string, Spec>;
  /** @throws UserError where there is no such tensor or the file has been cut off since it was opened */
  read(name: string): Promise<HostArray>;
  /** Values `begin` … `begin + count` of a tensor in row-major order, as [count]. @throws UserError likewise */
  readPart(name: string, begin: number, count: number): Promise<HostArray>;
  /** Closes the file. */
  close(): Promise<void>;
}

/** A tensor to write whose values are fetched when their turn comes. */
export interface LazyArray extends Spec {
  /** Reads or computes the array. */
  load(): Promise<HostArray>;
}

/** A tensor to write whose values come in parts, so that it is never in memory as a whole. */
export interface StreamedArray extends Spec {
  /** Arrays of any shape with the tensor's dtype, whose values one after the other are the tensor's. */
  parts(): AsyncIterable<HostArray>;
}

/** What can be written as a tensor. */
export type ArrayToWrite = HostArray | LazyArray | StreamedArray;

/** Bytes of one system call: Node's limit is 2 GiB, and other work should get a turn in between. */
const chunkBytes = 16 * 1024 * 1024;

/** Bytes that are hashed in a turn of the event loop: some milliseconds, so that steps in flight don't run out meanwhile. */
const writtenBytes = 4 * 1024 * 1024;

/** Bytes after which the disk is told to begin: what is left to the end, nothing is done beside. */
const flushedBytes = 8 * 1024 * 1024;

function fail(path: string, message: string): never {
  throw new UserError("E_SAFETENSORS", `${path}: ${message}`);
}

/** Runs `action`; a typed error from it gets the file's name in front. */
function naming<T>(path: string, action: () => T): T {
  try {
    return action();
  } catch (error) {
    if (error instanceof UserError) fail(path, error.message);
    throw error;
  }
}

/** Fills `target` from byte `position` on. */
async function readFully(file: FileHandle, path: string, target: Uint8Array, position: number): Promise<void> {
  for (let done = 0; done < target.length; ) {
    const length = Math.min(chunkBytes, target.length - done);
    const { bytesRead } = await file.read(target, done, length, position + done);
    if (bytesRead === 0) fail(path, `cut off: no byte ${position + done}`);
    done += bytesRead;
  }
}

async function writeFully(file: FileHandle, data: Uint8Array, position: number): Promise<void> {
  for (let done = 0; done < data.length; ) {
    done += (await file.write(data, done, data.length - done, position + done)).bytesWritten;
  }
}

/** What a clone without Git LFS has in place of a large file: some lines of text. @param begins four bytes or more */
export const isLfsPointer = (begins: Uint8Array): boolean => Buffer.from(begins).toString("latin1", 0, 4) === "vers";
export const lfsPointer = "it is a pointer of Git LFS in place of the file, which `git lfs pull` fetches";

async function readHeader(file: FileHandle, path: string) {
  const stat = await file.stat();
  if (!stat.isFile()) fail(path, "it is no file");
  const { size } = stat;
  if (size < 8) fail(path, `${size} bytes are too few for a safetensors file`);
  const prefix = new Uint8Array(8);
  await readFully(file, path, prefix, 0);
  if (isLfsPointer(prefix)) fail(path, lfsPointer);
  if (Buffer.from(prefix).toString("latin1", 0, 4) === "GGUF") {
    fail(path, `it is a GGUF file: halfbyte convert ${path} output=FOLDER makes a folder with safetensors of it`);
  }
  const length = Number(new DataView(prefix.buffer).getBigUint64(0, true));
  if (length > maxHeaderBytes) fail(path, `a header of ${length} bytes; at most ${maxHeaderBytes} are read`);
  if (8 + length > size)
    fail(path, `a header of ${length} bytes in a file of ${size}: it is cut off or no safetensors`);
  const json = new Uint8Array(length);
  await readFully(file, path, json, 8);
  return { dataStart: 8 + length, ...naming(path, () => parseHeader(json, size - 8 - length)) };
}

function allocate(path: string, place: Spec): TypedArray {
  try {
    return new (dtypeInfo(place.dtype).array)(sizeOf(place.shape));
  } catch (error) {
    if (error instanceof RangeError) fail(path, `${showSpec(place)} does not fit in memory (${error.message})`);
    throw error;
  }
}

interface ValuesToRead extends Spec {
  /** Byte of the file. */
  readonly position: number;
}

async function readValues(
  file: FileHandle,
  path: string,
  { shape, dtype, position }: ValuesToRead,
): Promise<HostArray> {
  const data = allocate(path, { shape, dtype });
  await readFully(file, path, new Uint8Array(data.buffer), position);
  return hostArray(shape, dtype, data);
}

/**
 * Opens a safetensors file and checks its whole header; tensors are read when asked for.
 * @throws UserError (E_SAFETENSORS) where the file is missing, cut off or malformed
 */
export async function openSafetensors(path: string): Promise<SafetensorsFile> {
  const file = await open(path, "r").catch((error: NodeJS.ErrnoException) =>
    fail(path, error.code === "ENOENT" ? "no such file" : `cannot be opened (${error.code})`),
  );
  try {
    const { metadata, tensors, dataStart } = await readHeader(file, path);
    const placeOf = (name: string): TensorPlace => {
      const near = tensors.has(name) ? undefined : nearest(name, tensors.keys());
      const hint = near ? `. Did you mean "${near}"?` : "";
      return tensors.get(name) ?? fail(path, `no tensor "${name}" among ${tensors.size}${hint}`);
    };
    return {
      path,
      metadata,
      tensors,
      async read(name) {
        const { shape, dtype, begin } = placeOf(name);
        return readValues(file, path, { shape, dtype, position: dataStart + begin });
      },
      async readPart(name, begin, count) {
        const { shape, dtype, begin: first } = placeOf(name);
        if (!(begin >= 0 && count >= 0 && begin + count <= sizeOf(shape))) {
          fail(path, `"${name}" is ${showSpec({ shape, dtype })}; it has no values ${begin} to ${begin + count}`);
        }
        const position = dataStart + first + begin * dtypeInfo(dtype).array.BYTES_PER_ELEMENT;
        return readValues(file, path, { shape: [count], dtype, position });
      },
      close: () => file.close(),
    };
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** The bytes of an entry, in as many pieces as it comes in. */
async function* bytesOf(path: string, name: string, place: TensorPlace, entry: ArrayToWrite) {
  const refuse = (came: string) =>
    fail(path, `tensor "${name}" was announced as ${showSpec(place)} and came as ${came}`);
  let values = 0;
  const bytes = (array: HostArray) => {
    values += array.data.length;
    if (array.dtype !== place.dtype || values > sizeOf(place.shape)) refuse(showSpec(array));
    return new Uint8Array(array.data.buffer, array.data.byteOffset, array.data.byteLength);
  };
  if ("parts" in entry) for await (const part of entry.parts()) yield bytes(part);
  else {
    const array = "load" in entry ? await entry.load() : entry;
    if (!sameShape(array.shape, place.shape)) refuse(showSpec(array));
    yield bytes(array);
  }
  if (values < sizeOf(place.shape)) refuse(`${values} values`);
}

/**
 * Writes tensors as a safetensors file, one at a time, under another name that is renamed at the end: a file at `path`
 * is always whole. Returns its size and SHA-256 (hex), taken on the way.
 * @throws UserError on a repeated name or a dtype without a safetensors name (packed 4-bit types are saved as uint8)
 */
export async function writeSafetensors(
  path: string,
  entries: Iterable<readonly [string, ArrayToWrite]>,
  metadata: Readonly<Record<string, string>> = {},
): Promise<{ readonly bytes: number; readonly sha256: string }> {
  const byName = [...entries];
  const { bytes: header, places } = naming(path, () => buildHeader(byName, metadata));
  const sources = new Map(byName);
  const partial = `${path}.partial`;
  const hash = createHash("sha256");
  let bytes = 0;
  let flushed = 0;
  let flush: Promise<void> | undefined;
  let flushFailure: { readonly error: unknown } | undefined;
  const file = await open(partial, "w");
  const beginFlush = () => {
    flushed = bytes;
    flush = file
      .datasync()
      .catch((error: unknown) => {
        // The system tells it once: a later sync of the file would succeed.
        flushFailure = { error };
      })
      .finally(() => {
        flush = undefined;
      });
  };
  try {
    const append = async (data: Uint8Array) => {
      for (let at = 0; at < data.length; at += writtenBytes) {
        const chunk = data.subarray(at, at + writtenBytes);
        // The disk has it while it is hashed.
        const written = writeFully(file, chunk, bytes);
        hash.update(chunk);
        await written;
        bytes += chunk.length;
        if (flush === undefined && bytes - flushed >= flushedBytes) beginFlush();
      }
    };
    await append(header);
    for (const [name, place] of places) {
      for await (const piece of bytesOf(path, name, place, sources.get(name)!)) await append(piece);
    }
    await flush;
    if (flushFailure !== undefined) throw flushFailure.error;
    await file.sync();
    await file.close();
    await rename(partial, path);
  } catch (error) {
    await flush;
    await file.close().catch(() => {});
    await rm(partial, { force: true });
    throw error;
  }
  return { bytes, sha256: hash.digest("hex") };
}
