/** How documents become sequences: cut from one stream, or packed whole. */
import { UserError } from "../base/errors.ts";
import { type BatchShape, emptyBatch, type Sequences } from "./batches.ts";
import { documentSequences } from "./documentSequences.ts";
import { concatenated, type PackingStrategy } from "./packingSettings.ts";
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

/** Tokens of a sequence beyond which a longer one would hold padding alone, whatever is in the stream. */
export function usefulLength(stream: TokenStream, strategy: PackingStrategy): number {
  if (strategy !== "none") return Math.max(1, stream.length - 1);
  let [longest, start] = [1, 0];
  for (let first = 0; first < stream.documents; first += documentsAtOnce) {
    for (const end of stream.readEnds(first, Math.min(documentsAtOnce, stream.documents - first))) {
      longest = Math.max(longest, end - start - 1);
      start = end;
    }
  }
  return longest;
}

const documentsAtOnce = 8192;

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
