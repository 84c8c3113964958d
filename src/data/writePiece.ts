/** Tokens of a stream into a row of a batch. */
import type { BatchRows } from "./batches.ts";
import type { TokenStream } from "./tokenStream.ts";

/** Tokens that are read, `count` from position `start`; those one further on are predicted. */
export interface Piece {
  readonly start: number;
  readonly count: number;
}

export interface PlaceInRow {
  readonly row: number;
  /** The place of the first token. */
  readonly at: number;
  /** The number of the document, for batches that have them. */
  readonly segment: number;
}

/** Writes tokens, targets, which of these count, and whose they are. */
export function writePiece(
  stream: TokenStream,
  { start, count }: Piece,
  { windowLength, tokens, targets, mask, segments }: BatchRows,
  { row, at, segment }: PlaceInRow,
): void {
  const offset = row * windowLength + at;
  const ids = stream.read(start, count + 1);
  tokens.set(ids.subarray(0, count), offset);
  targets.set(ids.subarray(1), offset);
  segments?.fill(segment, offset, offset + count);
  if (mask === undefined) return;
  if (stream.readMask) mask.set(stream.readMask(start + 1, count), offset);
  else mask.fill(1, offset, offset + count);
}
