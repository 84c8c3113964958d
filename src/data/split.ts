/** Which documents are held out for validation. */
import { hashString } from "./hash.ts";
import type { SourceFile } from "./sourceFiles.ts";

export interface Split<T> {
  readonly train: readonly T[];
  readonly validation: readonly T[];
}

/**
 * Holds out whole documents, about `fraction` of the bytes, in an order given by a hash of their keys: the same
 * documents whatever the seed, tokenizer or place of the data. At least one document is held out and one kept; of a
 * single document nothing is held out. Both lists keep the order of `documents`.
 */
export function splitDocuments<T extends { readonly key: string; readonly bytes: number }>(
  documents: readonly T[],
  fraction: number,
): Split<T> {
  if (fraction <= 0 || documents.length < 2) return { train: documents, validation: [] };
  const wanted = fraction * documents.reduce((sum, { bytes }) => sum + bytes, 0);
  const drawn = documents
    .map((document, index) => ({ document, index, draw: hashString(document.key) }))
    .sort((a, b) => a.draw - b.draw || a.index - b.index);
  const heldOut = new Set<T>();
  let bytes = 0;
  for (const { document } of drawn) {
    if (heldOut.size === documents.length - 1) break;
    // A document is taken if that brings the share nearer to what is wanted.
    if (Math.abs(bytes + document.bytes - wanted) >= Math.abs(bytes - wanted)) continue;
    heldOut.add(document);
    bytes += document.bytes;
  }
  if (heldOut.size === 0) heldOut.add(documents.reduce((least, next) => (next.bytes < least.bytes ? next : least)));
  return {
    train: documents.filter((document) => !heldOut.has(document)),
    validation: documents.filter((document) => heldOut.has(document)),
  };
}

/** What of a source decides its split. */
export interface SplitSource {
  readonly files: readonly Pick<SourceFile, "key" | "bytes" | "form">[];
  /** Of each file that is one plain text, its document's draw; null for others. */
  readonly textDraws: readonly (number | null)[];
  readonly documents: number;
  /** The smallest of its documents' draws. */
  readonly smallestDraw: number;
  /** Whether one of its documents has this draw. */
  hasDraw(draw: number): boolean;
}

/** Whether a document is held out, by its draw. "tail": the source is a single document, of which the end is held out. */
export type HeldOut = "tail" | ((draw: number) => boolean);

/**
 * Which documents of each source are held out. Of sources of plain texts those that make up the fraction best, by their bytes; of
 * others those whose draw lies in the fraction, at least those of the smallest. A draw is a hash of the document's text, or of its
 * ids where there is none, and what one source holds out, all do: equal documents are never in both splits, whatever form they have.
 */
export function heldOutRules(sources: readonly SplitSource[], fraction: number): readonly HeldOut[] {
  const limit = fraction * 2 ** 32;
  const isTail = sources.map(
    (source) =>
      source.documents === 1 && !sources.some((other) => other !== source && other.hasDraw(source.smallestDraw)),
  );
  const split = sources.filter((_, i) => !isTail[i]);
  const least = new Set(split.flatMap(({ documents, smallestDraw }) => (documents > 1 ? smallestDraw : [])));
  const texts = heldOutTexts(split, fraction);
  const isHeldOut = (draw: number) => texts.get(draw) ?? (draw < limit || least.has(draw));
  return isTail.map((tail) => (tail ? "tail" : isHeldOut));
}

/** Whether each text of the sources that are all plain texts is held out, by its draw. The first source that has it decides. */
function heldOutTexts(sources: readonly SplitSource[], fraction: number): ReadonlyMap<number, boolean> {
  const decided = new Map<number, boolean>();
  for (const { files, textDraws } of sources) {
    if (!files.every(({ form }) => form === "text")) continue;
    const fresh = new Map<number, SplitSource["files"][number]>();
    for (const [i, file] of files.entries()) {
      const draw = textDraws[i] ?? undefined;
      if (draw !== undefined && !decided.has(draw) && !fresh.has(draw)) fresh.set(draw, file);
    }
    const heldOut = new Set(splitDocuments([...fresh.values()], fraction).validation);
    for (const [draw, file] of fresh) decided.set(draw, heldOut.has(file));
  }
  return decided;
}
