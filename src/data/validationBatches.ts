/** Validation batches: every token of the validation data, each once, whatever the number of processes that share them. */
import { invariant, UserError } from "../base/errors.ts";
import type { HostArray } from "../core/hostArray.ts";
import { type Batch, type BatchShape, emptyBatch, finishBatch, type Sequences } from "./batches.ts";
import { onlyProcess, type ProcessPart, rowsOfProcess } from "./processPart.ts";
import { sequencesOf } from "./sequences.ts";
import type { TokenStream } from "./tokenStream.ts";

/** A validation batch also knows the bytes of text its targets stand for, the unit of bits per byte. */
export interface ValidationBatch extends Batch {
  readonly mask: HostArray;
  readonly targetBytes: number;
}

/** The batches of one pass over the validation text. */
export interface ValidationBatches {
  /** Of all processes together. */
  readonly windows: number;
  /** The same for each process. */
  readonly batches: number;
  /** Batch `index` (from 0). Windows come in their order, each once; the last batch is filled up with padding. */
  batchAt(index: number): ValidationBatch;
  /** The sources' names, in the order they are given in; absent where there is one. */
  readonly sources?: readonly string[];
  /** The source that batch `index` is all of; absent where there is one. */
  sourceAt?(index: number): string;
  /**
   * What one of several processes reads: its rows of each batch, as in training. Together they read every window once, in an order
   * that their number does not change; rows behind the last window are padding, and may be all that a process has of the last batch.
   * @throws UserError where a batch can't be shared out evenly
   */
  ofProcess(part: ProcessPart): ValidationBatches;
}

/** Validation batches over every token of a stream. @param bytesOfToken bytes of text by token id. */
export function validationBatches(
  stream: TokenStream,
  shape: BatchShape,
  bytesOfToken: ArrayLike<number>,
): ValidationBatches {
  return validationOf(sequencesOf(stream, shape, "padded"), shape, bytesOfToken);
}

/** The same of sequences that are there: those of a whole stream, its end padded. */
export function validationOf(
  sequences: Sequences,
  shape: BatchShape,
  bytesOfToken: ArrayLike<number>,
): ValidationBatches {
  const { batchSize, windowLength } = shape;
  const batches = Math.ceil(sequences.count / batchSize);
  const ofProcess = (part: ProcessPart): ValidationBatches => {
    const positions = rowsOfProcess({ batchSize, windowLength }, part);
    const own = { batchSize: positions.length, windowLength };
    return {
      windows: sequences.count,
      batches,
      ofProcess,
      batchAt(index) {
        invariant(Number.isInteger(index) && index >= 0 && index < batches, `validation batch ${index} of ${batches}`);
        const rows = emptyBatch(own, true, sequences.segmented);
        for (const [row, position] of positions.entries()) {
          const window = index * batchSize + position;
          if (window < sequences.count) sequences.write(window, rows, row);
        }
        const batch = finishBatch(rows, own);
        let targetBytes = 0;
        for (let i = 0; i < rows.targets.length; i++) {
          if (rows.mask![i] === 1) targetBytes += bytesOfToken[rows.targets[i]!]!;
        }
        return { ...batch, mask: batch.mask!, targetBytes };
      },
    };
  };
  return ofProcess(onlyProcess);
}

/** One validation over several sources, of which each has batches of its own. Any beginning of it has some of each. */
export function joinedValidation(
  parts: readonly { readonly name: string; readonly batches: ValidationBatches }[],
): ValidationBatches {
  const [only] = parts;
  if (parts.length === 1) return only!.batches;
  const order = parts
    .flatMap(({ name, batches }) =>
      Array.from({ length: batches.batches }, (_, index) => ({
        name,
        batches,
        index,
        at: (index + 0.5) / batches.batches,
      })),
    )
    .sort((a, b) => a.at - b.at);
  return {
    windows: parts.reduce((sum, { batches }) => sum + batches.windows, 0),
    batches: order.length,
    sources: parts.map(({ name }) => name),
    batchAt(index) {
      const { batches, index: own } = order[index]!;
      return batches.batchAt(own);
    },
    sourceAt: (index) => order[index]!.name,
    ofProcess: (part) =>
      joinedValidation(parts.map(({ name, batches }) => ({ name, batches: batches.ofProcess(part) }))),
  };
}

/**
 * Of the first `maxBatches` batches (default: all), whatever process reads them; those of each source, where there are several.
 * @throws UserError where their targets stand for no byte of text, such as ends of documents alone: bits per byte mean nothing then
 */
export function requireTargetBytes(validation: ValidationBatches, maxBatches: number = validation.batches): void {
  const { batches, batchAt, sourceAt } = validation.ofProcess(onlyProcess);
  const found = new Map<string, boolean>();
  for (let index = 0; index < Math.min(maxBatches, batches); index++) {
    const source = sourceAt?.(index) ?? "";
    if (found.get(source) !== true) found.set(source, batchAt(index).targetBytes > 0);
  }
  const without = [...found].find(([, has]) => !has)?.[0];
  if (without === undefined) return;
  const split = without === "" ? "validation split" : `validation split of ${without}`;
  throw new UserError(
    "E_TOO_FEW_TOKENS",
    `the ${split} has nothing to predict but tokens of no text, such as documents' ends: add text, or raise eval_steps if it is set`,
  );
}
