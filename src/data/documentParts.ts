/** The documents of files in order, whatever the files' form: long texts in parts, records each in one. */
import { UserError } from "../base/errors.ts";
import { textHash } from "./hash.ts";
import { jsonLines } from "./jsonLines.ts";
import { parquetRows } from "./parquetRows.ts";
import { readTextParts } from "./readText.ts";
import { columnsToRead, documentOfRecord, type RecordDocument, type RecordKind } from "./records.ts";
import type { SourceFile } from "./sourceFiles.ts";

/** A part of a plain text, or a record. */
export type DocumentPart =
  | {
      readonly kind: "part";
      readonly text: string;
      /** Goes on from the part before. */
      readonly continues: boolean;
      /** The document ends with this part. */
      readonly last: boolean;
      /** Hash of the document's text up to here: at its last part, what decides whether it is held out for validation. */
      readonly draw: number;
    }
  | { readonly kind: "record"; readonly document: RecordDocument; readonly place: string };

export interface ReadingOptions {
  readonly kind: RecordKind;
  /** Names of the columns that hold the document; empty for the usual ones. */
  readonly columns: readonly string[];
  /** What happens where a record can't be used. Default: "stop". */
  readonly badRecords?: "stop" | "skip";
  /** Plain texts come whole, not in parts. Default: false. */
  readonly wholeTexts?: boolean;
  /** Told of each plain text at its end, with what decides whether it is held out; not of one without text. */
  readonly onText?: (file: SourceFile, draw: number) => void;
  /** Told how many bytes of the files were read since the last time. */
  readonly onRead?: (bytes: number) => void;
  /** Told of each record that is left out: "FILE:3: why". */
  readonly onBadRecord?: (message: string) => void;
}

/**
 * Plain texts are each a document. Empty documents are left out.
 * @throws UserError where a file can't be read, or a record can't be used and that stops
 */
export async function* readDocuments(
  files: readonly SourceFile[],
  options: ReadingOptions,
): AsyncGenerator<DocumentPart> {
  for (const file of files) {
    if (file.form === "text") yield* textParts(file, options);
    else yield* recordParts(file, options);
  }
}

async function* textParts(
  file: SourceFile,
  { wholeTexts: whole = false, onText, onRead }: ReadingOptions,
): AsyncGenerator<DocumentPart> {
  const hash = textHash();
  let continues = false;
  for await (const { text, last } of readTextParts([file], { whole, ...(onRead && { onRead }) })) {
    hash.add(text);
    const draw = hash.value();
    if (last) onText?.(file, draw);
    yield { kind: "part", text, continues, last, draw };
    continues = !last;
  }
}

async function* recordParts(file: SourceFile, options: ReadingOptions): AsyncGenerator<DocumentPart> {
  const { kind, columns, onRead } = options;
  const reading = { ...(onRead && { onRead }) };
  const records =
    file.form === "jsonl"
      ? jsonLines(file.path, { ...reading, exact: kind === "chat" })
      : parquetRows(file.path, columnsToRead(kind, columns), reading);
  for await (const record of records) {
    const place = `${file.path}:${record.place.replace(/^line /, "")}`;
    const document = record.problem === undefined ? documentOfRecord(record.value, kind, columns) : record.problem;
    if (typeof document === "string") tellBadRecord(`${place}: ${document}`, options);
    else if (!isEmpty(document)) yield { kind: "record", document, place };
  }
}

/** Passes over a record that can't be used. @throws UserError where that stops */
export function tellBadRecord(message: string, { badRecords = "stop", onBadRecord }: ReadingOptions): void {
  if (badRecords === "skip") onBadRecord?.(message);
  else
    throw new UserError(
      "E_DATASET_RECORD",
      `${message}. dataset_bad_records=skip leaves such records out and counts them`,
    );
}

const isEmpty = (document: RecordDocument): boolean =>
  document.kind === "text" ? document.text === "" : document.kind === "completion" && document.completion === "";
