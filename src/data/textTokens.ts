/** The tokens of text files: read, encoded and kept in the cache, or found there. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { loadChatTemplate } from "../tokenizers/chatFiles.ts";
import type { Tokenizer } from "../tokenizers/tokenizer.ts";
import { type DocumentPart, type ReadingOptions, readDocuments, tellBadRecord } from "./documentParts.ts";
import { encodeDocuments, encodingThreads } from "./encodePool.ts";
import { changed, fileStamp } from "./fileHashes.ts";
import type { SourceFile } from "./sourceFiles.ts";
import { isMasked, widthOf } from "./tokenBlocks.ts";
import { cachedTokens, type TokenCache, type TokenEntry } from "./tokenCache.ts";
import { type OpenTokens, openTokens, PlacedFile } from "./tokenFiles.ts";
import type { TokenManifest } from "./tokenWriter.ts";

/** The documents of a source, open for reading: `close` it. */
export interface SourceTokens {
  readonly stream: OpenTokens;
  /** Numbers of documents first .. first + count - 1 that decide which are held out. */
  readDraws(first: number, count: number): Uint32Array;
  readonly smallestDraw: number;
  /** Of what there is to be read: SHA-256, hexadecimal. */
  readonly hash: string;
  readonly badRecords: TokenManifest["badRecords"];
  /** SHA-256 of each file, hexadecimal. */
  readonly fileHashes: readonly string[];
  /** Of each file that is one plain text, its document's draw; null for others, and for one without text. */
  readonly textDraws: readonly (number | null)[];
}

export interface TextTokensOptions extends Pick<ReadingOptions, "kind" | "columns" | "badRecords"> {
  readonly tokenizer: Tokenizer;
  /** Where threads load the same tokenizer from. */
  readonly tokenizerPath: string;
  /** Threads that encode; -1 for as many as are worth it. */
  readonly threads: number;
  readonly cache: TokenCache;
  /** Told how many bytes of the files were hashed since the last time. */
  readonly onHashed: (bytes: number) => void;
  /** Told how many bytes of the files were encoded since the last time. */
  readonly onEncoded: (bytes: number) => void;
}

/** Counted up where the same tokenizer and text give other tokens than before: those that were kept are then made anew. */
const encoding = 3;

/** How records of chats are read: tokens made another way are made again. */
const chatReading = "numbers as Python's; content may be None";

/** @throws UserError where a file or a record can't be used, or tokens can't be written */
export async function textTokens(files: readonly SourceFile[], options: TextTokensOptions): Promise<SourceTokens> {
  const { kind, columns, badRecords = "stop", tokenizer, cache } = options;
  const stamps = files.map(({ path }) => fileStamp(path));
  const hashes: string[] = [];
  for (const { path } of files) hashes.push(await cache.hashes.hashOf(path, options.onHashed));
  const template = kind === "chat" ? loadChatTemplate(options.tokenizerPath) : undefined;
  const width = widthOf(tokenizer.vocabSize);
  const entry = await cachedTokens(cache, {
    madeOf: {
      ...{ encoding, draws: "text", tokenizer: tokenizer.hash, kind, columns, badRecords },
      ...(template && { template: template.hash, chatReading }),
      files: files.map(({ key, form }, i) => ({ file: key, form, sha256: hashes[i] })),
    },
    width,
    masked: isMasked(kind),
    async fill(writer) {
      const bad = { count: 0, first: undefined as string | undefined };
      const onBadRecord = (message: string) => {
        bad.first ??= message;
        bad.count++;
      };
      const wholeTexts = !tokenizer.cutsAtSpaces;
      const textDraws = new Map<SourceFile, number>();
      const onText = (file: SourceFile, draw: number) => void textDraws.set(file, draw);
      const reading = { kind, columns, badRecords, wholeTexts, onText, onRead: options.onEncoded, onBadRecord };
      const documents: AsyncIterable<DocumentPart> = readDocuments(files, reading);
      const masked = isMasked(kind);
      const setup = { tokenizerPath: options.tokenizerPath, masked, chat: kind === "chat" };
      const here = { tokenizer, masked, ...(template && { template }) };
      const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
      for await (const block of encodeDocuments(documents, here, setup, encodingThreads(options.threads, bytes))) {
        for (const problem of block.problems) tellBadRecord(problem, reading);
        writer.append(block);
      }
      const other = files.find(({ path }, i) => fileStamp(path) !== stamps[i]);
      if (other !== undefined) throw changed(other.path);
      return {
        badRecords: { count: bad.count, ...(bad.first !== undefined && { first: bad.first }) },
        textDraws: files.map((file) => textDraws.get(file) ?? null),
      };
    },
  });
  if (entry.wasCached) options.onEncoded(files.reduce((sum, file) => sum + file.bytes, 0));
  return openEntry(entry, hashes);
}

/** @param stored where the tokens lie, of an entry that has none itself */
export function openEntry(
  { folder, manifest, passing }: TokenEntry,
  fileHashes: readonly string[],
  stored?: { readonly path: string; readonly sha256: string },
): SourceTokens {
  const { width, tokens, documents, files, smallestDraw = 0, badRecords, textDraws = [] } = manifest;
  const at = (name: string) => join(folder, name);
  const stream = openTokens({
    tokens: { path: stored?.path ?? at("tokens.bin"), width },
    ...{ length: tokens, ends: at("ends.bin"), documents },
    ...(files["mask.bin"] && { mask: at("mask.bin") }),
  });
  const draws = new PlacedFile(at("draws.bin"));
  // What is open can be read to the end.
  if (passing) rmSync(folder, { recursive: true, force: true });
  return {
    stream: {
      ...stream,
      close() {
        stream.close();
        draws.close();
      },
    },
    readDraws(first, count) {
      const values = new Uint32Array(count);
      draws.read(values, 4 * first);
      return values;
    },
    smallestDraw,
    hash: [stored, files["tokens.bin"], files["ends.bin"], stored && files["draws.bin"], files["mask.bin"]]
      .map((file) => file?.sha256 ?? "")
      .join(" "),
    badRecords,
    fileHashes,
    textDraws,
  };
}
