/** The tokenizer that needs no file: a token is a byte, and 256 ends a document. */
import { createHash } from "node:crypto";
import { decodeBytes, type Tokenizer } from "./tokenizer.ts";

const eosId = 256;
const eosSpelling = "<|end_of_text|>";

export function byteTokenizer(): Tokenizer {
  const bytes = Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte));
  const eosBytes = Buffer.from(eosSpelling);
  const source = {
    isControl: (id: number) => id === eosId,
    bytesOf: (id: number) => (id === eosId ? eosBytes : (bytes[id] ?? new Uint8Array())),
  };
  return {
    name: "byte",
    hash: createHash("sha256").update("byte tokenizer, 256 ends a document").digest("hex"),
    vocabSize: 257,
    eosId,
    encode(text, options) {
      if (!options?.control) return new Int32Array(Buffer.from(text));
      const ids = text.split(eosSpelling).flatMap((piece) => [eosId, ...Buffer.from(piece)]);
      return Int32Array.from(ids.slice(1));
    },
    decode: (ids, options) => decodeBytes(source, ids, options),
    ...source,
  };
}
