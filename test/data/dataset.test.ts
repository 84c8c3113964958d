import { symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { type DataProgress, type DatasetSettings, openDataset } from "../../src/data/dataset.ts";
import { syntheticBatches, syntheticEntropy } from "../../src/data/synthetic.ts";
import { trainBpe } from "../../src/tokenizers/bpeTrainer.ts";
import { saveTokenizer } from "../../src/tokenizers/tokenizerFiles.ts";
import { ownCache } from "./openText.ts";
import { temporaryFolder } from "./temporaryFiles.ts";

beforeEach(() => void ownCache());

const settings = (given: Partial<DatasetSettings>): DatasetSettings => ({
  datasetType: "text",
  datasetPath: "",
  evalDatasetPath: "",
  validationFraction: 0,
  tokenizerPath: "byte",
  maxTargetLength: 8,
  perDeviceBatchSize: 2,
  ...given,
});
const open = (given: Partial<DatasetSettings>, vocabSize = 257) =>
  openDataset(settings(given), { vocabSize, shuffleSeed: 0 });

const letters = (letter: string, count: number) => letter.repeat(count);

describe("openDataset", () => {
  it("packs files as documents, each with one end token", async () => {
    const folder = temporaryFolder({ "a.txt": letters("a", 20), "b.md": letters("b", 30), "c.txt": "\ufeff" });
    const data = await open({ datasetPath: folder });
    expect(data.size).toEqual({ train: { documents: 2, tokens: 52 }, bytes: 53 });
    expect(data.train.windows).toBe(6);
    expect(data.validation).toBeUndefined();
    expect(data.tokenizer?.name).toBe("byte");
  });

  it("counts the same tokens with and without a byte order mark", async () => {
    const text = "one two three\nfour";
    const plain = await open({ datasetPath: temporaryFolder({ "a.txt": text }) });
    const marked = await open({ datasetPath: temporaryFolder({ "a.txt": `\ufeff${text}` }) });
    expect(marked.size?.train).toEqual(plain.size?.train);
    expect(marked.train.batchAt(1)).toEqual(plain.train.batchAt(1));
  });

  it("validates on other documents than it trains on", async () => {
    const files = Object.fromEntries(
      Array.from({ length: 20 }, (_, i) => [`${i}.txt`, letters(String.fromCharCode(97 + i), 40)]),
    );
    const data = await open({ datasetPath: temporaryFolder(files), validationFraction: 0.2 });
    const seen = (batches: { tokens: { data: ArrayLike<number | bigint> } }[]) =>
      new Set(batches.flatMap(({ tokens }) => Array.from(tokens.data, Number)).filter((id) => id !== 256 && id !== 0));
    const training = seen(Array.from({ length: data.train.windows }, (_, i) => data.train.batchAt(i + 1)));
    const validation = seen(Array.from({ length: data.validation!.batches }, (_, i) => data.validation!.batchAt(i)));
    expect(validation.size).toBe(4);
    expect(training.size).toBe(16);
    expect([...validation].filter((id) => training.has(id))).toEqual([]);
  });

  it("reads validation text of its own, and refuses a file in both", async () => {
    const folder = temporaryFolder({ "train/a.txt": letters("a", 50), "eval/b.txt": letters("b", 9) });
    const paths = { datasetPath: join(folder, "train"), evalDatasetPath: join(folder, "eval") };
    const data = await open(paths);
    expect(data.size?.validation).toEqual({ documents: 1, tokens: 10 });
    const batch = data.validation!.batchAt(0);
    expect(batch.validTokens).toBe(9);
    expect(batch.targetBytes).toBe(8); // of nine b's the first is no target, and the end token has no bytes

    writeFileSync(join(folder, "eval", "copy.txt"), letters("a", 50));
    await expect(open(paths)).rejects.toThrow(
      /1 file\(s\) of eval_dataset_path are copies of what is trained on, such as .*copy\.txt of .*a\.txt/,
    );

    symlinkSync(join(folder, "train", "a.txt"), join(folder, "eval", "same.txt"));
    await expect(open(paths)).rejects.toThrow(/share 1 file\(s\)/);
  });

  it("cuts the end off a single document", async () => {
    const folder = temporaryFolder({ "a.txt": letters("a", 90) + letters("b", 10) });
    const data = await open({ datasetPath: folder, validationFraction: 0.1 });
    expect(data.size).toMatchObject({ train: { documents: 1, tokens: 91 }, validation: { documents: 1, tokens: 11 } });
    expect(Array.from(data.validation!.batchAt(0).targets.data, Number).slice(0, 8)).toEqual(Array(8).fill(98));
  });

  it("says which split is too small, what it has and what it needs", async () => {
    const datasetPath = temporaryFolder({ "a.txt": letters("a", 39) });
    await expect(open({ datasetPath, maxTargetLength: 128 })).rejects.toThrow(
      "the training split has 40 tokens in 1 document(s), but 129 are needed: a window of max_target_length=128 takes 129. Add text, or set max_target_length to 39 or less",
    );
    await expect(open({ datasetPath, validationFraction: 0.01 })).rejects.toThrow(
      /the validation split has 1 tokens in 1 document\(s\), but 2 are needed: .*Raise validation_fraction=0\.01/,
    );
  });

  it("refuses a tokenizer with more tokens than the model has rows", async () => {
    const datasetPath = temporaryFolder({ "a.txt": letters("a", 39) });
    await expect(open({ datasetPath }, 256)).rejects.toThrow(/tokenizer_path=byte has 257 tokens, .*vocab_size=256/);
  });

  it("tokenises a long file in parts to the ids of the whole", async () => {
    const text = "The state of the union, dear citizens, isn't 1234567 words.\n\n ".repeat(40_000); // 2.5 MB: three parts
    const folder = temporaryFolder({ "long.txt": text });
    const model = await trainBpe([text.slice(0, 10_000)], 300);
    saveTokenizer(model, join(folder, "tokenizer"));
    const tokenizerPath = join(folder, "tokenizer");
    const data = await open({ datasetPath: join(folder, "long.txt"), tokenizerPath, maxTargetLength: 100 }, 300);
    const whole = data.tokenizer!.encode(text);
    expect(data.size?.train.tokens).toBe(whole.length + 1);
  });

  it("reports progress up to all bytes", async () => {
    const folder = temporaryFolder({ "a.txt": letters("a", 20), "b.txt": letters("b", 30) });
    const reports: DataProgress[] = [];
    await openDataset(settings({ datasetPath: folder }), {
      vocabSize: 257,
      shuffleSeed: 0,
      onProgress: (done) => reports.push({ ...done }),
    });
    expect(reports.at(-1)).toEqual({ doing: "tokenising", bytes: 50, of: 50 });
    expect(reports.filter(({ doing }) => doing === "hashing").at(-1)).toMatchObject({ bytes: 50 });
  });
});

describe("synthetic data", () => {
  const shape = { batchSize: 4, windowLength: 64 };

  it("is a function of seed and step, and never repeats a window", async () => {
    const a = syntheticBatches(100, shape, 3);
    const b = syntheticBatches(100, shape, 3);
    expect(b.train.batchAt(17)).toEqual(a.train.batchAt(17));
    expect(a.train.batchAt(18)).not.toEqual(a.train.batchAt(17));
    expect(syntheticBatches(100, shape, 4).train.batchAt(17)).not.toEqual(a.train.batchAt(17));
    const data = await open({ datasetType: "synthetic", maxTargetLength: 64, perDeviceBatchSize: 4 }, 100);
    expect(data.train.batchAt(1)).toEqual(syntheticBatches(100, shape, 0).train.batchAt(1));
  });

  it("obeys one rule: four successors of every token, in the promised shares", () => {
    const { train, validation } = syntheticBatches(50, shape, 3);
    const follows = Array.from({ length: 50 }, () => new Map<number, number>());
    const other = new Set<string>();
    for (let step = 1; step <= 200; step++) {
      const { tokens, targets } = train.batchAt(step);
      Array.from(tokens.data, Number).forEach((token, i) => {
        const target = Number(targets.data[i]);
        follows[token]!.set(target, (follows[token]!.get(target) ?? 0) + 1);
      });
    }
    let nats = 0;
    for (const successors of follows) {
      expect(successors.size).toBeLessThanOrEqual(4);
      const total = [...successors.values()].reduce((a, b) => a + b, 0);
      for (const count of successors.values()) nats -= count * Math.log(count / total);
    }
    expect(nats / (200 * 4 * 64)).toBeCloseTo(syntheticEntropy, 1);
    const batch = validation.batchAt(0);
    Array.from(batch.tokens.data, Number).forEach((token, i) => {
      if (!follows[token]!.has(Number(batch.targets.data[i]))) other.add(`${token}`);
    });
    expect([...other]).toEqual([]);
  });

  it("has the same validation whatever the seed, each window once", () => {
    const wide = { batchSize: 60, windowLength: 8 };
    const a = syntheticBatches(50, wide, 1).validation;
    expect(syntheticBatches(50, wide, 2).validation.batchAt(1)).toEqual(a.batchAt(1));
    expect(a.batches).toBe(2);
    expect(a.batchAt(1).validTokens).toBe(4 * 8);
    expect(Array.from(a.batchAt(1).mask.data, Number).reduce((x, y) => x + y, 0)).toBe(32);
  });

  it("works for the smallest vocabularies", () => {
    for (const vocabSize of [1, 2, 3]) expect(syntheticBatches(vocabSize, shape, 0).train.batchAt(1)).toBeDefined();
  });
});
