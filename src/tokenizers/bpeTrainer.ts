/**
 * Learning a byte-level BPE: merge the most frequent pair of neighbours within pre-tokens, again and again. Pair counts
 * are kept up to date by the words a merge touches; a heap finds the next pair. Ties go to the lower ids, so the same
 * text gives the same vocabulary everywhere.
 */
import { UserError } from "../base/errors.ts";
import { controlToken } from "./addedTokens.ts";
import type { BpeModel } from "./bpeTokenizer.ts";
import { bytesInAlphabetOrder } from "./byteAlphabet.ts";
import { noFrame } from "./frame.ts";
import { type Before, heapPop, heapPush } from "./heap.ts";
import { defaultSplitPattern, translateSplitPattern } from "./splitPattern.ts";

/** The control token a trained vocabulary ends with. */
export const trainedEos = "<|end_of_text|>";

export const smallestVocab = 257;

export interface TrainBpeOptions {
  readonly onProgress?: (done: { readonly tokens: number; readonly of: number }) => void;
}

interface PairCount {
  readonly pair: number;
  readonly count: number;
}

const moreFrequent: Before<PairCount> = (a, b) => a.count > b.count || (a.count === b.count && a.pair < b.pair);

/**
 * A vocabulary of `vocabSize` tokens: 256 bytes, then merges, and the end-of-document token last. Smaller where the
 * text has no pair left that occurs twice.
 * @param texts pieces of text; a piece must not end inside a pre-token.
 */
export async function trainBpe(
  texts: Iterable<string> | AsyncIterable<string>,
  vocabSize: number,
  options: TrainBpeOptions = {},
): Promise<BpeModel> {
  if (!Number.isInteger(vocabSize) || vocabSize < smallestVocab || vocabSize > 2 ** 20) {
    throw new UserError(
      "E_VOCAB_SIZE",
      `vocab_size=${vocabSize}: must be an integer from ${smallestVocab} (256 bytes and the end of a document) to ${2 ** 20}`,
    );
  }
  const counts = await countPreTokens(texts);
  if (counts.size === 0) throw new UserError("E_EMPTY_TEXT", "no text to train a tokenizer on: every file is empty");
  return learnMerges(counts, vocabSize, options);
}

async function countPreTokens(texts: Iterable<string> | AsyncIterable<string>): Promise<Map<string, number>> {
  const split = translateSplitPattern(defaultSplitPattern);
  const counts = new Map<string, number>();
  for await (const text of texts) {
    for (const piece of text.match(split) ?? []) counts.set(piece, (counts.get(piece) ?? 0) + 1);
  }
  return counts;
}

function learnMerges(preTokens: ReadonlyMap<string, number>, vocabSize: number, options: TrainBpeOptions): BpeModel {
  const tokens = bytesInAlphabetOrder.map((byte) => Uint8Array.of(byte));
  const idOfByte = new Int32Array(256);
  bytesInAlphabetOrder.forEach((byte, id) => {
    idOfByte[byte] = id;
  });
  const words: number[][] = [];
  const frequency: number[] = [];
  for (const [piece, count] of preTokens) {
    words.push(Array.from(Buffer.from(piece), (byte) => idOfByte[byte]!));
    frequency.push(count);
  }

  // A pair is left · vocabSize + right, which also orders pairs by (left, right).
  const countOfPair = new Map<number, number>();
  const wordsOfPair = new Map<number, number[]>(); // may name words that have lost the pair since
  const addPairs = (word: number, sign: 1 | -1) => {
    const symbols = words[word]!;
    const weight = sign * frequency[word]!;
    for (let i = 0; i + 1 < symbols.length; i++) {
      const pair = symbols[i]! * vocabSize + symbols[i + 1]!;
      countOfPair.set(pair, (countOfPair.get(pair) ?? 0) + weight);
    }
  };
  const register = (pair: number, word: number) => {
    const known = wordsOfPair.get(pair);
    if (known === undefined) wordsOfPair.set(pair, [word]);
    else if (known[known.length - 1] !== word) known.push(word);
  };
  for (let word = 0; word < words.length; word++) {
    addPairs(word, 1);
    const symbols = words[word]!;
    for (let i = 0; i + 1 < symbols.length; i++) register(symbols[i]! * vocabSize + symbols[i + 1]!, word);
  }
  const heap: PairCount[] = [];
  for (const [pair, count] of countOfPair) heapPush(heap, { pair, count }, moreFrequent);

  const merges: BpeModel["merges"][number][] = [];
  while (tokens.length < vocabSize - 1) {
    const best = heapPop(heap, moreFrequent);
    if (best === undefined) break;
    const count = countOfPair.get(best.pair) ?? 0;
    if (count !== best.count) {
      if (count > 0) heapPush(heap, { pair: best.pair, count }, moreFrequent);
      continue;
    }
    if (count < 2) break;
    const left = Math.floor(best.pair / vocabSize);
    const right = best.pair % vocabSize;
    const merged = tokens.length;
    tokens.push(new Uint8Array(Buffer.concat([tokens[left]!, tokens[right]!])));
    merges.push({ left, right, merged });

    const fresh = new Set<number>(); // pairs with the new token: the only ones whose count can have grown
    for (const word of wordsOfPair.get(best.pair) ?? []) {
      const symbols = words[word]!;
      const rewritten = mergeIn(symbols, left, right, merged);
      if (rewritten.length === symbols.length) continue;
      addPairs(word, -1);
      words[word] = rewritten;
      addPairs(word, 1);
      for (let i = 0; i + 1 < rewritten.length; i++) {
        if (rewritten[i] !== merged && rewritten[i + 1] !== merged) continue;
        const pair = rewritten[i]! * vocabSize + rewritten[i + 1]!;
        fresh.add(pair);
        register(pair, word);
      }
    }
    wordsOfPair.delete(best.pair);
    countOfPair.delete(best.pair);
    for (const pair of fresh) heapPush(heap, { pair, count: countOfPair.get(pair)! }, moreFrequent);
    options.onProgress?.({ tokens: tokens.length + 1, of: vocabSize });
  }

  const eosId = tokens.length;
  return {
    tokens: [...tokens, undefined],
    merges,
    added: [controlToken(eosId, trainedEos)],
    eosId,
    splitPatterns: [defaultSplitPattern],
    prefixSpace: false,
    ignoreMerges: false,
    normalization: "none",
    frame: noFrame,
  };
}

/** `symbols` with every left-right neighbour pair replaced by `merged`, from the left. */
function mergeIn(symbols: readonly number[], left: number, right: number, merged: number): number[] {
  const out: number[] = [];
  for (let i = 0; i < symbols.length; i++) {
    if (symbols[i] === left && symbols[i + 1] === right) {
      out.push(merged);
      i++;
    } else out.push(symbols[i]!);
  }
  return out;
}
