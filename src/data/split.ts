/** Which documents are held out for validation. */
import { hashString } from "./hash.ts";

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
