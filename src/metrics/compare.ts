/** Runs side by side, as a table. */
import { formatDuration } from "./duration.ts";
import { gapPercent } from "./throughput.ts";

/** What is compared of a run; what is absent is left out of the table. */
export interface RunSummary {
  readonly name: string;
  /** Nats per token on the validation text. */
  readonly validationLoss?: number;
  readonly bitsPerByte?: number;
  /** What the validation was computed in. */
  readonly validationPrecision?: string;
  /** The validation loss in other precisions, by their names. */
  readonly otherValidationLosses?: Readonly<Record<string, number>>;
  /** Steps of the run in each precision, those before it was resumed included. */
  readonly stepsByPrecision?: Readonly<Record<string, number>>;
  /** Nats per token over the last training steps. */
  readonly trainingLoss?: number;
  /** The same of each source of a mixture. */
  readonly sourceTrainingLosses?: Readonly<Record<string, number>>;
  readonly tokensPerSecond?: number;
  /** Fraction of the measured peak. */
  readonly mfu?: number;
  readonly seconds?: number;
}

interface ComparisonRow {
  readonly label: string;
  readonly value: (run: RunSummary) => number | undefined;
  readonly show: (value: number) => string;
  /** Show how far a run lies from the first. */
  readonly gap?: boolean;
}

const showLoss = (loss: number) => loss.toFixed(4);

/** A row for each name that a run has a loss by. */
const lossRows = (
  runs: readonly RunSummary[],
  label: (name: string) => string,
  lossesOf: (run: RunSummary) => Readonly<Record<string, number>> | undefined,
): ComparisonRow[] =>
  [...new Set(runs.flatMap((run) => Object.keys(lossesOf(run) ?? {})))].map((name) => ({
    label: label(name),
    value: (run) => lossesOf(run)?.[name],
    show: showLoss,
    gap: true,
  }));

const rowsOf = (runs: readonly RunSummary[]): readonly ComparisonRow[] => [
  { label: "validation loss", value: (run) => run.validationLoss, show: showLoss, gap: true },
  ...lossRows(
    runs,
    (name) => `validated in ${name}`,
    (run) => run.otherValidationLosses,
  ),
  { label: "bits per byte", value: (run) => run.bitsPerByte, show: (bits) => bits.toFixed(4), gap: true },
  { label: "training loss", value: (run) => run.trainingLoss, show: showLoss, gap: true },
  ...lossRows(
    runs,
    (source) => `training loss of ${source}`,
    (run) => run.sourceTrainingLosses,
  ),
  { label: "tokens/s", value: (run) => run.tokensPerSecond, show: withThousands, gap: true },
  { label: "MFU", value: (run) => run.mfu, show: (mfu) => `${(mfu * 100).toFixed(1)} %` },
  { label: "time", value: (run) => run.seconds, show: formatDuration },
];

/** A table of all runs; each but the first also by its distance from the first. */
export function compareRuns(runs: readonly RunSummary[]): string {
  const [baseline, ...others] = runs;
  if (baseline === undefined) return "";
  const head = ["", baseline.name, ...others.flatMap(({ name }) => [name, "gap"])];
  const body = rowsOf(runs)
    .filter(({ value }) => runs.some((run) => value(run) !== undefined))
    .map(({ label, value, show, gap }) => {
      const base = value(baseline);
      const cell = (run: RunSummary) => {
        const own = value(run);
        return own === undefined ? "–" : show(own);
      };
      const distance = (run: RunSummary) => {
        const own = value(run);
        return gap && base !== undefined && own !== undefined ? percent(gapPercent(base, own)) : "";
      };
      return [label, cell(baseline), ...others.flatMap((run) => [cell(run), distance(run)])];
    });
  return textTable([head, ...body]);
}

/**
 * Rows of cells in columns: the first to the left, the others to the right; a line under the head. Columns beyond `width`
 * characters go into tables of their own below, each with the first column.
 */
export function textTable(table: readonly (readonly string[])[], width = Number.POSITIVE_INFINITY): string {
  const [head, ...body] = table;
  if (head === undefined) return "";
  const widths = head.map((_, column) => Math.max(...table.map((row) => (row[column] ?? "").length)));
  const bands: number[][] = [];
  let left = -1;
  for (let column = 1; column < head.length; column++) {
    left -= 3 + widths[column]!;
    if (bands.length === 0 || left < 0) {
      bands.push([]);
      left = width - widths[0]! - 3 - widths[column]!;
    }
    bands.at(-1)!.push(column);
  }
  const shown = (columns: readonly number[]) => {
    const line = (row: readonly string[]) =>
      [(row[0] ?? "").padEnd(widths[0]!), ...columns.map((column) => (row[column] ?? "").padStart(widths[column]!))]
        .join("   ")
        .trimEnd();
    const rule = "─".repeat(columns.reduce((sum, column) => sum + 3 + widths[column]!, widths[0]!));
    return `${[line(head), rule, ...body.map(line)].join("\n")}\n`;
  };
  return (bands.length === 0 ? [[]] : bands).map(shown).join("\n");
}

/** "+1.23 %", "−0.50 %", "0.00 %". */
export function percent(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  const rounded = Math.abs(value).toFixed(2);
  const sign = Number(rounded) === 0 ? "" : value < 0 ? "−" : "+";
  return `${sign}${rounded} %`;
}

function withThousands(value: number): string {
  return Math.round(value)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, ",");
}
