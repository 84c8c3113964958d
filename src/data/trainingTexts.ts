/** The text that training reads, without what it holds out: what a vocabulary is learnt from. */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { UserError } from "../base/errors.ts";
import { type DocumentPart, type ReadingOptions, readDocuments } from "./documentParts.ts";
import { changed } from "./fileHashes.ts";
import type { RecordDocument } from "./records.ts";
import type { SourceFile } from "./sourceFiles.ts";
import { heldOutFraction, listSources, readingOf, type SourceSettings } from "./sources.ts";
import { heldOutRules } from "./split.ts";
import { drawOf } from "./tokenBlocks.ts";

export interface TrainingTexts {
  /** Documents to train on, and how many are held out. */
  readonly documents: number;
  readonly heldOut: number;
  /** Of the documents to train on. */
  readonly bytes: number;
  /** Records that are left out, and what is wrong with the first. */
  readonly badRecords: { readonly count: number; readonly first?: string };
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
  const fraction = heldOutFraction(settings);
  const sources: Counted[] = [];
  const bad: string[] = [];
  const counting = { ...reading, onBadRecord: (message: string) => void bad.push(message) };
  for (const { files } of listSources(settings).train) sources.push(await countDocuments(files, counting));
  const rules = rulesOf(sources, fraction);
  const all = sources.flatMap(({ draws, bytes }, i) =>
    draws.map((draw, document) => ({ bytes: bytes[document]!, isHeldOut: rules[i]!(draw) })),
  );
  const kept = all.filter(({ isHeldOut }) => !isHeldOut);
  if (kept.length === 0 && all.length > 0) {
    throw new UserError(
      "E_EMPTY_TEXT",
      `validation_fraction=${fraction} holds out all ${all.length} document(s) (equal documents go together), and leaves none to learn from: lower it, or add documents`,
    );
  }
  return {
    documents: kept.length,
    heldOut: all.length - kept.length,
    bytes: kept.reduce((sum, { bytes }) => sum + bytes, 0),
    badRecords: { count: bad.length, ...(bad[0] !== undefined && { first: bad[0] }) },
    async hash() {
      const hash = createHash("sha256").update(JSON.stringify([reading, fraction, "by text"]));
      for (const { key, form, path, bytes } of sources.flatMap(({ files }) => files)) {
        hash.update(JSON.stringify([key, form, bytes]));
        for await (const chunk of createReadStream(path)) hash.update(chunk as Uint8Array);
      }
      return hash.digest("hex");
    },
    async *texts() {
      for (const [i, { files, draws }] of sources.entries()) {
        // A text's draw is known at its end: it is that of the first reading.
        let document = 0;
        for await (const part of readDocuments(files, reading)) {
          const draw = draws[document];
          if (draw === undefined) throw changed(files[0]!.path);
          if (!rules[i]!(draw)) yield* textsOf(part);
          if (isLast(part)) document++;
        }
      }
    },
  };
}

const isLast = (part: DocumentPart): boolean => part.kind === "record" || part.last;

function* textsOf(part: DocumentPart): Generator<string> {
  if (part.kind === "part") yield part.text;
  else yield* recordTexts(part.document);
}

function* recordTexts(document: RecordDocument): Generator<string> {
  if (document.kind === "text") yield document.text;
  else if (document.kind === "completion") yield* [document.prompt, document.completion];
  else for (const { content } of document.messages) if (typeof content === "string") yield content;
}

interface Counted {
  readonly files: readonly SourceFile[];
  /** Of each file that is one plain text; null for others. */
  readonly textDraws: readonly (number | null)[];
  /** Of each document. */
  readonly draws: readonly number[];
  /** Of each document. */
  readonly bytes: readonly number[];
}

async function countDocuments(files: readonly SourceFile[], reading: ReadingOptions): Promise<Counted> {
  const [draws, sizes]: [number[], number[]] = [[], []];
  const textDraws = new Map<SourceFile, number>();
  const onText = (file: SourceFile, draw: number) => void textDraws.set(file, draw);
  let bytes = 0;
  for await (const part of readDocuments(files, { ...reading, onText })) {
    for (const text of textsOf(part)) bytes += Buffer.byteLength(text);
    if (!isLast(part)) continue;
    draws.push(part.kind === "part" ? part.draw : drawOf(part.document));
    sizes.push(bytes);
    bytes = 0;
  }
  return { files, textDraws: files.map((file) => textDraws.get(file) ?? null), draws, bytes: sizes };
}

/** By source. Of one that is a single document nothing is left out. */
function rulesOf(sources: readonly Counted[], fraction: number): readonly ((draw: number) => boolean)[] {
  const none = () => false;
  if (fraction === 0) return sources.map(() => none);
  const rules = heldOutRules(
    sources.map(({ files, textDraws, draws }) => ({
      ...{ files, textDraws, documents: draws.length },
      smallestDraw: draws.reduce((least, draw) => Math.min(least, draw), Number.POSITIVE_INFINITY),
      hasDraw: (draw) => draws.includes(draw),
    })),
    fraction,
  );
  return rules.map((rule) => (rule === "tail" ? none : rule));
}
