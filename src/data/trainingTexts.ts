/** The text that training reads, without what it holds out: what a vocabulary is learnt from. */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { UserError } from "../base/errors.ts";
import { type DocumentPart, readDocuments } from "./documentParts.ts";
import { hashString } from "./hash.ts";
import type { RecordDocument } from "./records.ts";
import type { SourceFile } from "./sourceFiles.ts";
import { heldOutRule, listSources, readingOf, type SourceSettings } from "./sources.ts";
import { drawOf } from "./tokenBlocks.ts";

export interface TrainingTexts {
  /** Documents to train on, and how many are held out. */
  readonly documents: number;
  readonly heldOut: number;
  /** Of the documents to train on. */
  readonly bytes: number;
  /** SHA-256 (hex) of all that decides the text. */
  hash(): Promise<string>;
  /** The documents' text in order; a piece does not end inside a word. Each call reads anew. */
  texts(): AsyncGenerator<string>;
}

/** @throws UserError where a file or a record can't be used */
export async function trainingTexts(settings: SourceSettings): Promise<TrainingTexts> {
  const { datasetType } = settings;
  if (datasetType === "tokens" || datasetType === "megatron") {
    throw new UserError(
      "E_TOKENIZER",
      `dataset_type=${datasetType} holds tokens, of which no vocabulary can be learnt: set tokenizer_path to the one that made them`,
    );
  }
  const reading = readingOf(settings);
  const fraction = settings.evalDatasetPath === "" ? settings.validationFraction : 0;
  const sources: (SplitCount & { readonly files: readonly SourceFile[] })[] = [];
  for (const { files } of listSources(settings).train) {
    sources.push({ files, ...(await countHeldOut(files, fraction, (list) => readDocuments(list, reading))) });
  }
  const sum = (list: readonly number[]) => list.reduce((a, b) => a + b, 0);
  return {
    documents: sum(sources.map(({ documents, heldOut }) => documents - heldOut)),
    heldOut: sum(sources.map(({ heldOut }) => heldOut)),
    bytes: sum(sources.map(({ bytes }) => bytes)),
    async hash() {
      const hash = createHash("sha256").update(JSON.stringify([reading, fraction]));
      for (const { key, form, path, bytes } of sources.flatMap(({ files }) => files)) {
        hash.update(JSON.stringify([key, form, bytes]));
        for await (const chunk of createReadStream(path)) hash.update(chunk as Uint8Array);
      }
      return hash.digest("hex");
    },
    async *texts() {
      for (const { files, isHeldOut } of sources) {
        for await (const part of readDocuments(files, reading)) {
          if (!isHeldOut(drawOfPart(part))) yield* textsOf(part);
        }
      }
    },
  };
}

const drawOfPart = (part: DocumentPart) => (part.kind === "part" ? part.draw : drawOf(part.document));

function* textsOf(part: DocumentPart): Generator<string> {
  if (part.kind === "part") yield part.text;
  else yield* recordTexts(part.document);
}

function* recordTexts(document: RecordDocument): Generator<string> {
  if (document.kind === "text") yield document.text;
  else if (document.kind === "completion") yield* [document.prompt, document.completion];
  else for (const { content } of document.messages) if (typeof content === "string") yield content;
}

interface SplitCount {
  readonly documents: number;
  readonly heldOut: number;
  readonly bytes: number;
  readonly isHeldOut: (draw: number) => boolean;
}

/** Of plain texts the files tell; records are read for it. */
async function countHeldOut(
  files: readonly SourceFile[],
  fraction: number,
  read: (files: readonly SourceFile[]) => AsyncIterable<DocumentPart>,
): Promise<SplitCount> {
  const none = () => false;
  if (files.every(({ form }) => form === "text")) {
    const isHeldOut = fraction > 0 && files.length > 1 ? heldOutRule(files, fraction, 0) : none;
    const kept = files.filter(({ key }) => !isHeldOut(hashString(key)));
    const bytes = kept.reduce((sum, file) => sum + file.bytes, 0);
    return { documents: files.length, heldOut: files.length - kept.length, bytes, isHeldOut };
  }
  const counted: { readonly draw: number; bytes: number }[] = [];
  let bytes = 0;
  for await (const part of read(files)) {
    for (const text of textsOf(part)) bytes += Buffer.byteLength(text);
    if (part.kind === "part" && !part.last) continue;
    counted.push({ draw: drawOfPart(part), bytes });
    bytes = 0;
  }
  const smallest = counted.reduce((least, { draw }) => Math.min(least, draw), Number.POSITIVE_INFINITY);
  const isHeldOut = fraction > 0 && counted.length > 1 ? heldOutRule(files, fraction, smallest) : none;
  const kept = counted.filter(({ draw }) => !isHeldOut(draw));
  return {
    documents: counted.length,
    heldOut: counted.length - kept.length,
    bytes: kept.reduce((sum, { bytes }) => sum + bytes, 0),
    isHeldOut,
  };
}
