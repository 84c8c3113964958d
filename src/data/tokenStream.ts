/** Tokens of documents, one after the other, that are read a part at a time: they may lie in a file larger than memory. */
import { invariant } from "../base/errors.ts";
import type { PackedTokens } from "./packing.ts";

/** Token ids in the narrowest array that holds the vocabulary. */
export type TokenArray = Uint16Array | Uint32Array;

/** Reading is synchronous and always of places that exist. What is read may be a view: nobody writes to it. */
export interface TokenStream {
  /** Tokens in all. */
  readonly length: number;
  /** Documents in all. */
  readonly documents: number;
  /** Tokens `start` .. `start + count - 1`. */
  read(start: number, count: number): TokenArray;
  /** Where documents `first` .. `first + count - 1` end: just after each one's last token. The last of all is `length`. */
  readEnds(first: number, count: number): Float64Array;
  /**
   * 1 for tokens that are to be predicted and 0 for those that are only read, such as a prompt's. Absent: all are to be
   * predicted.
   */
  readMask?(start: number, count: number): Uint8Array;
}

/** Documents that lie in memory. `mask`: of every token, as `readMask` gives it. */
export function memoryStream({ tokens, documentEnds }: PackedTokens, mask?: Uint8Array): TokenStream {
  invariant(mask === undefined || mask.length === tokens.length, "a mask of another length than its tokens");
  return {
    length: tokens.length,
    documents: documentEnds.length,
    read: (start, count) => tokens.subarray(start, start + count),
    readEnds: (first, count) => Float64Array.from(documentEnds.slice(first, first + count)),
    ...(mask && { readMask: (start: number, count: number) => mask.subarray(start, start + count) }),
  };
}
