/** SHA-256 of a file, read in parts. */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";

/** Hexadecimal. @param onRead told how many bytes were read since the last time @throws the system's error where it can't be read */
export async function fileHash(path: string, onRead: (bytes: number) => void = () => {}): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20 }) as AsyncIterable<Uint8Array>) {
    hash.update(chunk);
    onRead(chunk.length);
  }
  return hash.digest("hex");
}
