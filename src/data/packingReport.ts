/** How well documents fill the sequences of a data set. */

export interface PackingReport {
  /** T */
  readonly windowLength: number;
  readonly sequences: number;
  readonly documents: number;
  /** Documents and parts of documents in all sequences together. */
  readonly pieces: number;
  /** Places in the sequences that hold a token. */
  readonly targets: number;
  /** Documents that are longer than a sequence, and so are in several. */
  readonly cut: number;
}

/** Share of the places that is padding, 0 to 1. */
export function paddingShare({ sequences, windowLength, targets }: PackingReport): number {
  return sequences === 0 ? 0 : 1 - targets / (sequences * windowLength);
}
