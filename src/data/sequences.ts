/** How documents become sequences: cut from one stream, or packed whole. */
import { UserError } from "../base/errors.ts";
import { type BatchShape, emptyBatch, type Sequences } from "./batches.ts";
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

/** @throws UserError where no token of the sequences is to be predicted, such as of chats in which nobody answers */
export function requireTargets(split: string, sequences: Sequences, windowLength: number): void {
  const { count, masked, segmented } = sequences;
  for (let index = 0; index < count; index++) {
    if (!masked) return;
    const batch = emptyBatch({ batchSize: 1, windowLength }, masked, segmented);
    sequences.write(index, batch, 0);
    if (batch.mask!.includes(1)) return;
  }
  throw new UserError(
    "E_TOO_FEW_TOKENS",
    `the ${split} has ${count} sequence(s), and no token in them that is to be predicted: only what follows another token of its document counts, and of prompts and chats only completions and what the assistant says. Add such text`,
  );
}
