/** The first bytes of a file, which tell what it is whatever it is called. */
import { closeSync, openSync, readSync } from "node:fs";

/** Up to `most` bytes. */
export function fileBeginning(path: string, most: number): Buffer {
  const fd = openSync(path, "r");
  try {
    const bytes = Buffer.alloc(most);
    return bytes.subarray(0, readSync(fd, bytes, 0, most, 0));
  } finally {
    closeSync(fd);
  }
}
