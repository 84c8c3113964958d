/**
 * Data: text files and a tokenizer in, batches of int32 tokens out.
 * `openDataset` does it all; training step n's batch is a pure function of (seed, n).
 * A new source of documents joins dataset.ts.
 */
export {
  type Batch,
  type BatchRows,
  type BatchShape,
  type Sequences,
  type TrainingBatches,
  trainingBatches,
} from "./batches.ts";
export type { DataHashes } from "./dataHashes.ts";
export {
  type DataProgress,
  type Dataset,
  type DatasetSettings,
  type EvaluationText,
  type OpenDatasetOptions,
  openDataset,
  openEvaluation,
  requireVocab,
  type SourceSize,
  type SplitSize,
} from "./dataset.ts";
export { readDocuments } from "./documentParts.ts";
export { isMixture, type SequenceOrder, sequenceOrder } from "./mixture.ts";
export { type PackedTokens, packDocuments } from "./packing.ts";
export { type PackingReport, packingText, paddingShare } from "./packingReport.ts";
export { batchForm, type Packing } from "./packingSettings.ts";
export { permutation } from "./permutation.ts";
export { type ProcessPart, rowsOfProcess } from "./processPart.ts";
export { readTextParts, type TextPart } from "./readText.ts";
export { documentOfRecord, type RecordDocument } from "./records.ts";
export { listSourceFiles, type SourceFile } from "./sourceFiles.ts";
export { type Split, splitDocuments } from "./split.ts";
export { streamWindows } from "./streamWindows.ts";
export { syntheticBatches, syntheticEntropy } from "./synthetic.ts";
export { clearTokens, tokenCache } from "./tokenCache.ts";
export { memoryStream, type TokenArray, type TokenStream } from "./tokenStream.ts";
export { type TrainingTexts, trainingTexts } from "./trainingTexts.ts";
export {
  requireTargetBytes,
  type ValidationBatch,
  type ValidationBatches,
  validationBatches,
} from "./validationBatches.ts";
