/** The tokenizer that needs no file: a token is a byte, and 256 ends a document. */
import { controlToken } from "./addedTokens.ts";
import { type BpeModel, bpeTokenizer } from "./bpeTokenizer.ts";
import { noFrame } from "./frame.ts";
import type { Tokenizer } from "./tokenizer.ts";

const eosId = 256;

/** The same as a vocabulary without merges, for a tokenizer.json. */
export const byteModel: BpeModel = {
  tokens: [...Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)), undefined],
  merges: [],
  added: [controlToken(eosId, "<|end_of_text|>")],
  eosId,
  splitPatterns: [],
  prefixSpace: false,
  ignoreMerges: false,
  normalization: "none",
  frame: noFrame,
};

export function byteTokenizer(): Tokenizer {
  const tokenizer = bpeTokenizer(byteModel, "byte");
  return {
    ...tokenizer,
    // Raw text is its bytes: no need to cut and look up.
    encode: (text, options) => (options?.control ? tokenizer.encode(text, options) : new Int32Array(Buffer.from(text))),
  };
}
