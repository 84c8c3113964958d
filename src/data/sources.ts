/** The sources of a data set, open: what each has for training and for validation. */

import type { DatasetSettings, OpenDatasetOptions } from "./dataset.ts";
import { holdOutTail, splitStream } from "./documentSelection.ts";
import { hashString } from "./hash.ts";
import { parseMixture } from "./mixture.ts";
import { parseColumns, type RecordKind } from "./records.ts";
import { type DataKind, isStored, listSourceFiles, refuseSharedFiles, type SourceFile } from "./sourceFiles.ts";
import { splitDocuments } from "./split.ts";
import { storedTokens } from "./storedTokens.ts";
import { type SourceTokens, textTokens } from "./textTokens.ts";
import { openTokenCache } from "./tokenCache.ts";
import type { Tokenizer } from "./tokenizer.ts";
import type { TokenStream } from "./tokenStream.ts";

/** A source that is open, for training, validation or both. */
export interface OpenSource {
  readonly name: string;
  readonly weight?: number;
  readonly train?: TokenStream;
  readonly validation?: TokenStream;
  /** Of what is trained on. */
  readonly hash: string;
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

  const opened: OpenSource[] = [];
  const trainedOn = new Map<string, string>();
  try {
    for (const { path, weight, files } of train) {
      const tokens = await open(files);
      files.forEach((file, i) => {
        trainedOn.set(tokens.fileHashes[i]!, file.path);
      });
      const split = splitSource(tokens, files, settings, tokenizer);
      const weighted = weight === undefined ? {} : { weight };
      opened.push({ name: path, ...weighted, ...split, ...sizeOfFiles(files, tokens), close: tokens.stream.close });
    }
    for (const { path, files } of validation) {
      const tokens = await open(files);
      const { stream } = tokens;
      const copies = files.filter((_, i) => trainedOn.has(tokens.fileHashes[i]!));
      if (copies.length > 0) {
        const [copy] = copies;
        const original = trainedOn.get(tokens.fileHashes[files.indexOf(copy!)]!);
        say(
          `note: ${copies.length} file(s) of eval_dataset_path are copies of what is trained on, such as ${copy!.path} of ${original}: validation on them says nothing`,
        );
      }
      opened.push({ name: path, validation: stream, hash: "", ...sizeOfFiles(files, tokens), close: stream.close });
    }
    return opened;
  } catch (error) {
    for (const { close } of opened) close();
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

const sizeOfFiles = (files: readonly SourceFile[], { badRecords }: SourceTokens) => ({
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

/** @throws UserError where files are missing, or of a form that can't be read */
export function listSources({ datasetType, datasetPath, evalDatasetPath }: SourceSettings): {
  readonly train: readonly ListedSource[];
  readonly validation: readonly ListedSource[];
} {
  const kind = kindOf({ datasetType });
  const list = (text: string, setting: string) =>
    parseMixture(text, setting).map((source) => ({
      ...source,
      files: listSourceFiles(source.path, { setting, kind }),
    }));
  return {
    train: datasetPath === "" ? [] : list(datasetPath, "dataset_path"),
    validation: evalDatasetPath === "" ? [] : list(evalDatasetPath, "eval_dataset_path"),
  };
}

/** Which documents of a source are trained on; validation is absent where nothing is held out. */
function splitSource(
  { stream, readDraws, smallestDraw, hash }: SourceTokens,
  files: readonly SourceFile[],
  settings: SourceSettings,
  { eosId }: Tokenizer,
): { readonly train: TokenStream; readonly validation?: TokenStream; readonly hash: string } {
  const fraction = settings.evalDatasetPath === "" ? settings.validationFraction : 0;
  if (fraction === 0 || stream.documents === 0) return { train: stream, hash };
  const split = { hash: `${hash} without ${fraction}` };
  if (stream.documents === 1) return { ...holdOutTail(stream, fraction, eosId), ...split };
  return { ...splitStream(stream, readDraws, heldOutRule(files, fraction, smallestDraw)), ...split };
}

/**
 * Whether a document is held out, by its draw: of plain texts those that make up the fraction best, by their bytes; of records
 * those whose draw lies in the fraction, at least those of the smallest.
 */
export function heldOutRule(
  files: readonly SourceFile[],
  fraction: number,
  smallestDraw: number,
): (draw: number) => boolean {
  if (files.every(({ form }) => form === "text")) {
    const heldOut = new Set(splitDocuments(files, fraction).validation.map(({ key }) => hashString(key)));
    return (draw) => heldOut.has(draw);
  }
  const limit = Math.max(fraction * 2 ** 32, smallestDraw + 1);
  return (draw) => draw < limit;
}
