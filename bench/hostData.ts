/** How fast text becomes batches: encoding, packing, cutting into batches, and opening a data set whole. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { memoryStream, openDataset, packDocuments, syntheticBatches, trainingBatches } from "../src/data/index.ts";
import { byteTokenizer, loadTokenizer, saveTokenizer, type Tokenizer, trainBpe } from "../src/tokenizers/index.ts";
import type { Workload } from "./workload.ts";

/** Tokens in a second of process CPU time, which other work on the machine disturbs less than wall time. */
export interface DataRate {
  readonly what: string;
  readonly tokensPerSecond: number;
  /** Of text, where text is read. */
  readonly megabytesPerSecond?: number;
}

const root = fileURLToPath(new URL("..", import.meta.url));
const vocabSize = 2048;

/** The text is this repository's own documents and sources. */
export async function measureData(w: Workload): Promise<DataRate[]> {
  // Found in the cache, nothing would be read or encoded the second time.
  process.env.HALFBYTE_TOKEN_CACHE = "off";
  const folder = mkdtempSync(join(tmpdir(), "halfbyte-data-"));
  try {
    const documents = ["docs", "src"].flatMap((name) => textsUnder(join(root, name)));
    documents.forEach((text, i) => {
      writeFileSync(join(folder, `${i}.txt`), text);
    });
    saveTokenizer(await trainBpe(fromTexts(textsUnder(join(root, "docs"))), vocabSize), join(folder, "tokenizer"));
    const bpe = loadTokenizer(join(folder, "tokenizer"));
    return [
      await encoding("encode, byte", byteTokenizer(), documents),
      await encoding("encode, BPE of 2,048 tokens", bpe, documents),
      await opening(w, folder),
      ...(await cutting(w, bpe, documents)),
    ];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function textsUnder(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => /\.(md|ts)$/.test(name))
    .map((name) => readFileSync(join(folder, name), "utf8"));
}

async function* fromTexts(texts: readonly string[]): AsyncGenerator<string> {
  yield* texts;
}

const bytesOf = (texts: readonly string[]) => texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);

/** @param work returns how many tokens it handled; it is done until `atLeast` seconds are used */
async function rate(what: string, work: () => number | Promise<number>, { bytes = 0, atLeast = 0.2 } = {}) {
  const begin = process.cpuUsage();
  let [tokens, runs, seconds] = [0, 0, 0];
  while (seconds < atLeast) {
    tokens += await work();
    runs++;
    const { user, system } = process.cpuUsage(begin);
    seconds = (user + system) / 1e6;
  }
  return {
    what,
    tokensPerSecond: tokens / seconds,
    ...(bytes > 0 && { megabytesPerSecond: (runs * bytes) / 1e6 / seconds }),
  };
}

/** Once: the tokenizer remembers words that it has seen. */
function encoding(what: string, tokenizer: Tokenizer, documents: readonly string[]): Promise<DataRate> {
  const encode = () => documents.reduce((sum, text) => sum + tokenizer.encode(text).length, 0);
  return rate(what, encode, { bytes: bytesOf(documents), atLeast: Number.MIN_VALUE });
}

/** Reading, hashing, encoding and writing, as a run begins. */
function opening(w: Workload, folder: string): Promise<DataRate> {
  const settings = {
    ...{ datasetType: "text" as const, datasetPath: folder, evalDatasetPath: "", validationFraction: 0.05 },
    ...{ tokenizerPath: join(folder, "tokenizer"), maxTargetLength: w.seq, perDeviceBatchSize: w.batch },
  };
  const open = async () => {
    const { size, close } = await openDataset(settings, { vocabSize, shuffleSeed: 0 });
    close?.();
    return size!.train.tokens + (size!.validation?.tokens ?? 0);
  };
  return rate("open a data set: read, hash, encode, write", open);
}

async function cutting(w: Workload, tokenizer: Tokenizer, documents: readonly string[]): Promise<DataRate[]> {
  const encoded = documents.map((text) => tokenizer.encode(text));
  const pack = () => packDocuments(encoded, tokenizer);
  const shape = { batchSize: w.batch, windowLength: w.seq };
  const [text, synthetic] = [
    trainingBatches(memoryStream(pack()), shape, 0),
    syntheticBatches(w.vocab, shape, 0).train,
  ];
  let step = 0;
  return [
    await rate("pack documents", () => pack().tokens.length),
    await rate("batches of text", () => text.batchAt(++step).validTokens),
    await rate("batches of synthetic data", () => synthetic.batchAt(++step).validTokens),
  ];
}
