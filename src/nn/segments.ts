/** Documents side by side in a sequence: where each begins. A segment is a run of equal numbers along time. */
import { ShapeError } from "../base/errors.ts";
import { cummax, iota, roll, showSpec, type Tensor, where } from "../core/index.ts";

/** segments int32 [B, T] → int32 [B, T]: the position at which each token's segment begins. @throws ShapeError */
export function segmentStarts(segments: Tensor): Tensor {
  if (segments.shape.length !== 2 || segments.dtype !== "int32") {
    throw new ShapeError(`segments: numbers of documents are int32 [batch, time]; got ${showSpec(segments)}`);
  }
  const position = iota(segments.shape, 1, "int32");
  // The first position is compared with the last, and begins a segment at 0 whatever comes of it.
  const begins = segments.ne(roll(segments, 1, 1));
  return cummax(where(begins, position, 0), 1);
}

/** starts int32 [B, T] → int32 [B, T]: positions within segments, from 0. */
export function segmentPositions(starts: Tensor): Tensor {
  return iota(starts.shape, 1, "int32").sub(starts);
}
