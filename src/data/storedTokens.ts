/** Tokens that were made elsewhere and are read where they lie: plain .bin files of ids, and Megatron's .bin with .idx. */
import { statSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { UserError } from "../base/errors.ts";
import type { Tokenizer } from "../tokenizers/tokenizer.ts";
import { changed } from "./fileHashes.ts";
import { mix32 } from "./hash.ts";
import { joinedTokens } from "./joinedTokens.ts";
import { type MegatronIndex, openMegatronIndex } from "./megatronIndex.ts";
import type { SourceFile } from "./sourceFiles.ts";
import { openEntry, type SourceTokens } from "./textTokens.ts";
import { widthOf } from "./tokenBlocks.ts";
import { cachedTokens, type TokenCache } from "./tokenCache.ts";
import { bytesOfWidth, PlacedFile, type TokenWidth } from "./tokenFiles.ts";
import type { TokenWriter } from "./tokenWriter.ts";

export interface StoredTokensOptions {
  readonly kind: "tokens" | "megatron";
  /** How ids of a plain .bin are stored; "auto": in two bytes where the tokenizer's ids fit. A .idx says it itself. */
  readonly width: "auto" | TokenWidth;
  readonly tokenizer: Tokenizer;
  readonly cache: TokenCache;
  /** Told how many bytes were hashed since the last time. */
  readonly onHashed: (bytes: number) => void;
  /** Told how many bytes were looked through since the last time. */
  readonly onRead: (bytes: number) => void;
  readonly say: (text: string) => void;
}

/** Ids that are looked through in one go. */
const blockTokens = 1 << 19;

/**
 * The documents of .bin files. Each file is looked through once, which is remembered: ids that the tokenizer has not are
 * refused, and documents end at its end token or, with an index, where that says.
 * @throws UserError where a file can't be read, is not what it seems, or has an id that the tokenizer has not
 */
export async function storedTokens(files: readonly SourceFile[], options: StoredTokensOptions): Promise<SourceTokens> {
  const opened: SourceTokens[] = [];
  try {
    for (const file of files) opened.push(await storedFile(file, options));
    return joinedTokens(opened);
  } catch (error) {
    for (const { stream } of opened) stream.close();
    throw error;
  }
}

async function storedFile(file: SourceFile, options: StoredTokensOptions): Promise<SourceTokens> {
  const { kind, tokenizer, cache, onRead, say } = options;
  const index = kind === "megatron" ? openMegatronIndex(file.path) : undefined;
  const width = index?.width ?? plainWidth(options);
  if (file.bytes % bytesOfWidth(width) !== 0) {
    throw new UserError(
      "E_DATASET_TOKENS",
      `${file.path}: ${file.bytes} bytes are no whole number of ${width} ids; dataset_token_dtype says how they are stored`,
    );
  }
  const sha256 = await cache.hashes.hashOf(file.path, options.onHashed);
  const indexHash = index && (await cache.hashes.hashOf(index.path));
  const { vocabSize, eosId } = tokenizer;
  const entry = await cachedTokens(cache, {
    madeOf: { kind, draws: "ids", sha256, ...(indexHash && { index: indexHash }), width, vocabSize, eosId },
    ...{ width, masked: false, stored: true },
    async fill(writer) {
      const unended = index
        ? await withIndex(file, index, writer, { ...options, width })
        : await byEndTokens(file, writer, { ...options, width });
      return { badRecords: { count: 0, ...(unended > 0 && { first: `${unended}` }) } };
    },
  });
  if (entry.wasCached) onRead(file.bytes);
  const { badRecords } = entry.manifest;
  if (badRecords.first !== undefined) {
    say(
      `note: ${badRecords.first} documents of ${file.path} do not end with the tokenizer's end token (id ${eosId}): nothing in the text tells where they end`,
    );
  }
  return { ...openEntry(entry, [sha256], { path: file.path, sha256 }), badRecords: { count: 0 } };
}

const plainWidth = ({ width, tokenizer }: StoredTokensOptions): TokenWidth =>
  width !== "auto" ? width : widthOf(tokenizer.vocabSize);

type Scan = StoredTokensOptions & { readonly width: TokenWidth };

/** Fewer ids can be anything. */
const tellingIds = 16;

/**
 * Documents end with the tokenizer's end token, the last one also where the file does. Gives 0: all that can end do.
 * @throws UserError also where every second id is 0, as it is where ids are read in halves: all of them are ids of the tokenizer
 */
async function byEndTokens(file: SourceFile, writer: TokenWriter, scan: Scan): Promise<number> {
  const { eosId } = scan.tokenizer;
  const draws = contentDraws(eosId);
  let open = false;
  let halves = file.bytes / bytesOfWidth(scan.width) >= tellingIds;
  await eachBlock(file, scan, (tokens, last) => {
    for (let i = 1; halves && i < tokens.length; i += 2) halves = tokens[i] === 0;
    if (last && halves) throw readInHalves(file, scan.width);
    const ends: number[] = [];
    for (let i = tokens.indexOf(eosId); i >= 0; i = tokens.indexOf(eosId, i + 1)) ends.push(i + 1);
    open = ends.at(-1) !== tokens.length;
    if (last && open) ends.push(tokens.length);
    writer.append({ tokens, ends: Float64Array.from(ends), draws: draws(tokens, ends), problems: [] });
  });
  return 0;
}

/** Gives how many documents do not end with the tokenizer's end token. */
async function withIndex(file: SourceFile, index: MegatronIndex, writer: TokenWriter, scan: Scan): Promise<number> {
  if (index.tokens * bytesOfWidth(scan.width) !== file.bytes) {
    throw new UserError(
      "E_DATASET_TOKENS",
      `${file.path} has ${file.bytes} bytes, and ${index.path} tells of ${index.tokens} ${scan.width} tokens: the two do not belong together, or one was cut off`,
    );
  }
  const { eosId } = scan.tokenizer;
  const draws = contentDraws(eosId);
  const documentEnds = index.documentEnds();
  let next = documentEnds.next();
  let start = 0;
  let unended = 0;
  try {
    await eachBlock(file, scan, (tokens) => {
      const ends: number[] = [];
      while (!next.done && next.value <= start + tokens.length) {
        const end = next.value - start;
        if (tokens[end - 1] !== eosId) unended++;
        ends.push(end);
        next = documentEnds.next();
      }
      start += tokens.length;
      writer.append({ tokens, ends: Float64Array.from(ends), draws: draws(tokens, ends), problems: [] });
    });
  } finally {
    documentEnds.return(undefined);
  }
  return unended;
}

/** The draws of the documents that end in each block, in order: hashes of their ids, the same with an end token and without. */
function contentDraws(eosId: number): (tokens: Uint16Array | Uint32Array, ends: readonly number[]) => Uint32Array {
  const seed = 0x811c9dc5;
  let hash = seed;
  return (tokens, ends) => {
    let at = 0;
    const hashUntil = (end: number) => {
      for (; at < end; at++) hash = Math.imul(hash ^ tokens[at]!, 0x01000193);
    };
    const draws = Uint32Array.from(ends, (end) => {
      const isEnded = end > at && tokens[end - 1] === eosId;
      hashUntil(isEnded ? end - 1 : end);
      const draw = mix32(hash);
      [hash, at] = [seed, end];
      return draw;
    });
    hashUntil(tokens.length);
    return draws;
  };
}

/** Visits all ids of a file. @throws UserError at one that the tokenizer has not */
async function eachBlock(
  file: SourceFile,
  { width, tokenizer, onRead }: Scan,
  visit: (tokens: Uint16Array | Uint32Array, last: boolean) => void,
): Promise<void> {
  const size = bytesOfWidth(width);
  const count = file.bytes / size;
  const source = new PlacedFile(file.path);
  try {
    for (let start = 0; start < count; start += blockTokens) {
      const length = Math.min(blockTokens, count - start);
      const tokens = width === "uint16" ? new Uint16Array(length) : new Uint32Array(length);
      source.read(tokens, start * size);
      const bad = tokens.findIndex((id) => id >= tokenizer.vocabSize);
      if (bad >= 0) throw foreignId(file, { index: start + bad, id: tokens[bad]!, width }, tokenizer);
      visit(tokens, start + length === count);
      onRead(length * size);
      // A signal gets its turn.
      await setImmediate();
    }
  } finally {
    source.close();
  }
  if (statSync(file.path).size !== file.bytes) {
    throw changed(file.path);
  }
}

function foreignId(
  { path }: SourceFile,
  { index, id, width }: { readonly index: number; readonly id: number; readonly width: TokenWidth },
  { name, vocabSize }: Tokenizer,
): UserError {
  const size = bytesOfWidth(width);
  const other = width === "uint16" ? "uint32" : "uint16";
  return new UserError(
    "E_DATASET_TOKENS",
    `${path}: token ${index} (byte ${index * size}, read as ${width}) is ${id}, and tokenizer_path=${name} has ids 0 to ${vocabSize - 1}: set the tokenizer that made the file, or dataset_token_dtype=${other} if ids take ${size === 2 ? 4 : 2} bytes each`,
  );
}

function readInHalves({ path }: SourceFile, width: TokenWidth): UserError {
  const size = 2 * bytesOfWidth(width);
  const fix = size === 4 ? "set dataset_token_dtype=uint32" : "write them anew as uint32";
  return new UserError(
    "E_DATASET_TOKENS",
    `${path}: read as ${width}, every second id is 0, so its ids seem to take ${size} bytes each: ${fix}`,
  );
}
