/** How documents become sequences, as settings say it. */

/** "concat": one stream, cut anywhere. "best_fit": whole documents, as many as fit. "none": a document a sequence. */
export type PackingStrategy = "concat" | "best_fit" | "none";

/** How documents become sequences. */
export interface Packing {
  readonly strategy: PackingStrategy;
  /** Tokens attend to their own document, and positions restart with it. Of no meaning where a sequence has one document. */
  readonly withinDocuments: boolean;
  /** Documents in a sequence of "best_fit", at most; absent: as many as fit. */
  readonly maxSegments?: number;
}

export const concatenated: Packing = { strategy: "concat", withinDocuments: false };

export const packingChoices = ["auto", "concat", "best_fit", "none"] as const;
export const resetChoices = ["auto", "true", "false"] as const;

/** The settings that decide how documents become sequences. */
export interface PackingSettings {
  readonly datasetType: string;
  readonly packing?: (typeof packingChoices)[number];
  readonly resetAttentionMask?: (typeof resetChoices)[number];
  /** -1: as many as fit. */
  readonly maxSegmentsPerSeq?: number;
}

/** Whether documents have parts that are only read, such as prompts. */
const hasPrompts = (datasetType: string): boolean => datasetType === "completion" || datasetType === "chat";

export function strategyOf({ packing = "auto", datasetType }: PackingSettings): PackingStrategy {
  if (packing !== "auto") return packing;
  return hasPrompts(datasetType) ? "best_fit" : "concat";
}

/** Whether tokens attend to their own document alone. */
export function isWithinDocuments(settings: PackingSettings): boolean {
  const { resetAttentionMask = "auto", datasetType } = settings;
  if (resetAttentionMask !== "auto") return resetAttentionMask === "true";
  return strategyOf(settings) !== "concat" || hasPrompts(datasetType);
}

export function packingOf(settings: PackingSettings): Packing {
  if (settings.datasetType === "synthetic") return concatenated;
  const { maxSegmentsPerSeq = -1 } = settings;
  return {
    strategy: strategyOf(settings),
    withinDocuments: isWithinDocuments(settings),
    ...(maxSegmentsPerSeq !== -1 && { maxSegments: maxSegmentsPerSeq }),
  };
}

/** What batches say of their tokens: which targets count, and of which document each token is. */
export function batchForm(settings: PackingSettings): { readonly masked: boolean; readonly segmented: boolean } {
  const { strategy, withinDocuments } = packingOf(settings);
  const segmented = withinDocuments && strategy !== "none";
  return { masked: segmented || strategy !== "concat" || hasPrompts(settings.datasetType), segmented };
}
