/** Tokens, ends of documents and masks in files, read by place: memory stays flat whatever their size. */
import { closeSync, openSync, readSync } from "node:fs";
import { invariant, UserError } from "../base/errors.ts";
import type { TokenArray, TokenStream } from "./tokenStream.ts";

/** How ids are stored, little-endian. */
export type TokenWidth = "uint16" | "uint32";

export const bytesOfWidth = (width: TokenWidth): 2 | 4 => (width === "uint16" ? 2 : 4);

export interface TokenFiles {
  /** Ids, one after the other. */
  readonly tokens: { readonly path: string; readonly width: TokenWidth; readonly offset?: number };
  /** In tokens. */
  readonly length: number;
  /** float64 of each document: just after its last token. */
  readonly ends: string;
  readonly documents: number;
  /** uint8 of each token: 1 where it is to be predicted. */
  readonly mask?: string;
}

/** A stream that has files open: `close` it. */
export interface OpenTokens extends TokenStream {
  close(): void;
}

/** @throws UserError where a file can't be opened */
export function openTokens({ tokens, length, ends, documents, mask }: TokenFiles): OpenTokens {
  const opened: PlacedFile[] = [];
  const open = (path: string) => {
    const file = new PlacedFile(path);
    opened.push(file);
    return file;
  };
  const close = () => {
    for (const file of opened) file.close();
  };
  try {
    const [tokenFile, endFile, maskFile] = [open(tokens.path), open(ends), mask === undefined ? undefined : open(mask)];
    const { width, offset = 0 } = tokens;
    const array = width === "uint16" ? Uint16Array : Uint32Array;
    return {
      length,
      documents,
      read(start, count): TokenArray {
        invariant(start >= 0 && count >= 0 && start + count <= length, `tokens ${start} + ${count} of ${length}`);
        const ids = new array(count);
        tokenFile.read(ids, offset + start * array.BYTES_PER_ELEMENT);
        return ids;
      },
      readEnds(first, count) {
        invariant(first >= 0 && count >= 0 && first + count <= documents, `ends ${first} + ${count} of ${documents}`);
        const values = new Float64Array(count);
        endFile.read(values, first * 8);
        return values;
      },
      ...(maskFile && {
        readMask(start: number, count: number) {
          const values = new Uint8Array(count);
          maskFile.read(values, start);
          return values;
        },
      }),
      close,
    };
  } catch (error) {
    close();
    throw error;
  }
}

/** A file that is read by place. Owns its descriptor. */
export class PlacedFile {
  readonly path: string;
  #fd: number;

  /** @throws UserError where it can't be opened */
  constructor(path: string) {
    this.path = path;
    try {
      this.#fd = openSync(path, "r");
    } catch (error) {
      throw new UserError("E_DATASET_READ", `${path}: can't be read (${(error as Error).message})`, { cause: error });
    }
  }

  /** Fills `into` from byte `position` on. @throws UserError where the file ends before */
  read(into: ArrayBufferView, position: number): void {
    const bytes = new Uint8Array(into.buffer, into.byteOffset, into.byteLength);
    for (let done = 0; done < bytes.length; ) {
      const count = readSync(this.#fd, bytes, done, bytes.length - done, position + done);
      if (count === 0) {
        throw new UserError(
          "E_DATASET_READ",
          `${this.path}: ends before byte ${position + bytes.length}; it was cut off since it was opened`,
        );
      }
      done += count;
    }
  }

  close(): void {
    if (this.#fd >= 0) closeSync(this.#fd);
    this.#fd = -1;
  }
}
