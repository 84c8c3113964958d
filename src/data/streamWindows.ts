/** A stream of tokens cut into windows, each of which begins with the last token of the one before. */
import type { BatchRows, Sequences } from "./batches.ts";
import { fullWindows } from "./packing.ts";
import type { TokenStream } from "./tokenStream.ts";
import { writePiece } from "./writePiece.ts";

export interface StreamWindowsOptions {
  /** What becomes of tokens at the end that fill no window: left out (the default), or a last one whose other targets do not count. */
  readonly end?: "full" | "padded";
  /** Whether batches say which tokens are of which document; the first token of a document is then predicted from none. */
  readonly segmented?: boolean;
}

/** Windows of T targets, cut wherever they end. */
export function streamWindows(
  stream: TokenStream,
  windowLength: number,
  { end = "full", segmented = false }: StreamWindowsOptions = {},
): Sequences {
  const targets = stream.length - 1;
  const padded = end === "padded";
  return {
    count: padded ? Math.ceil(targets / windowLength) : fullWindows(stream.length, windowLength),
    masked: padded || segmented || stream.readMask !== undefined,
    segmented,
    write(index, batch, row) {
      const start = index * windowLength;
      const count = Math.min(windowLength, targets - start);
      writePiece(stream, { start, count }, batch, { row, at: 0, segment: 1 });
      if (segmented) separateDocuments(stream, start, count, batch, row);
    },
  };
}

/** Numbers the documents of `count` tokens from `start`. */
function separateDocuments(stream: TokenStream, start: number, count: number, batch: BatchRows, row: number): void {
  const offset = row * batch.windowLength;
  let document = documentAt(stream, start);
  let from = start;
  for (let segment = 1; from < start + count; segment++) {
    const [end] = stream.readEnds(document++, 1) as unknown as [number];
    const to = Math.min(end, start + count);
    batch.segments!.fill(segment, offset + from - start, offset + to - start);
    // What follows a document's end is of the next.
    if (end <= start + count) batch.mask![offset + end - 1 - start] = 0;
    from = to;
  }
}

/** The document that a position lies in. */
function documentAt(stream: TokenStream, position: number): number {
  let [low, high] = [0, stream.documents - 1];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (stream.readEnds(middle, 1)[0]! > position) high = middle;
    else low = middle + 1;
  }
  return low;
}
