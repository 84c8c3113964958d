/** How documents become sequences: cut from one stream, or packed whole. */
import type { BatchShape, Sequences } from "./batches.ts";
import { documentSequences } from "./documentSequences.ts";
import { concatenated } from "./packingSettings.ts";
import { streamWindows } from "./streamWindows.ts";
import type { TokenStream } from "./tokenStream.ts";

/**
 * @param end what becomes of the tokens at the end of a stream that is cut: left out, or in a last sequence that is padded.
 * Packed documents are all there in either case.
 */
export function sequencesOf(
  stream: TokenStream,
  { windowLength, packing = concatenated }: Pick<BatchShape, "windowLength" | "packing">,
  end: "full" | "padded",
): Sequences {
  const { strategy, withinDocuments: segmented, maxSegments } = packing;
  switch (strategy) {
    case "concat":
      return streamWindows(stream, windowLength, { end, segmented });
    case "best_fit":
      return documentSequences(stream, windowLength, { segmented, ...(maxSegments !== undefined && { maxSegments }) });
    case "none":
      return documentSequences(stream, windowLength, { segmented: false, maxSegments: 1 });
  }
}
