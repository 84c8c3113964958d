/** Documents' parts encoded: blocks of tokens that follow each other, whoever encodes them. */
import { invariant, UserError } from "../base/errors.ts";
import { chatExample } from "../tokenizers/chatExample.ts";
import type { ChatTemplate } from "../tokenizers/chatTemplate.ts";
import type { Tokenizer } from "../tokenizers/tokenizer.ts";
import type { DocumentPart } from "./documentParts.ts";
import { hashString } from "./hash.ts";
import type { RecordDocument } from "./records.ts";
import type { TokenWidth } from "./tokenFiles.ts";
import type { TokenArray } from "./tokenStream.ts";

/** Tokens of some parts in order, and the documents that end in them. */
export interface TokenBlock {
  readonly tokens: TokenArray;
  /** 1 where a token is to be predicted. Absent: all are. */
  readonly mask?: Uint8Array;
  /** Where documents end, within the block. */
  readonly ends: Float64Array;
  /** What decides, for each of these documents, whether it is held out. */
  readonly draws: Uint32Array;
  /** Records that could not be encoded: "FILE:3: why". */
  readonly problems: readonly string[];
}

/** The array that holds a vocabulary's ids. */
export const tokenArray = (vocabSize: number): typeof Uint16Array | typeof Uint32Array =>
  vocabSize <= 2 ** 16 ? Uint16Array : Uint32Array;

/** The same by its name. */
export const widthOf = (vocabSize: number): TokenWidth => (tokenArray(vocabSize) === Uint16Array ? "uint16" : "uint32");

/** Whether documents of a kind have tokens that are only read. */
export const isMasked = (kind: RecordDocument["kind"]): boolean => kind !== "text";

export interface PartEncoder {
  readonly tokenizer: Tokenizer;
  /** Whether the block says which tokens are to be predicted. */
  readonly masked: boolean;
  /** For chats. */
  readonly template?: ChatTemplate;
}

/** Encodes parts, of which several may make a document. */
export function encodeParts(parts: readonly DocumentPart[], { tokenizer, masked, template }: PartEncoder): TokenBlock {
  const array = tokenArray(tokenizer.vocabSize);
  let tokens: TokenArray = new array(1 << 16);
  let mask = new Uint8Array(masked ? tokens.length : 0);
  let used = 0;
  const ends: number[] = [];
  const draws: number[] = [];
  const problems: string[] = [];
  const append = (ids: ArrayLike<number>, counts: 0 | 1 | Uint8Array) => {
    if (used + ids.length > tokens.length) {
      const grown = new array(Math.max(used + ids.length, 2 * tokens.length));
      grown.set(tokens.subarray(0, used));
      tokens = grown;
      if (masked) {
        const grownMask = new Uint8Array(grown.length);
        grownMask.set(mask.subarray(0, used));
        mask = grownMask;
      }
    }
    tokens.set(ids, used);
    if (masked) {
      if (typeof counts === "number") mask.fill(counts, used, used + ids.length);
      else mask.set(counts, used);
    }
    used += ids.length;
  };
  const end = (draw: number, counts: 0 | 1) => {
    append([tokenizer.eosId], counts);
    ends.push(used);
    draws.push(draw);
  };

  for (const part of parts) {
    if (part.kind === "part") {
      if (part.text !== "") append(tokenizer.encode(part.text, { continues: part.continues }), 1);
      if (part.last) end(part.draw, 1);
      continue;
    }
    const { document } = part;
    if (document.kind === "text") append(tokenizer.encode(document.text), 1);
    else if (document.kind === "completion") {
      // Each for itself, as a prompt is encoded when the model is asked.
      append(tokenizer.encode(document.prompt), 0);
      append(tokenizer.encode(document.completion, { continues: document.prompt !== "" }), 1);
    } else {
      invariant(template !== undefined, "a chat without a template");
      const { messages, tools } = document;
      let example: ReturnType<typeof chatExample>;
      try {
        example = chatExample(template, tokenizer, messages, tools === undefined ? {} : { tools });
      } catch (error) {
        if (!(error instanceof UserError)) throw error;
        problems.push(`${part.place}: ${error.message}`);
        continue;
      }
      append(example.ids, example.mask);
      // A template may end its last turn with the token that ends a document; what it does not write is not to be learnt.
      if (example.ids.at(-1) === tokenizer.eosId) {
        ends.push(used);
        draws.push(drawOf(document));
      } else end(drawOf(document), 0);
      continue;
    }
    end(drawOf(document), 1);
  }
  return {
    tokens: tokens.slice(0, used),
    ...(masked && { mask: mask.slice(0, used) }),
    ends: Float64Array.from(ends),
    draws: Uint32Array.from(draws),
    problems,
  };
}

/** A hash of the document's text, whatever form it was read from: of equal documents none is held out while another is trained on. */
export function drawOf(document: RecordDocument): number {
  if (document.kind === "text") return hashString(document.text);
  if (document.kind === "completion") return hashString(`${document.prompt}\0${document.completion}`);
  return hashString(JSON.stringify(document.messages, inOneForm));
}

/** For JSON.stringify: names in order, and none for what is null. Parquet has a message's names in another order, and all of them. */
function inOneForm(_: string, value: unknown): unknown {
  if (typeof value === "bigint" || value instanceof Number) return Number(value);
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const named = Object.entries(value).filter(([, own]) => own !== null && own !== undefined);
  return Object.fromEntries(named.sort(([a], [b]) => (a < b ? -1 : 1)));
}
