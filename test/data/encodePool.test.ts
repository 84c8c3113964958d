/** Threads that tokenise, and memory while they do. */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { closeSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import type { DocumentPart } from "../../src/data/documentParts.ts";
import { encodeDocuments, encodingThreads } from "../../src/data/encodePool.ts";
import { encodeParts, type TokenBlock } from "../../src/data/tokenBlocks.ts";
import { openTokens } from "../../src/data/tokenFiles.ts";
import { validationBatches } from "../../src/data/validationBatches.ts";
import { byteTokenizer, loadTokenizer, saveTokenizer, trainBpe } from "../../src/tokenizers/index.ts";
import { openText, ownCache } from "./openText.ts";
import { temporaryFolder } from "./temporaryFiles.ts";

async function* parts(count: number): AsyncGenerator<DocumentPart> {
  for (let i = 0; i < count; i++) {
    const words = `document ${i} speaks of ${"many things, ".repeat(i % 200)}`;
    if (i % 3 === 0) yield { kind: "part", text: words, continues: false, last: false, draw: 0 };
    if (i % 3 === 0) yield { kind: "part", text: " and goes on", continues: true, last: true, draw: i };
    else yield { kind: "record", document: { kind: "completion", prompt: "say it", completion: words }, place: `${i}` };
  }
}

function hashOf(parts: readonly Uint8Array[]): string {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash.digest("hex");
}

function joined(blocks: readonly TokenBlock[]) {
  let start = 0;
  const ends = blocks.flatMap((block) => {
    const own = [...block.ends].map((end) => end + start);
    start += block.tokens.length;
    return own;
  });
  return {
    tokens: hashOf(blocks.map(({ tokens }) => new Uint8Array(Uint32Array.from(tokens).buffer))),
    mask: hashOf(blocks.map(({ mask }) => mask!)),
    draws: blocks.flatMap(({ draws }) => [...draws]),
    ends,
  };
}

describe("threads that tokenise", () => {
  it("give the same tokens, ends and masks in the same order, however many they are", async () => {
    const tokenizerPath = join(temporaryFolder(), "tokenizer");
    saveTokenizer(await trainBpe(["document speaks of many things, and goes on"], 280), tokenizerPath);
    const here = { tokenizer: loadTokenizer(tokenizerPath), masked: true };
    const encode = async (threads: number) => {
      const blocks: TokenBlock[] = [];
      const setup = { tokenizerPath, masked: true, chat: false };
      for await (const block of encodeDocuments(parts(600), here, setup, threads)) blocks.push(block);
      return joined(blocks);
    };
    const all: DocumentPart[] = [];
    for await (const part of parts(600)) all.push(part);
    const expected = joined([encodeParts(all, here)]);
    expect(expected.ends.length).toBe(600);
    for (const threads of [0, 1, 3]) expect(await encode(threads), `${threads} threads`).toEqual(expected);
  });

  it("stop with the failure of one, and with that of reading", async () => {
    const encode = async (documents: AsyncIterable<DocumentPart>, tokenizerPath: string) => {
      const blocks = encodeDocuments(
        documents,
        { tokenizer: byteTokenizer(), masked: false },
        { tokenizerPath, masked: false, chat: false },
        2,
      );
      for await (const _ of blocks);
    };
    await expect(encode(parts(10), join(temporaryFolder(), "none"))).rejects.toThrow("no such file or folder");
    async function* failing(): AsyncGenerator<DocumentPart> {
      yield* parts(700);
      throw new Error("the disk is gone");
    }
    await expect(encode(failing(), "byte")).rejects.toThrow("the disk is gone");
  });

  it("refuse a tokenizer that changed since it was loaded", async () => {
    const tokenizerPath = join(temporaryFolder(), "tokenizer");
    saveTokenizer(await trainBpe(["document speaks of many things"], 270), tokenizerPath);
    const tokenizer = loadTokenizer(tokenizerPath);
    saveTokenizer(await trainBpe(["entirely other words, and many"], 270), tokenizerPath);
    const blocks = encodeDocuments(
      parts(5),
      { tokenizer, masked: true },
      { tokenizerPath, masked: true, chat: false },
      1,
    );
    await expect(blocks.next()).rejects.toThrow("it was changed while text was encoded");
  });

  it("are none for little text, and as many as are asked for", () => {
    expect(encodingThreads(-1, 1000)).toBe(0);
    expect(encodingThreads(5, 1000)).toBe(5);
    expect(encodingThreads(0, 1e12)).toBe(0);
    expect(encodingThreads(-1, 1e12)).toBeLessThanOrEqual(8);
  });

  it("are used by a run on files, with the same tokens", async () => {
    ownCache();
    const folder = temporaryFolder({
      "a.jsonl": Array.from({ length: 300 }, (_, i) => `{"text":"text ${i}"}\n`).join(""),
    });
    const alone = await openText({ datasetPath: folder, tokenizeWorkers: 0 });
    ownCache();
    const two = await openText({ datasetPath: folder, tokenizeWorkers: 2 });
    expect(two.hashes!.tokens).toBe(alone.hashes!.tokens);
  });
});

/** Garbage collected early: how late it would be otherwise depends on what else the machine does. */
const smallHeap = ["--max-old-space-size=128", "--max-semi-space-size=4"];

/** Peak memory of a process of its own that opens a data set, in bytes. */
function peakMemory(datasetPath: string): number {
  const [index, peak] = ["data/index.ts", "base/peakMemory.ts"].map(
    (path) => new URL(`../../src/${path}`, import.meta.url).href,
  );
  const program = `
    const { openDataset } = await import(${JSON.stringify(index)});
    const { peakMemory } = await import(${JSON.stringify(peak)});
    const settings = { datasetType: "text", datasetPath: ${JSON.stringify(datasetPath)}, evalDatasetPath: "", validationFraction: 0.1,
      tokenizerPath: "byte", maxTargetLength: 256, perDeviceBatchSize: 8 };
    const data = await openDataset(settings, { vocabSize: 257, shuffleSeed: 0 });
    for (let step = 1; step <= 200; step++) data.train.batchAt(step);
    console.log(peakMemory());`;
  const args = [...smallHeap, "--import", "tsx", "--input-type=module", "-e", program];
  return Number(execFileSync(process.execPath, args).toString());
}

describe("memory", () => {
  it("A6: stays flat: the tokens of 140 MB more of text are not in it", () => {
    ownCache();
    const megabytes = (count: number) => {
      const path = join(temporaryFolder(), "a.jsonl");
      const line = (i: number) => `{"text":"${i} ${"a line of a large file, ".repeat(400)}"}\n`;
      const file = openSync(path, "w");
      for (let i = 0; i < count * 100; i++) writeSync(file, line(i));
      closeSync(file);
      return path;
    };
    const [small, large] = [peakMemory(megabytes(10)), peakMemory(megabytes(150))];
    expect(large - small).toBeLessThan(140e6);
    expect(large).toBeLessThan(400e6);
  });

  it("A6: tokens beyond 4 GiB of a file are read where they are", () => {
    const folder = temporaryFolder({ "ends.bin": Buffer.from(Float64Array.of(2 ** 31 + 5).buffer) });
    const path = join(folder, "tokens.bin");
    const file = openSync(path, "w");
    const count = 2 ** 31 + 5; // of two bytes each, and sparse
    writeSync(file, Buffer.from(Uint16Array.of(7, 8, 9).buffer), 0, 6, 2 * (count - 3));
    closeSync(file);
    const stream = openTokens({
      tokens: { path, width: "uint16" },
      length: count,
      ends: join(folder, "ends.bin"),
      documents: 1,
    });
    onTestFinished(() => stream.close());
    expect([...stream.read(count - 5, 5)]).toEqual([0, 0, 7, 8, 9]);
    const { batchAt, batches } = validationBatches(stream, { batchSize: 1, windowLength: 4 }, new Int32Array(10));
    expect([...batchAt(batches - 1).targets.data].map(Number)).toEqual([0, 7, 8, 9]);
    expect(() => stream.read(count - 1, 2)).toThrow("tokens");
  });
});
