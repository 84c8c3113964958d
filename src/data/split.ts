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
  /** SHA-256 of each file, or anything else that is the same for equal files. */
  readonly fileHashes: readonly string[];
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
 * others those whose draw lies in the fraction, at least those of the smallest. What one source holds out, all do: equal documents
 * are never in both splits, wherever they lie.
 */
export function heldOutRules(sources: readonly SplitSource[], fraction: number): readonly HeldOut[] {
  const limit = fraction * 2 ** 32;
  const isTail = sources.map((source) => source.documents === 1 && !isElsewhere(source, sources));
  const split = sources.filter((_, i) => !isTail[i]);
  const least = new Set(split.flatMap(({ documents, smallestDraw }) => (documents > 1 ? smallestDraw : [])));
  const isDrawn = (draw: number) => draw < limit || least.has(draw);
  const heldOutFiles = heldOutTexts(split, fraction, isDrawn);
  return sources.map(({ files, fileHashes }, i) => {
    if (isTail[i]) return "tail";
    const texts = new Map(
      files.flatMap(({ key, form }, file) =>
        form === "text" ? [[hashString(key), heldOutFiles.get(fileHashes[file]!)!] as const] : [],
      ),
    );
    return (draw) => texts.get(draw) ?? isDrawn(draw);
  });
}

/** Whether the one document of a source is also one of another. */
function isElsewhere(source: SplitSource, sources: readonly SplitSource[]): boolean {
  const others = sources.filter((other) => other !== source);
  if (!source.files.every(isText)) return others.some((other) => other.hasDraw(source.smallestDraw));
  return others.some(({ fileHashes }) => fileHashes.some((hash) => source.fileHashes.includes(hash)));
}

const isText = ({ form }: Pick<SourceFile, "form">) => form === "text";

/** Whether each plain text, by the hash of its file, is held out. The first source that has it decides. */
function heldOutTexts(
  sources: readonly SplitSource[],
  fraction: number,
  isDrawn: (draw: number) => boolean,
): ReadonlyMap<string, boolean> {
  const decided = new Map<string, boolean>();
  for (const { files, fileHashes } of sources) {
    const fresh = new Map<string, SplitSource["files"][number]>();
    for (const [i, file] of files.entries()) {
      const hash = fileHashes[i]!;
      if (isText(file) && !decided.has(hash) && !fresh.has(hash)) fresh.set(hash, file);
    }
    const { validation } = splitDocuments([...fresh.values()], fraction);
    const chosen = files.every(isText)
      ? new Set(validation)
      : new Set([...fresh.values()].filter(({ key }) => isDrawn(hashString(key))));
    for (const [hash, file] of fresh) decided.set(hash, chosen.has(file));
  }
  return decided;
}
