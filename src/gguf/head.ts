/** The head of a GGUF file on disk, read at once: it is small against the tensors, and tokenizers need nothing else. */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { UserError } from "../base/errors.ts";
import { type GgufHeader, maxHeadBytes, parseGgufHeader } from "./header.ts";
import { MoreBytes } from "./metadata.ts";

/** Bytes of the first try; tries grow from there. */
const firstBytes = 1 << 20;

export function fail(path: string, message: string): never {
  throw new UserError("E_GGUF", `${path}: ${message}`);
}

export function failToOpen(path: string, error: unknown): never {
  const { code } = error as NodeJS.ErrnoException;
  return fail(path, code === "ENOENT" ? "no such file" : `cannot be opened (${code})`);
}

/** @throws UserError (E_GGUF) where the file is missing, cut off or malformed, or has tensors of a type that is not read */
export function readGgufHeader(path: string): GgufHeader {
  let fd: number;
  try {
    fd = openSync(path, "r");
  } catch (error) {
    return failToOpen(path, error);
  }
  try {
    return readHeader(fd, path);
  } finally {
    closeSync(fd);
  }
}

/** The head of an open file. @throws UserError (E_GGUF) */
export function readHeader(fd: number, path: string): GgufHeader {
  const stat = fstatSync(fd);
  if (!stat.isFile()) fail(path, "it is no file");
  const most = Math.min(stat.size, maxHeadBytes);
  for (let length = Math.min(firstBytes, most); ; length = Math.min(length * 4, most)) {
    const bytes = new Uint8Array(length);
    for (let done = 0; done < length; ) {
      const bytesRead = readSync(fd, bytes, done, length - done, done);
      if (bytesRead === 0) fail(path, `cut off: no byte ${done}`);
      done += bytesRead;
    }
    try {
      return parseGgufHeader(bytes, stat.size);
    } catch (error) {
      if (error instanceof UserError) fail(path, error.message);
      if (!(error instanceof MoreBytes)) throw error;
      if (length === most) fail(path, `its head takes more than ${most} bytes`);
    }
  }
}
