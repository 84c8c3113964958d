/** A GGUF file, opened lazily: the head, then tensors or parts of them by position, so files of any size work. */
import { type FileHandle, open } from "node:fs/promises";
import { nearest } from "../base/nearest.ts";
import { dtypeInfo } from "../core/dtype.ts";
import { type HostArray, hostArray, sizeOf } from "../core/index.ts";
import { fail, failToOpen, readHeader } from "./head.ts";
import type { GgufHeader, GgufTensor } from "./header.ts";

/** An open file, or all parts of a split one. `close()` it; it holds file descriptors. */
export interface GgufFile extends GgufHeader {
  /** Of a split file, its first part's. */
  readonly path: string;
  /** A whole tensor: F32, F16 and BF16 as they are, blocks decoded to float32. @throws UserError where there is none */
  read(name: string): Promise<HostArray>;
  /** Values `begin` … `begin + count` in row-major order, both multiples of the type's block, as [count]. @throws UserError */
  readPart(name: string, begin: number, count: number): Promise<HostArray>;
  /** Gives the file descriptors back; nothing can be read afterwards. */
  close(): Promise<void>;
}

/** Bytes of one system call. */
const chunkBytes = 16 * 1024 * 1024;

/** Opens one file, whatever it is a part of. @throws UserError (E_GGUF) */
export async function openOneGguf(path: string): Promise<GgufFile> {
  const file = await open(path, "r").catch((error: unknown) => failToOpen(path, error));
  try {
    const header = readHeader(file.fd, path);
    const readPart = async (name: string, begin: number, count: number): Promise<HostArray> => {
      const tensor = header.tensors.get(name) ?? refuseName(path, name, header);
      return decodePart(await bytesOf(file, path, tensor, begin, count), tensor, count);
    };
    return {
      path,
      ...header,
      readPart,
      read: async (name) => {
        const { shape } = header.tensors.get(name) ?? refuseName(path, name, header);
        const { dtype, data } = await readPart(name, 0, sizeOf(shape));
        return hostArray(shape, dtype, data);
      },
      close: () => file.close(),
    };
  } catch (error) {
    await file.close();
    throw error;
  }
}

function refuseName(path: string, name: string, { tensors }: GgufHeader): never {
  const near = nearest(name, tensors.keys());
  return fail(path, `no tensor "${name}" among ${tensors.size}${near ? `. Did you mean "${near}"?` : ""}`);
}

async function readFully(file: FileHandle, path: string, target: Uint8Array, position: number): Promise<void> {
  for (let done = 0; done < target.length; ) {
    const length = Math.min(chunkBytes, target.length - done);
    const { bytesRead } = await file.read(target, done, length, position + done);
    if (bytesRead === 0) fail(path, `cut off: no byte ${position + done}`);
    done += bytesRead;
  }
}

async function bytesOf(file: FileHandle, path: string, tensor: GgufTensor, begin: number, count: number) {
  const { blockValues, blockBytes, name } = tensor.type;
  if (begin % blockValues !== 0 || count % blockValues !== 0 || begin < 0 || begin + count > sizeOf(tensor.shape)) {
    fail(path, `values ${begin} to ${begin + count} of [${tensor.shape}] are no blocks of ${name}`);
  }
  const bytes = new Uint8Array((count / blockValues) * blockBytes);
  await readFully(file, path, bytes, tensor.begin + (begin / blockValues) * blockBytes);
  return bytes;
}

function decodePart(bytes: Uint8Array, { type }: GgufTensor, count: number): HostArray {
  const { decodeBlock, blockBytes, blockValues, dtype } = type;
  if (decodeBlock === undefined) return hostArray([count], dtype, new (dtypeInfo(dtype).array)(bytes.buffer));
  const values = new Float32Array(count);
  for (let block = 0; block * blockValues < count; block++) {
    decodeBlock(bytes, block * blockBytes, values, block * blockValues);
  }
  return hostArray([count], dtype, values);
}
