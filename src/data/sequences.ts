/** How documents become sequences: cut from one stream, or packed whole. */
import type { BatchShape, Sequences } from "./batches.ts";
import { documentSequences } from "./documentSequences.ts";
import type { PackingReport } from "./packingReport.ts";
import { streamWindows } from "./streamWindows.ts";
import type { TokenStream } from "./tokenStream.ts";

/** "concat": one stream, cut anywhere. "best_fit": whole documents, as many as fit. "none": a document a sequence. */
export type PackingStrategy = "concat" | "best_fit" | "none";

export interface Packing {
  readonly strategy: PackingStrategy;
  /** Tokens attend to their own document, and positions restart with it. Of no meaning where a sequence has one document. */
  readonly withinDocuments: boolean;
  /** Documents in a sequence of "best_fit", at most; absent: as many as fit. */
  readonly maxSegments?: number;
}

export const concatenated: Packing = { strategy: "concat", withinDocuments: false };

/**
 * @param end what becomes of the tokens at the end of a stream that is cut: left out, or in a last sequence that is padded.
 * Packed documents are all there in either case.
 */
export function sequencesOf(
  stream: TokenStream,
  { windowLength, packing = concatenated }: Pick<BatchShape, "windowLength" | "packing">,
  end: "full" | "padded",
): Sequences & { readonly report?: PackingReport } {
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
