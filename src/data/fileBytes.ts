/** A file's bytes as a stream of chunks, unpacked where the file's ending says that they are packed. */
import { createReadStream } from "node:fs";
import { createGunzip } from "node:zlib";
import { UserError } from "../base/errors.ts";
import { unzstd } from "./zstdFrames.ts";

export type Compression = "gzip" | "zstd";

export function compressionOf(path: string): Compression | undefined {
  return /\.gz$/i.test(path) ? "gzip" : /\.zst$/i.test(path) ? "zstd" : undefined;
}

/** "a.jsonl" of "a.jsonl.gz" */
export const withoutCompression = (path: string): string => path.replace(/\.(gz|zst)$/i, "");

export interface FileBytesOptions {
  readonly chunkBytes?: number;
  /** Told how many bytes of the file itself were read since the last time. */
  readonly onRead?: (bytes: number) => void;
}

/** @throws UserError where the file can't be read, or unpacked to its end */
export async function* fileBytes(
  path: string,
  { chunkBytes = 1 << 20, onRead = () => {} }: FileBytesOptions = {},
): AsyncGenerator<Uint8Array> {
  const compression = compressionOf(path);
  try {
    if (compression === "gzip") yield* gunzipped(counted(path, chunkBytes, onRead), chunkBytes);
    else if (compression === "zstd") yield* unzstd(counted(path, 1 << 16, onRead));
    else yield* counted(path, chunkBytes, onRead);
  } catch (error) {
    if (error instanceof UserError || !(error instanceof Error)) throw error;
    const fromSystem = "syscall" in error;
    if (compression === undefined && !fromSystem) throw error;
    const what = fromSystem ? "can't be read" : `is damaged, or no ${compression} file`;
    throw new UserError("E_DATASET_READ", `${path}: ${what} (${error.message})`, { cause: error });
  }
}

async function* counted(path: string, highWaterMark: number, onRead: (bytes: number) => void) {
  for await (const chunk of createReadStream(path, { highWaterMark }) as AsyncIterable<Uint8Array>) {
    onRead(chunk.length);
    yield chunk;
  }
}

async function* gunzipped(packed: AsyncGenerator<Uint8Array>, chunkSize: number): AsyncGenerator<Uint8Array> {
  const unpacker = createGunzip({ chunkSize });
  let failure: unknown;
  const feeding = (async () => {
    for await (const chunk of packed) {
      if (unpacker.destroyed) return;
      if (!unpacker.write(chunk)) {
        await new Promise<void>((resolve) => {
          const goOn = () => {
            unpacker.off("drain", goOn).off("close", goOn);
            resolve();
          };
          unpacker.on("drain", goOn).on("close", goOn);
        });
      }
    }
    unpacker.end();
  })().catch((error: unknown) => {
    failure = error;
    unpacker.destroy();
  });
  try {
    yield* unpacker as AsyncIterable<Uint8Array>;
  } catch (error) {
    throw failure ?? error;
  } finally {
    unpacker.destroy();
    await feeding;
  }
}
