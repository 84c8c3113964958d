/** From the data settings to batches: find the files, tokenise them or find their tokens, split, cut into sequences. */
import { UserError } from "../base/errors.ts";
import { type Tokenizer, textBytes } from "../tokenizers/tokenizer.ts";
import { loadTokenizer } from "../tokenizers/tokenizerFiles.ts";
import { type BatchShape, mixedBatches, type TrainingBatches } from "./batches.ts";
import { type DataHashes, dataHashes } from "./dataHashes.ts";
import { requireDocument, requireTokens } from "./packing.ts";
import { type PackingSettings, packingOf, strategyOf } from "./packingSettings.ts";
import { onlyProcess, type ProcessPart } from "./processPart.ts";
import { requireTargets, sequencesOf, usefulLength } from "./sequences.ts";
import type { DataKind } from "./sourceFiles.ts";
import { type OpenSource, openSources } from "./sources.ts";
import { syntheticBatches } from "./synthetic.ts";
import type { TokenStream } from "./tokenStream.ts";
import { joinedValidation, type ValidationBatches, validationOf } from "./validationBatches.ts";

/** The data group of a resolved configuration. */
export interface DatasetSettings extends PackingSettings {
  readonly datasetType: DataKind | "synthetic";
  /** File, folder or pattern; several of them with weights. */
  readonly datasetPath: string;
  /** Validation text, or "". */
  readonly evalDatasetPath: string;
  /** Share of the training text held out for validation; 0 for none. */
  readonly validationFraction: number;
  /** Names of what records have their document in, separated by commas; empty for the usual ones. */
  readonly trainDataColumns?: string;
  readonly datasetBadRecords?: "stop" | "skip";
  /** How a plain .bin stores ids. */
  readonly datasetTokenDtype?: "auto" | "uint16" | "uint32";
  /** Threads that tokenise; -1 for as many as are worth it. */
  readonly tokenizeWorkers?: number;
  readonly tokenizerPath: string;
  /** T. */
  readonly maxTargetLength: number;
  /** B. */
  readonly perDeviceBatchSize: number;
}

export interface DataProgress {
  /** Files are hashed first, where that is not remembered, to find their tokens; where there are none, they are tokenised. */
  readonly doing: "hashing" | "tokenising";
  readonly bytes: number;
  readonly of: number;
}

export interface OpenDatasetOptions {
  /** Rows of the model's embedding: the tokenizer's ids must fit. */
  readonly vocabSize: number;
  readonly shuffleSeed: number;
  /** Micro-batches of a training step; default 1. */
  readonly microBatches?: number;
  /** The process that reads, of several; default: the only one. */
  readonly part?: ProcessPart;
  /** Instead of the one at `tokenizerPath`, and the same. */
  readonly tokenizer?: Tokenizer;
  readonly onProgress?: (done: DataProgress) => void;
  /** Told in sentences of what a user may want to know. */
  readonly say?: (text: string) => void;
}

export interface SplitSize {
  readonly documents: number;
  readonly tokens: number;
}

/** What was read of a source. */
export interface SourceSize {
  readonly source: string;
  readonly train: SplitSize;
  readonly validation?: SplitSize;
}

export interface Dataset {
  readonly train: TrainingBatches;
  readonly validation?: ValidationBatches;
  /** Absent where the data are no text. */
  readonly tokenizer?: Tokenizer;
  /** What a resumed run must find again; absent for synthetic data. */
  readonly hashes?: DataHashes;
  /** What was read; absent for synthetic data. */
  readonly size?: {
    readonly train: SplitSize;
    readonly validation?: SplitSize;
    readonly bytes: number;
    /** Absent where there is one. */
    readonly sources?: readonly SourceSize[];
    /** Records that were left out; absent for none. */
    readonly badRecords?: number;
  };
  /** Closes its files; absent where it has none. */
  close?(): void;
}

/**
 * Opens the data set: its tokens lie in files that are read as they are needed.
 * @throws UserError for missing or unreadable files, a tokenizer that does not fit the model, and splits too small for
 * a window; all before anything is compiled.
 */
export async function openDataset(settings: DatasetSettings, options: OpenDatasetOptions): Promise<Dataset> {
  const { perDeviceBatchSize: batchSize, maxTargetLength: windowLength } = settings;
  const packing = packingOf(settings);
  const shape = { batchSize, windowLength, microBatches: options.microBatches ?? 1, packing };
  const { shuffleSeed: seed, part = onlyProcess } = options;
  if (settings.datasetType === "synthetic") return syntheticBatches(options.vocabSize, shape, seed, part);

  const tokenizer = options.tokenizer ?? loadTokenizer(settings.tokenizerPath);
  requireVocab(tokenizer, options.vocabSize);
  const sources = await openSources(settings, tokenizer, options);
  try {
    requireEnough(sources, settings);
    const training = sources.flatMap(({ train, ...source }) => (train ? { ...source, train } : []));
    const batches = training.map(({ name, train, weight }) => ({
      ...{ name, sequences: sequencesOf(train, shape, "full") },
      ...(weight !== undefined && { weight }),
    }));
    for (const { name, sequences } of batches) requireTargets(`training split of ${name}`, sequences, windowLength);
    const validation = validationOfAll(sources, shape, tokenizer);
    return {
      train: mixedBatches(batches, shape, { seed, part }),
      ...(validation && { validation: validation.ofProcess(part) }),
      tokenizer,
      hashes: dataHashes(sources, settings),
      size: sizeOfAll(sources),
      close() {
        for (const { close } of sources) close();
      },
    };
  } catch (error) {
    for (const { close } of sources) close();
    throw error;
  }
}

/** Text, prompts or chats to evaluate a model on, every token of it that is to be predicted, without any to train on. */
export interface EvaluationText {
  readonly batches: ValidationBatches;
  readonly size: SplitSize & { readonly bytes: number };
  /** Closes its files. */
  close(): void;
}

/** Windows longer than all of the text are shortened to it, up to a multiple of this. */
const windowUnit = 64;

/** @throws UserError for missing or unreadable files, a tokenizer that does not fit the model, and too little text */
export async function openEvaluation(
  settings: Omit<DatasetSettings, "datasetPath" | "validationFraction" | "tokenizerPath" | "tokenizeWorkers">,
  { tokenizer, vocabSize }: { readonly tokenizer: Tokenizer; readonly vocabSize: number },
): Promise<EvaluationText> {
  const { maxTargetLength: windowLength, perDeviceBatchSize: batchSize } = settings;
  if (settings.datasetType === "synthetic") {
    throw new UserError("E_VALUE", "dataset_type=synthetic: evaluation reads files; leave it out for text");
  }
  requireVocab(tokenizer, vocabSize);
  const whole: DatasetSettings = {
    ...settings,
    ...{ datasetPath: "", validationFraction: 0 },
    // Threads would load the tokenizer anew, which may be part of something else.
    ...{ tokenizerPath: tokenizer.name, tokenizeWorkers: 0 },
  };
  const sources = await openSources(whole, tokenizer, { vocabSize, shuffleSeed: 0 });
  const close = () => {
    for (const source of sources) source.close();
  };
  try {
    requireEnough(sources, whole);
    const strategy = strategyOf(whole);
    const useful = sources.map(({ validation }) => (validation ? usefulLength(validation, strategy) : 1));
    const shortened = Math.ceil(Math.max(...useful) / windowUnit) * windowUnit;
    const shape = { batchSize, windowLength: Math.min(windowLength, shortened), packing: packingOf(whole) };
    const batches = validationOfAll(sources, shape, tokenizer)!;
    const { validation, bytes } = sizeOfAll(sources);
    return { batches, size: { ...validation!, bytes }, close };
  } catch (error) {
    close();
    throw error;
  }
}

/** @throws UserError where a split is too small, with what it has and what it needs */
function requireEnough(sources: readonly OpenSource[], settings: DatasetSettings): void {
  const { maxTargetLength, validationFraction, evalDatasetPath } = settings;
  const isPacked = strategyOf(settings) !== "concat";
  const several = sources.filter(({ train }) => train).length > 1;
  for (const { name, train, validation } of sources) {
    const of = several ? ` of ${name}` : "";
    if (train && isPacked) requireDocument(`training split${of}`, train);
    else if (train) {
      const least = train.length < 2 ? "" : `, or set max_target_length to ${train.length - 1} or less`;
      const heldOut = validation
        ? `; ${validation.documents} document(s) are held out by validation_fraction=${validationFraction}`
        : "";
      const window = `a window of max_target_length=${maxTargetLength} takes ${maxTargetLength + 1}${heldOut}`;
      requireTokens(`training split${of}`, train, maxTargetLength + 1, `${window}. Add text${least}`);
    }
    const more =
      evalDatasetPath === ""
        ? `one to start from and one to predict. Raise validation_fraction=${validationFraction}, or add text`
        : "one to start from and one to predict. Add text to eval_dataset_path";
    // An end token alone is no text.
    if (validation) requireTokens(`validation split${of}`, validation, 2, more);
    if (validation && isPacked) requireDocument(`validation split${of}`, validation);
  }
}

/**
 * What is validated on; undefined where no source has any.
 * @throws UserError where a source has nothing to predict: its loss would be that of no token
 */
function validationOfAll(
  sources: readonly OpenSource[],
  shape: BatchShape,
  tokenizer: Tokenizer,
): ValidationBatches | undefined {
  const bytesOfToken = textBytes(tokenizer);
  const parts = sources.flatMap(({ name, validation }) => {
    if (validation === undefined) return [];
    const sequences = sequencesOf(validation, shape, "padded");
    requireTargets(`validation split of ${name}`, sequences, shape.windowLength);
    return { name, batches: validationOf(sequences, shape, bytesOfToken) };
  });
  return parts.length > 0 ? joinedValidation(parts) : undefined;
}

/** @throws UserError where the tokenizer has ids the model has no row for. */
export function requireVocab(tokenizer: Tokenizer, vocabSize: number): void {
  if (tokenizer.vocabSize <= vocabSize) return;
  throw new UserError(
    "E_VOCAB_SIZE",
    `tokenizer_path=${tokenizer.name} has ${tokenizer.vocabSize} tokens, but the model's vocab_size=${vocabSize}: ids from ${vocabSize} up have no row. Set vocab_size=${tokenizer.vocabSize} or more, or leave it out`,
  );
}

function sizeOfAll(sources: readonly OpenSource[]): NonNullable<Dataset["size"]> {
  const sizes = sources.map(({ name, train, validation }) => ({
    source: name,
    train: sizeOf(train),
    ...(validation && { validation: sizeOf(validation) }),
  }));
  const validations = sizes.flatMap(({ validation }) => validation ?? []);
  const sum = (list: readonly number[]) => list.reduce((a, b) => a + b, 0);
  const badRecords = sum(sources.map((source) => source.badRecords));
  return {
    train: addSizes(sizes.map(({ train }) => train)),
    ...(validations.length > 0 && { validation: addSizes(validations) }),
    bytes: sum(sources.map(({ bytes }) => bytes)),
    ...(sizes.length > 1 && { sources: sizes }),
    ...(badRecords > 0 && { badRecords }),
  };
}

const sizeOf = (stream: TokenStream | undefined): SplitSize => ({
  documents: stream?.documents ?? 0,
  tokens: stream?.length ?? 0,
});

const addSizes = (sizes: readonly SplitSize[]): SplitSize => ({
  documents: sizes.reduce((sum, { documents }) => sum + documents, 0),
  tokens: sizes.reduce((sum, { tokens }) => sum + tokens, 0),
});
