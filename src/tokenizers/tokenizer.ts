/** What every tokenizer is to the rest of the program, and decoding, which is the same for all of them. */
import type { Frame } from "./frame.ts";

/** How text becomes ids. */
export interface EncodeOptions {
  /** Turn the spellings of control tokens in the text into those tokens. Off: text can never become a control token. */
  readonly control?: boolean;
  /**
   * The text goes on from what was encoded before, cut as `readTextParts` cuts: some tokenizers put a space before a text, and
   * this is no beginning.
   */
  readonly continues?: boolean;
  /** Put around the text what the tokenizer's own rule puts there (`frame`). Off: the ids are the text's alone. */
  readonly framed?: boolean;
}

/** How ids become text. */
export interface DecodeOptions {
  /** Leave control tokens (such as the end of a document) out of the text. Default: spell them. */
  readonly skipControl?: boolean;
}

/** Text to ids and back. */
export interface Tokenizer {
  /** For people: "byte", or the path it was loaded from. */
  readonly name: string;
  /** SHA-256 (hex) of everything that decides its ids: equal hashes, equal ids. */
  readonly hash: string;
  /** Ids are 0..vocabSize-1. */
  readonly vocabSize: number;
  /** The control token that ends every document. */
  readonly eosId: number;
  /** Control tokens that the tokenizer's own rule puts around a text, such as `<|begin_of_text|>` before it. */
  readonly frame: Frame;
  /** A long text may be encoded in parts, each but the first beginning with a space and a letter behind a letter: no token crosses such a place. */
  readonly cutsAtSpaces: boolean;
  /** Ids of the text. Lone surrogates count as U+FFFD. */
  encode(text: string, options?: EncodeOptions): Int32Array;
  /** Text of the ids; bytes that are not UTF-8 become U+FFFD, as the Unicode standard recommends. */
  decode(ids: ArrayLike<number>, options?: DecodeOptions): string;
  /**
   * The bytes a token stands for; a control token's are its spelling. Empty for ids without a token. Some tokenizers spell
   * their first token without its space: `atStart`.
   */
  bytesOf(id: number, atStart?: boolean): Uint8Array;
  /** Whether an id is a control token: of no text. */
  isControl(id: number): boolean;
}

// A leading U+FEFF is text of the document like any other here; the default decoder would swallow it.
const newDecoder = () => new TextDecoder("utf-8", { ignoreBOM: true });

/** What decoding needs of a tokenizer. */
export type ByteSource = Pick<Tokenizer, "bytesOf" | "isControl">;

/** Implementation of `decode` over `bytesOf`. */
export function decodeBytes(source: ByteSource, ids: ArrayLike<number>, options: DecodeOptions = {}): string {
  const parts: Uint8Array[] = [];
  for (let i = 0; i < ids.length; i++) {
    const id = ids[i]!;
    if (!(options.skipControl && source.isControl(id))) parts.push(source.bytesOf(id, parts.length === 0));
  }
  return newDecoder().decode(Buffer.concat(parts));
}

/**
 * Decodes ids as they are generated: a character that spans several tokens appears with its last one. The pieces,
 * joined, with `end()`, equal `decode` of all ids.
 */
export function streamDecoder(tokenizer: ByteSource, options: DecodeOptions = {}) {
  const decoder = newDecoder();
  let atStart = true;
  return {
    /** Text that a token completes. */
    push(id: number): string {
      if (options.skipControl && tokenizer.isControl(id)) return "";
      const bytes = tokenizer.bytesOf(id, atStart);
      atStart = false;
      return decoder.decode(bytes, { stream: true });
    },
    /** What is left of a broken character. */
    end(): string {
      return decoder.decode();
    },
  };
}

/** UTF-8 bytes the token adds to the text: 0 for a control token. The unit of bits per byte. */
export function textBytes(tokenizer: Tokenizer): Int32Array {
  return Int32Array.from({ length: tokenizer.vocabSize }, (_, id) =>
    tokenizer.isControl(id) ? 0 : tokenizer.bytesOf(id).length,
  );
}
