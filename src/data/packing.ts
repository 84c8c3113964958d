/**
 * Documents as one stream of tokens: each document's tokens and then exactly one end-of-document token. Windows of
 * T+1 tokens are cut from the stream, each beginning with the last token of the one before, so that every token but the
 * first is predicted exactly once.
 */
import { UserError } from "../base/errors.ts";
import type { Tokenizer } from "../tokenizers/tokenizer.ts";
import type { TokenArray, TokenStream } from "./tokenStream.ts";

export interface PackedTokens {
  readonly tokens: TokenArray;
  /** Where each document ends in `tokens`, just after its end token; the last is the number of tokens. */
  readonly documentEnds: readonly number[];
}

/** Collects documents in memory. */
export function tokenPacker(tokenizer: Pick<Tokenizer, "vocabSize" | "eosId">) {
  const array = tokenizer.vocabSize <= 2 ** 16 ? Uint16Array : Uint32Array;
  let tokens: TokenArray = new array(1 << 16);
  let used = 0;
  const documentEnds: number[] = [];
  const reserve = (count: number) => {
    if (used + count <= tokens.length) return;
    const grown = new array(Math.max(used + count, 2 * tokens.length));
    grown.set(tokens.subarray(0, used));
    tokens = grown;
  };
  return {
    /** Tokens of the current document. */
    push(ids: ArrayLike<number>): void {
      reserve(ids.length);
      tokens.set(ids, used);
      used += ids.length;
    },
    endDocument(): void {
      reserve(1);
      tokens[used++] = tokenizer.eosId;
      documentEnds.push(used);
    },
    finish(): PackedTokens {
      return { tokens: tokens.slice(0, used), documentEnds };
    },
  };
}

/** Packs documents that are tokenised already. */
export function packDocuments(
  documents: Iterable<ArrayLike<number>>,
  tokenizer: Pick<Tokenizer, "vocabSize" | "eosId">,
): PackedTokens {
  const packer = tokenPacker(tokenizer);
  for (const ids of documents) {
    packer.push(ids);
    packer.endDocument();
  }
  return packer.finish();
}

/** Full windows in a stream. */
export function fullWindows(tokens: number, windowLength: number): number {
  return Math.max(0, Math.floor((tokens - 1) / windowLength));
}

/** @throws UserError where every document is a single token, so that nothing would be predicted; none is empty */
export function requireDocument(split: string, { length, documents }: Pick<TokenStream, "length" | "documents">): void {
  if (length > documents) return;
  throw new UserError(
    "E_TOO_FEW_TOKENS",
    `the ${split} has ${documents === 0 ? "no document" : `${documents} document(s) of a single token each`}: a token is predicted from those before it in its document. Add text`,
  );
}

/** @throws UserError naming the split, what it has and what it needs. */
export function requireTokens(
  split: string,
  { length, documents }: Pick<TokenStream, "length" | "documents">,
  needed: number,
  fix: string,
): void {
  if (length >= needed) return;
  throw new UserError(
    "E_TOO_FEW_TOKENS",
    `the ${split} has ${length} tokens in ${documents} document(s), but ${needed} are needed: ${fix}`,
  );
}
