/** Documents and tokens: JSON Lines plain and packed, Parquet, and the cache of tokens. */
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { parquetWriteBuffer } from "hyparquet-writer";
import { readDocuments } from "../../src/data/documentParts.ts";
import { type Dataset, type DatasetSettings, openDataset } from "../../src/data/index.ts";
import { parquetRows } from "../../src/data/parquetRows.ts";
import type { RecordKind } from "../../src/data/records.ts";
import { listSourceFiles } from "../../src/data/sourceFiles.ts";
import type { Files, FuzzFormat } from "./format.ts";
import { filesBelow } from "./mutant.ts";
import { mutateJson } from "./mutateJson.ts";
import type { Draws } from "./random.ts";

const messages = [
  { role: "user", content: "Hello?" },
  { role: "assistant", content: "Hi." },
];
const records = [
  { id: 1, text: "the first of them" },
  { text: "a second, with a\nline end é" },
  { prompt: "Two and two?", completion: "Four." },
  { messages, tools: [{ name: "f" }] },
  {
    conversations: [
      { from: "human", value: "Hello?" },
      { from: "gpt", value: "Hi." },
    ],
  },
];
const jsonl = records.map((record) => `${JSON.stringify(record)}\n`).join("");
const kinds: readonly RecordKind[] = ["text", "completion", "chat"];

async function all(parts: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of parts);
}

/** Reads every document of every kind, and tells the first error when all have been tried. */
async function readAll(folder: string): Promise<void> {
  const errors: unknown[] = [];
  for (const name of readdirSync(folder)) {
    for (const kind of name.includes(".txt") ? (["text"] as const) : kinds) {
      try {
        const files = listSourceFiles(join(folder, name), { kind });
        await all(readDocuments(files, { kind, columns: [], badRecords: "skip" }));
        const strict = readDocuments(files, { kind, columns: [] });
        await all(strict).catch((error: { code?: unknown }) => {
          // The seeds have records of other kinds, too.
          if (error.code !== "E_DATASET_RECORD") throw error;
        });
      } catch (error) {
        errors.push(error);
      }
    }
  }
  const untyped = errors.find((error) => (error as { code?: unknown }).code === undefined);
  if (errors.length > 0) throw untyped ?? errors[0];
}

function mutateLine(lines: string, draws: Draws): string {
  const all = lines.trimEnd().split("\n");
  const at = draws.int(all.length);
  return all.map((line, i) => (i === at ? mutateJson(line.replace(/^\ufeff/, ""), draws) : line)).join("\n");
}

/** A frame of blocks as they are, with a window: what packs nothing. */
export function rawZstd(text: string): Buffer {
  const bytes = Buffer.from(text);
  const block = (part: Uint8Array, last: boolean) => {
    const head = (last ? 1 : 0) | (part.length << 3);
    return Buffer.concat([Buffer.of(head & 255, (head >> 8) & 255, head >> 16), part]);
  };
  const half = bytes.length >> 1;
  return Buffer.concat([
    Buffer.of(0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x08),
    ...[block(bytes.subarray(0, half), false), block(bytes.subarray(half), true)],
  ]);
}

const lines: FuzzFormat = {
  name: "json-lines",
  mutated: /jsonl$/,
  mutate: (_, bytes, draws) =>
    draws.chance(0.7) ? Buffer.from(mutateLine(Buffer.from(bytes).toString(), draws)) : undefined,
  seeds: async () => [
    { "x.jsonl": Buffer.from(jsonl) },
    { "x.jsonl": Buffer.from(`\ufeff${jsonl.replaceAll("\n", "\r\n")}`) },
  ],
  read: readAll,
};

const packed: FuzzFormat = {
  name: "packed-lines",
  mutated: /(gz|zst)$/,
  mutate(path, _, draws) {
    if (draws.chance(0.7)) return undefined;
    const text = mutateLine(jsonl, draws);
    return path.endsWith("gz") ? gzipSync(text) : text.length < 1 << 17 ? rawZstd(text) : undefined;
  },
  seeds: async () => [
    { "x.jsonl.gz": gzipSync(jsonl) },
    { "x.jsonl.zst": rawZstd(jsonl) },
    { "x.txt.zst": packedZstd },
  ],
  read: readAll,
};

/** Sixty short lines, packed by the zstd program at level 19. */
const packedZstd = Buffer.from(
  "KLUv/QRojQMAggQOEaDtAPy/+6pCryZNJh74OQUDDsZ7n4yrd28H3XINa39XPU5+jxUfNsEgHvdgxoMyrZgKpmZ6rAUlqFF0PdY/A2AvKJYOEUQE/zeEUXP+tm6onKjY90yktGeiiTk+iMMBUI/CRgSHq8EDbKBstSp3Cu0E",
  "base64",
);

function parquet(codec: "SNAPPY" | "UNCOMPRESSED" | "GZIP"): Uint8Array {
  const text = Array.from({ length: 40 }, (_, i) => `document ${i % 7} of them`);
  const columnData = [
    { name: "text", data: text },
    { name: "id", data: text.map((_, i) => i) },
    { name: "prompt", data: text.map((one, i) => (i % 3 === 0 ? null : one)) },
    { name: "completion", data: text },
    { name: "messages", data: text.map((content) => [{ role: "user", content }]), type: "JSON" as const },
  ];
  const compressors = { GZIP: (bytes: Uint8Array) => new Uint8Array(gzipSync(bytes)) };
  return new Uint8Array(parquetWriteBuffer({ columnData, codec, compressors, rowGroupSize: 16 }));
}

const parquetFile: FuzzFormat = {
  name: "parquet",
  mutated: /parquet$/,
  async read(folder) {
    for await (const _ of parquetRows(join(folder, "x.parquet"), ["text", "prompt", "messages"], { patience: 3 }));
  },
  seeds: async () => (["SNAPPY", "UNCOMPRESSED", "GZIP"] as const).map((codec) => ({ "x.parquet": parquet(codec) })),
};

/** @param folder holds the files, and the cache */
async function open(folder: string, changes: Partial<DatasetSettings>): Promise<Dataset> {
  // This is a process of its own.
  process.env.HALFBYTE_CACHE = join(folder, "cache");
  return openDataset(
    {
      ...{ datasetType: "text", datasetPath: join(folder, "data"), evalDatasetPath: "", validationFraction: 0.3 },
      ...{ tokenizerPath: "byte", maxTargetLength: 8, perDeviceBatchSize: 2 },
      ...changes,
    },
    { vocabSize: 257, shuffleSeed: 0 },
  );
}

/** What there is to be seen of a data set. */
function seen({ train, validation, hashes, size, close }: Dataset): string {
  try {
    const batches = [1, 2, 3].map((step) => [...train.batchAt(step).tokens.data]);
    const checked = Array.from({ length: validation?.batches ?? 0 }, (_, i) => validation!.batchAt(i).tokens.data);
    return JSON.stringify([batches, checked, hashes, size]);
  } finally {
    close?.();
  }
}

/** Megatron's .bin of 40 documents of 1 to 9 letters, each with its end, and the .idx. */
function megatron(): Files {
  const lengths = Array.from({ length: 40 }, (_, i) => 2 + (i % 9));
  const ids = lengths.flatMap((length, i) => [
    ...Array.from({ length: length - 1 }, (_, j) => 65 + ((i + j) % 26)),
    256,
  ]);
  const starts = lengths.map((_, i) => 2 * lengths.slice(0, i).reduce((sum, length) => sum + length, 0));
  const head = Buffer.alloc(34);
  head.write("MMIDIDX\0\0", 0, "latin1");
  head.writeBigUInt64LE(1n, 9);
  head[17] = 8;
  head.writeBigUInt64LE(BigInt(lengths.length), 18);
  head.writeBigUInt64LE(BigInt(lengths.length + 1), 26);
  const bytes = (array: ArrayBufferView) => Buffer.from(array.buffer);
  const places = bytes(BigInt64Array.from(starts, BigInt));
  const marks = bytes(BigInt64Array.from({ length: lengths.length + 1 }, (_, i) => BigInt(i)));
  const idx = Buffer.concat([head, bytes(Int32Array.from(lengths)), places, marks]);
  return { "data/x.bin": bytes(Uint16Array.from(ids)), "data/x.idx": idx };
}

const storedTokens: FuzzFormat = {
  name: "stored-tokens",
  mutated: /(bin|idx)$/,
  seeds: async () => [megatron()],
  async read(folder) {
    const datasetPath = join(folder, "data", "x.bin");
    seen(await open(folder, { datasetType: "megatron", datasetPath }));
    seen(await open(folder, { datasetType: "tokens", datasetPath }));
  },
};

const text = "The cat sat on the mat, and that was that. ";
let expected: string | undefined;

/** Whatever happens to the cache, the tokens are those of the text. */
const tokenCache: FuzzFormat = {
  name: "token-cache",
  mutated: /cache\/tokens\/.*(json|bin)$/,
  async seeds(folder): Promise<Files[]> {
    mkdirSync(join(folder, "data"), { recursive: true });
    for (const name of ["a", "b", "c", "d"]) {
      writeFileSync(join(folder, "data", `${name}.txt`), `${name} ${text.repeat(5)}`);
    }
    expected = seen(await open(folder, {}));
    return [filesBelow(folder)];
  },
  async read(folder) {
    const now = seen(await open(folder, {}));
    if (now !== expected) throw new Error(`gives ${now.slice(0, 300)} instead of ${expected?.slice(0, 300)}`);
  },
};

export const dataFormats: readonly FuzzFormat[] = [lines, packed, parquetFile, storedTokens, tokenCache];
