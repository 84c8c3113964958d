/** What quantizing did to each weight, as rows and as a table. */
import type { TensorError } from "../checkpoint/index.ts";

export interface ErrorRow {
  readonly name: string;
  readonly shape: readonly number[];
  /** Σ(w − ŵ)² / Σw². */
  readonly relativeSquaredError: number;
  /** −10·log10 of it; null where there is no error. */
  readonly snrDb: number | null;
  readonly maxAbsError: number;
  readonly saturatedPercent: number;
  /** Of all elements, those that were not 0 and became 0. */
  readonly underflowPercent: number;
  readonly zeroBlocks: number;
  readonly blocks: number;
}

/** One row a tensor, the largest error first. */
export function errorRows(tensors: readonly TensorError[]): ErrorRow[] {
  return tensors
    .map((tensor) => {
      const relative = tensor.squares === 0 ? 0 : tensor.squaredError / tensor.squares;
      return {
        name: tensor.name,
        shape: tensor.shape,
        relativeSquaredError: relative,
        snrDb: relative === 0 ? null : -10 * Math.log10(relative),
        maxAbsError: tensor.maxAbsError,
        saturatedPercent: (100 * tensor.saturated) / tensor.elements,
        underflowPercent: (100 * tensor.underflows) / tensor.elements,
        zeroBlocks: tensor.zeroBlocks,
        blocks: tensor.blocks,
      };
    })
    .sort((a, b) => b.relativeSquaredError - a.relativeSquaredError);
}

/** Rows of the table before it is cut; --json has all. */
const shownRows = 20;
const barWidth = 12;

/** The rows as aligned lines, with a bar as long as the error. */
export function showErrors(rows: readonly ErrorRow[]): string[] {
  const largest = rows[0]?.relativeSquaredError || 1;
  const cells = rows
    .slice(0, shownRows)
    .map((row) => [
      row.name,
      row.shape.join("×"),
      row.snrDb === null ? "exact" : row.snrDb.toFixed(1),
      row.relativeSquaredError.toExponential(2),
      row.maxAbsError.toExponential(1),
      row.saturatedPercent.toFixed(2),
      row.underflowPercent.toFixed(2),
      `${row.zeroBlocks}/${row.blocks}`,
      "█".repeat(Math.round((barWidth * row.relativeSquaredError) / largest)),
    ]);
  const head = ["weight", "shape", "SNR dB", "error²", "max error", "saturated %", "to 0 %", "zero blocks", ""];
  const widths = head.map((title, column) =>
    Math.max(...[head, ...cells].map((row) => row[column]!.length), title.length),
  );
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) =>
        column === 0 || column === head.length - 1 ? cell.padEnd(widths[column]!) : cell.padStart(widths[column]!),
      )
      .join("  ")
      .trimEnd();
  const more = rows.length - cells.length;
  return [line(head), ...cells.map(line), ...(more > 0 ? [`… and ${more} with smaller errors; --json has all`] : [])];
}
