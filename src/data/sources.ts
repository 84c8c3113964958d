/** The sources of a data set, open: what each has for training and for validation. */

import { UserError } from "../base/errors.ts";
import type { Tokenizer } from "../tokenizers/tokenizer.ts";
import type { DatasetSettings, OpenDatasetOptions } from "./dataset.ts";
import { holdOutTail, splitStream } from "./documentSelection.ts";
import { parseMixture } from "./mixture.ts";
import { parseColumns, type RecordKind } from "./records.ts";
import { drawBlocks, tellShared } from "./sharedDocuments.ts";
import {
  type DataKind,
  isStored,
  listSourceFiles,
  refuseCopies,
  refuseSameSources,
  refuseSharedFiles,
  type SourceFile,
} from "./sourceFiles.ts";
import { heldOutRules } from "./split.ts";
import { storedTokens } from "./storedTokens.ts";
import { type SourceTokens, textTokens } from "./textTokens.ts";
import { openTokenCache } from "./tokenCache.ts";
import type { TokenStream } from "./tokenStream.ts";

/** A source that is open, for training, validation or both. */
export interface OpenSource {
  readonly name: string;
  readonly weight?: number;
  readonly train?: TokenStream;
  readonly validation?: TokenStream;
  /** Of its tokens, and of how much of them is held out. */
  readonly hash: string;
  /** Tells what is held out; absent where nothing is. */
  readonly heldOut?: string;
  /** SHA-256 of each file, hexadecimal. */
  readonly fileHashes: readonly string[];
  readonly bytes: number;
  readonly badRecords: number;
  close(): void;
}

/** @throws UserError where a file can't be used, or is in both splits */
export async function openSources(
  settings: DatasetSettings,
  tokenizer: Tokenizer,
  { onProgress, say = () => {} }: OpenDatasetOptions,
): Promise<OpenSource[]> {
  const { train, validation } = listSources(settings);
  refuseSharedFiles(filesOf(train), filesOf(validation));
  const bytes = [...filesOf(train), ...filesOf(validation)].reduce((sum, file) => sum + file.bytes, 0);
  const cache = openTokenCache(say);
  const done = { hashing: 0, tokenising: 0 };
  const progress = (doing: keyof typeof done) => (read: number) => {
    done[doing] += read;
    onProgress?.({ doing, bytes: Math.min(done[doing], bytes), of: bytes });
  };
  const [onHashed, onRead] = [progress("hashing"), progress("tokenising")];
  const open = async (files: readonly SourceFile[]) => {
    const kind = kindOf(settings);
    if (isStored(kind)) {
      const { datasetTokenDtype: width = "auto" } = settings;
      return storedTokens(files, { kind, width, tokenizer, cache, onHashed, onRead, say });
    }
    const tokens = await textTokens(files, {
      ...readingOf(settings),
      ...{ tokenizer, tokenizerPath: settings.tokenizerPath, threads: settings.tokenizeWorkers ?? -1, cache },
      ...{ onHashed, onEncoded: onRead },
    });
    const { count, first } = tokens.badRecords;
    if (count > 0) say(`note: ${count} records are left out by dataset_bad_records=skip; the first: ${first}`);
    return tokens;
  };

  const reading: (NamedSource & { readonly weight?: number })[] = [];
  const trainedOn = new Map<string, string>();
  try {
    for (const { path, weight, files } of train) {
      const tokens = await open(files);
      files.forEach((file, i) => {
        trainedOn.set(tokens.fileHashes[i]!, file.path);
      });
      reading.push({ tokens, files, name: path, ...(weight !== undefined && { weight }) });
    }
    const splits = splitSources(reading, settings, tokenizer);
    const opened = reading.map(
      ({ tokens, files, ...source }, i): OpenSource => ({
        ...{ ...source, ...splits[i]!, ...factsOf(files, tokens), close: tokens.stream.close },
      }),
    );
    for (const { path, files } of validation) {
      const tokens = await open(files);
      reading.push({ tokens, files, name: path });
      refuseCopies(files, tokens.fileHashes, trainedOn);
      const trained = reading.slice(0, train.length).map(({ tokens }) => tokens);
      tellShared({ name: path, tokens }, trained, { eosId: tokenizer.eosId, say });
      const { stream, hash } = tokens;
      opened.push({ name: path, validation: stream, hash, ...factsOf(files, tokens), close: stream.close });
    }
    return opened;
  } catch (error) {
    for (const { tokens } of reading) tokens.stream.close();
    throw error;
  } finally {
    cache.hashes.save();
  }
}

/** How records of a data set are read. */
export function readingOf(settings: SourceSettings) {
  const { datasetType, trainDataColumns = "", datasetBadRecords: badRecords = "stop" } = settings;
  const kind = datasetType as RecordKind;
  return { kind, columns: parseColumns(trainDataColumns, kind), badRecords };
}

/** What files hold, of settings that name some. */
const kindOf = ({ datasetType }: Pick<SourceSettings, "datasetType">) => datasetType as DataKind;

const factsOf = (files: readonly SourceFile[], { badRecords, fileHashes }: SourceTokens) => ({
  fileHashes,
  bytes: files.reduce((sum, file) => sum + file.bytes, 0),
  badRecords: badRecords.count,
});

interface ListedSource {
  readonly path: string;
  readonly weight?: number;
  readonly files: readonly SourceFile[];
}

const filesOf = (sources: readonly ListedSource[]) => sources.flatMap(({ files }) => files);

export type SourceSettings = Pick<
  DatasetSettings,
  "datasetType" | "datasetPath" | "evalDatasetPath" | "validationFraction" | "trainDataColumns" | "datasetBadRecords"
>;

/** @throws UserError where files are missing, of a form that can't be read, or without what a setting is about */
export function listSources(settings: SourceSettings): {
  readonly train: readonly ListedSource[];
  readonly validation: readonly ListedSource[];
} {
  const { datasetType, datasetPath, evalDatasetPath } = settings;
  const kind = kindOf({ datasetType });
  const list = (text: string, setting: string) => {
    const sources = parseMixture(text, setting).map((source) => ({
      ...source,
      files: listSourceFiles(source.path, { setting, kind }),
    }));
    refuseSameSources(sources, setting);
    return sources;
  };
  const train = datasetPath === "" ? [] : list(datasetPath, "dataset_path");
  const validation = evalDatasetPath === "" ? [] : list(evalDatasetPath, "eval_dataset_path");
  refuseIdleSettings([...filesOf(train), ...filesOf(validation)], settings);
  return { train, validation };
}

/** @throws UserError where files are all plain texts, and something is set that is about records */
function refuseIdleSettings(
  files: readonly SourceFile[],
  { trainDataColumns = "", datasetBadRecords = "stop" }: SourceSettings,
): void {
  const [first] = files;
  if (first === undefined || files.some(({ form }) => form !== "text")) return;
  const idle = [
    ...(trainDataColumns.trim() === "" ? [] : [`train_data_columns=${trainDataColumns}`]),
    ...(datasetBadRecords === "stop" ? [] : [`dataset_bad_records=${datasetBadRecords}`]),
  ];
  if (idle.length === 0) return;
  throw new UserError(
    "E_NO_EFFECT",
    `${idle.join(" and ")}: without effect, for ${first.path}${files.length === 1 ? " is" : " and all others are"} plain text, which has no records: leave it out; a file of records is named .jsonl or .parquet`,
  );
}

interface NamedSource {
  readonly name: string;
  readonly tokens: SourceTokens;
  readonly files: readonly SourceFile[];
}

/**
 * What of each source is trained on; validation is absent where nothing is held out.
 * @throws UserError where all of a source is held out
 */
function splitSources(
  sources: readonly NamedSource[],
  settings: SourceSettings,
  { eosId }: Tokenizer,
): readonly Pick<OpenSource, "train" | "validation" | "hash" | "heldOut">[] {
  const fraction = heldOutFraction(settings);
  const whole = ({ stream, hash }: SourceTokens): Pick<OpenSource, "train" | "hash"> => ({ train: stream, hash });
  if (fraction === 0) return sources.map(({ tokens }) => whole(tokens));
  const rules = heldOutRules(
    sources.map(({ tokens, files }) => ({
      ...{ files, textDraws: tokens.textDraws, smallestDraw: tokens.smallestDraw },
      documents: tokens.stream.documents,
      hasDraw: (draw) => hasDraw(tokens, draw),
    })),
    fraction,
  );
  const splits = sources.map(({ tokens }, i): ReturnType<typeof splitSources>[number] => {
    const { stream, readDraws, hash } = tokens;
    if (stream.documents === 0) return whole(tokens);
    const rule = rules[i]!;
    const split = rule === "tail" ? holdOutTail(stream, fraction, eosId) : splitStream(stream, readDraws, rule);
    if (split.train.documents === 0) throw allHeldOut(sources[i]!, sources, fraction);
    return { ...split, hash: `${hash} without ${fraction}` };
  });
  // A source whose documents are all in others may hold out none of its own.
  const some = splits.some(({ validation }) => (validation?.documents ?? 0) > 0);
  return splits.map((split) => {
    const { validation, ...kept } = split;
    return some && validation?.documents === 0 ? kept : split;
  });
}

function allHeldOut(source: NamedSource, sources: readonly NamedSource[], fraction: number): UserError {
  const { name, tokens } = source;
  const other = sources.find((one) => one !== source && hasDraw(one.tokens, tokens.smallestDraw));
  const what =
    other === undefined
      ? `validation_fraction=${fraction} takes all of them (equal documents go together). Lower it, add documents`
      : `${other.name} has such documents too, and what one source holds out, all do. Leave ${name} out, lower validation_fraction=${fraction}`;
  return new UserError(
    "E_TOO_FEW_TOKENS",
    `${name} has nothing to train on: its ${tokens.stream.documents} document(s) are all held out for validation. ${what}, or name other validation data by eval_dataset_path`,
  );
}

/** 0 where validation text is given. */
export const heldOutFraction = ({ evalDatasetPath, validationFraction }: SourceSettings): number =>
  evalDatasetPath === "" ? validationFraction : 0;

function hasDraw(tokens: SourceTokens, draw: number): boolean {
  for (const [, draws] of drawBlocks(tokens)) if (draws.includes(draw)) return true;
  return false;
}
