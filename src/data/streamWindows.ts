/** A stream of tokens cut into windows, each of which begins with the last token of the one before. */
import type { BatchRows, Sequences } from "./batches.ts";
import { fullWindows } from "./packing.ts";
import type { TokenStream } from "./tokenStream.ts";

/**
 * Windows of T targets. Tokens at the end that fill none are left out, or, "padded", make a last window whose other targets
 * do not count.
 */
export function streamWindows(stream: TokenStream, windowLength: number, end: "full" | "padded" = "full"): Sequences {
  const targets = stream.length - 1;
  const padded = end === "padded";
  return {
    count: padded ? Math.ceil(targets / windowLength) : fullWindows(stream.length, windowLength),
    masked: padded || stream.readMask !== undefined,
    write(index, batch, row) {
      const start = index * windowLength;
      writeRow(stream, start, Math.min(windowLength, targets - start), batch, row);
    },
  };
}

/** `count` tokens from `start`, those one further on as targets, and which of these count. */
function writeRow(stream: TokenStream, start: number, count: number, batch: BatchRows, row: number): void {
  const offset = row * batch.windowLength;
  const ids = stream.read(start, count + 1);
  batch.tokens.set(ids.subarray(0, count), offset);
  batch.targets.set(ids.subarray(1), offset);
  if (batch.mask === undefined) return;
  if (stream.readMask) batch.mask.set(stream.readMask(start + 1, count), offset);
  else batch.mask.fill(1, offset, offset + count);
}
