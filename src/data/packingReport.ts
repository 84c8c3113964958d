/** How well documents fill the sequences of a data set. */

/** Counts of sequences, and of what is in them. */
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

/** Of sequences of one length, from several sources. */
export function addReports(reports: readonly PackingReport[]): PackingReport {
  const sum = (key: keyof PackingReport) => reports.reduce((total, report) => total + report[key], 0);
  return {
    windowLength: reports[0]!.windowLength,
    ...{ sequences: sum("sequences"), documents: sum("documents"), pieces: sum("pieces") },
    ...{ targets: sum("targets"), cut: sum("cut") },
  };
}

/** Share of the places that is padding, 0 to 1. */
export function paddingShare({ sequences, windowLength, targets }: PackingReport): number {
  return sequences === 0 ? 0 : 1 - targets / (sequences * windowLength);
}

/** Of a report, in a sentence for people. */
export function packingText(report: PackingReport): string {
  const { sequences, windowLength, pieces, cut } = report;
  const number = (value: number) => value.toLocaleString("en");
  const each = (pieces / sequences).toLocaleString("en", { maximumFractionDigits: 1 });
  const padding = (100 * paddingShare(report)).toLocaleString("en", { maximumFractionDigits: 1 });
  const longer = cut === 0 ? "" : `; ${number(cut)} longer than a sequence, and cut`;
  return `packing: ${number(sequences)} sequences of ${number(windowLength)} tokens, ${each} documents each; ${padding} % padding${longer}`;
}
