/** From the data settings to batches: find the files, split them, tokenise, pack. */
import { createHash } from "node:crypto";
import { UserError } from "../base/errors.ts";
import { type TrainingBatches, trainingBatches, type ValidationBatches, validationBatches } from "./batches.ts";
import { holdOutTail, type PackedTokens, requireTokens, tokenPacker } from "./packing.ts";
import { type PackingSettings, packingOf } from "./packingSettings.ts";
import { readTextParts } from "./readText.ts";
import { splitDocuments } from "./split.ts";
import { syntheticBatches } from "./synthetic.ts";
import { listTextFiles, refuseSharedFiles, type TextFile } from "./textFiles.ts";
import { type Tokenizer, textBytes } from "./tokenizer.ts";
import { loadTokenizer } from "./tokenizerFiles.ts";
import { memoryStream, type TokenStream } from "./tokenStream.ts";

/** The data group of a resolved configuration. */
export interface DatasetSettings extends PackingSettings {
  readonly datasetType: "text" | "synthetic";
  /** File, folder or pattern. */
  readonly datasetPath: string;
  /** Validation text, or "". */
  readonly evalDatasetPath: string;
  /** Share of the training text held out for validation; 0 for none. */
  readonly validationFraction: number;
  readonly tokenizerPath: string;
  /** T. */
  readonly maxTargetLength: number;
  /** B. */
  readonly perDeviceBatchSize: number;
}

export interface OpenDatasetOptions {
  /** Rows of the model's embedding: the tokenizer's ids must fit. */
  readonly vocabSize: number;
  readonly shuffleSeed: number;
  /** Micro-batches of a training step; default 1. */
  readonly microBatches?: number;
  /** Instead of the one at `tokenizerPath`. */
  readonly tokenizer?: Tokenizer;
  readonly onProgress?: (done: { readonly bytes: number; readonly of: number }) => void;
}

export interface SplitSize {
  readonly documents: number;
  readonly tokens: number;
}

export interface Dataset {
  readonly train: TrainingBatches;
  readonly validation?: ValidationBatches;
  /** Absent where the data are no text. */
  readonly tokenizer?: Tokenizer;
  /** SHA-256 (hex) of the training tokens, which a resumed run must find again; absent for synthetic data. */
  readonly trainHash?: string;
  /** What was read; absent for synthetic data. */
  readonly size?: { readonly train: SplitSize; readonly validation?: SplitSize; readonly bytes: number };
}

/**
 * Opens the data set, all tokens in memory.
 * @throws UserError for missing or unreadable files, a tokenizer that does not fit the model, and splits too small for
 * a window; all before anything is compiled.
 */
export async function openDataset(settings: DatasetSettings, options: OpenDatasetOptions): Promise<Dataset> {
  const { perDeviceBatchSize: batchSize, maxTargetLength: windowLength } = settings;
  const packing = packingOf(settings);
  const shape = { batchSize, windowLength, microBatches: options.microBatches ?? 1, packing };
  if (settings.datasetType === "synthetic") return syntheticBatches(options.vocabSize, shape, options.shuffleSeed);

  const tokenizer = options.tokenizer ?? loadTokenizer(settings.tokenizerPath);
  requireVocab(tokenizer, options.vocabSize);
  const files = splitFiles(settings);
  const bytes = [...files.train, ...files.validation].reduce((sum, file) => sum + file.bytes, 0);
  let done = 0;
  const pack = (list: readonly TextFile[]) =>
    tokenise(list, tokenizer, (read) => {
      done += read;
      options.onProgress?.({ bytes: done, of: bytes });
    });
  let train = await pack(files.train);
  let validation = files.validation.length > 0 ? await pack(files.validation) : undefined;
  const fraction = settings.evalDatasetPath === "" ? settings.validationFraction : 0;
  if (fraction > 0 && validation === undefined && train.tokens.length > 0) {
    ({ train, validation } = holdOutTail(train, fraction, tokenizer));
  }
  const [training, heldOut] = [memoryStream(train), validation && memoryStream(validation)];

  const { maxTargetLength } = settings;
  const needed = packing.strategy === "concat" ? maxTargetLength + 1 : 2;
  const shorter =
    packing.strategy !== "concat"
      ? "one to start from and one to predict. Add text"
      : `a window of max_target_length=${maxTargetLength} takes ${maxTargetLength + 1}. Add text, or set max_target_length to ${Math.max(1, train.tokens.length - 1)} or less`;
  requireTokens("training", training, needed, shorter);
  const more =
    fraction > 0
      ? `one to start from and one to predict. Raise validation_fraction=${fraction}, or add text`
      : "one to start from and one to predict. Add text to eval_dataset_path";
  // An end token alone is no text.
  if (heldOut !== undefined) requireTokens("validation", heldOut, 2, more);

  return {
    train: trainingBatches(training, shape, options.shuffleSeed),
    ...(heldOut && { validation: validationBatches(heldOut, shape, textBytes(tokenizer)) }),
    tokenizer,
    trainHash: createHash("sha256").update(train.tokens).digest("hex"),
    size: { train: sizeOf(training), ...(heldOut && { validation: sizeOf(heldOut) }), bytes },
  };
}

/** Text to evaluate a model on, every token of it, without any to train on. */
export interface EvaluationText {
  readonly batches: ValidationBatches;
  readonly size: SplitSize & { readonly bytes: number };
}

/** @throws UserError for missing or unreadable files, a tokenizer that does not fit the model, and too little text */
export async function openEvaluation(
  settings: Pick<DatasetSettings, "evalDatasetPath" | "maxTargetLength" | "perDeviceBatchSize">,
  { tokenizer, vocabSize }: { readonly tokenizer: Tokenizer; readonly vocabSize: number },
): Promise<EvaluationText> {
  const { evalDatasetPath, maxTargetLength: windowLength, perDeviceBatchSize: batchSize } = settings;
  requireVocab(tokenizer, vocabSize);
  const files = listTextFiles(evalDatasetPath, "eval_dataset_path");
  const stream = memoryStream(await tokenise(files, tokenizer, () => {}));
  requireTokens("validation", stream, 2, "one to start from and one to predict. Add text to eval_dataset_path");
  return {
    batches: validationBatches(stream, { batchSize, windowLength }, textBytes(tokenizer)),
    size: { ...sizeOf(stream), bytes: files.reduce((sum, file) => sum + file.bytes, 0) },
  };
}

/** The files of both splits; validation is empty where nothing is asked for, or a single document is to be cut. */
export function splitFiles(settings: Pick<DatasetSettings, "datasetPath" | "evalDatasetPath" | "validationFraction">): {
  readonly train: readonly TextFile[];
  readonly validation: readonly TextFile[];
} {
  const files = listTextFiles(settings.datasetPath);
  if (settings.evalDatasetPath === "") return splitDocuments(files, settings.validationFraction);
  const validation = listTextFiles(settings.evalDatasetPath, "eval_dataset_path");
  refuseSharedFiles(files, validation);
  return { train: files, validation };
}

async function tokenise(
  files: readonly TextFile[],
  tokenizer: Tokenizer,
  onRead: (bytes: number) => void,
): Promise<PackedTokens> {
  const packer = tokenPacker(tokenizer);
  let continues = false;
  for await (const part of readTextParts(files)) {
    if (part.text !== "") packer.push(tokenizer.encode(part.text, { continues }));
    if (part.last) packer.endDocument();
    continues = !part.last;
    onRead(Buffer.byteLength(part.text));
  }
  return packer.finish();
}

/** @throws UserError where the tokenizer has ids the model has no row for. */
export function requireVocab(tokenizer: Tokenizer, vocabSize: number): void {
  if (tokenizer.vocabSize <= vocabSize) return;
  throw new UserError(
    "E_VOCAB_SIZE",
    `tokenizer_path=${tokenizer.name} has ${tokenizer.vocabSize} tokens, but the model's vocab_size=${vocabSize}: ids from ${vocabSize} up have no row. Set vocab_size=${tokenizer.vocabSize} or more, or leave it out`,
  );
}

const sizeOf = ({ documents, length }: TokenStream): SplitSize => ({ documents, tokens: length });
