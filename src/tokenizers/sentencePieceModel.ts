/**
 * SentencePiece's tokenizer.model (Llama 2, Mistral, Gemma): a protocol buffer with the pieces, their scores and how text is
 * normalised. BPE models that leave the text as it is become the two files of Hugging Face; the others are refused by name.
 */
import { frameProcessor } from "./frame.ts";
import type { TokenizerFiles } from "./ggufTokenizer.ts";
import { type Field, protocolFields } from "./protocolBuffer.ts";
import { sentencePieceParts } from "./sentencePieceParts.ts";
import { type Refuse, refuseLongTokens, show } from "./tokenizerParts.ts";

/** Kinds of pieces. */
const [unknownPiece, controlPiece, userPiece, unusedPiece] = [2, 3, 4, 5];

/** How a model was trained, by number. */
const kinds = ["none", "Unigram", "BPE", "words", "characters"];
const bpe = 2;

const fix = "take the model's tokenizer.json instead";

interface Piece {
  readonly text: string;
  readonly score: number;
  readonly kind: number;
}

/** Whether a file that begins so is SentencePiece's: its first field is a message, a piece with a text. */
export function isPieceFile(bytes: Uint8Array): boolean {
  return bytes[0] === 0x0a && bytes[2] === 0x0a;
}

/** @throws UserError through `refuse` where it is malformed, or no BPE that leaves the text as it is */
export function readPieceFile(bytes: Uint8Array, refuse: Refuse): TokenizerFiles {
  const fields = protocolFields(bytes, refuse);
  const messages = (number: number) =>
    fields.flatMap(({ number: of, value }) =>
      of === number && value instanceof Uint8Array ? [protocolFields(value, refuse)] : [],
    );
  const pieces = messages(1).map(readPiece);
  const training = messages(2).flat();
  const normalizing = messages(3).flat();
  refuseOthers(training, normalizing, refuse);

  const idOf = (field: number, usual: number) => {
    const id = numberOf(training, field) ?? usual;
    return pieces[id] === undefined ? undefined : id;
  };
  const [unknown, bos, eos, pad] = [idOf(40, 0), idOf(41, 1), idOf(42, 2), idOf(43, -1)];
  if (unknown === undefined) return refuse("it has no piece for what is unknown");
  const prefix = (numberOf(normalizing, 3) ?? 1) !== 0;
  const symbol = pieces.find(({ kind }) => kind === userPiece);
  if (prefix && symbol !== undefined) {
    refuse(
      `a SentencePiece model that puts a space before a text and has symbols of its user's (${show(symbol.text)}); ${fix}`,
    );
  }
  const vocab = new Map<string, number>();
  for (const [id, { text, kind }] of pieces.entries())
    if (kind !== unusedPiece && !vocab.has(text)) vocab.set(text, id);
  refuseLongTokens(vocab.keys(), refuse);
  const added = pieces.flatMap(({ text, kind }, id) => {
    if (text === "" || ![unknownPiece, controlPiece, userPiece].includes(kind)) return [];
    const rules = { single_word: false, lstrip: false, rstrip: false, normalized: false };
    return [{ id, content: text, ...rules, special: kind !== userPiece }];
  });
  const names = { bos_token: bos, eos_token: eos, unk_token: unknown, pad_token: pad };
  return {
    tokenizer: {
      version: "1.0",
      truncation: null,
      padding: null,
      added_tokens: added,
      ...sentencePieceParts({
        vocab,
        scores: pieces.map(({ score }) => score),
        unknown: pieces[unknown]!.text,
        prefix,
        byteFallback: numberOf(training, 35) === 1,
      }),
      post_processor: frameProcessor({ before: bos === undefined ? [] : [bos], after: [] }, (id) => pieces[id]!.text),
    },
    config: {
      tokenizer_class: "PreTrainedTokenizerFast",
      ...Object.fromEntries(
        Object.entries(names).flatMap(([name, id]) => (id === undefined ? [] : [[name, pieces[id]!.text]])),
      ),
      clean_up_tokenization_spaces: false,
    },
  };
}

function readPiece(fields: readonly Field[]): Piece {
  const text = fields.find(({ number }) => number === 1)?.value;
  const score = fields.find(({ number }) => number === 2)?.value;
  return {
    text: text instanceof Uint8Array ? Buffer.from(text).toString("utf8") : "",
    score: typeof score === "number" ? score : 0,
    kind: numberOf(fields, 3) ?? 1,
  };
}

const numberOf = (fields: readonly Field[], number: number): number | undefined => {
  const value = fields.findLast((field) => field.number === number)?.value;
  return typeof value === "number" ? value : undefined;
};

function refuseOthers(training: readonly Field[], normalizing: readonly Field[], refuse: Refuse): void {
  const kind = numberOf(training, 3) ?? 1;
  if (kind !== bpe) refuse(`a SentencePiece model of ${kinds[kind] ?? kind}; BPE is read: ${fix}`);
  const field = (number: number) => normalizing.findLast((one) => one.number === number)?.value;
  const [name, table] = [field(1), field(2)];
  if (table instanceof Uint8Array && table.length > 0) {
    const shown = name instanceof Uint8Array ? Buffer.from(name).toString("utf8") : "of its own";
    refuse(`a SentencePiece model whose normalizer ${show(shown)} changes the text by tables; ${fix}`);
  }
  if ((numberOf(normalizing, 4) ?? 1) !== 0) refuse(`a SentencePiece model that removes white space; ${fix}`);
  if (numberOf(normalizing, 5) === 0) refuse(`a SentencePiece model that keeps spaces as they are; ${fix}`);
  if (numberOf(training, 24) === 1) refuse(`a SentencePiece model that puts spaces behind words; ${fix}`);
}
