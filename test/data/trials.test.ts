/** Trials of public bug reports that concern reading, splitting and packing text. */
import { closeSync, ftruncateSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { type DatasetSettings, openDataset, packDocuments, readTextParts } from "../../src/data/index.ts";
import { byteTokenizer } from "../../src/tokenizers/index.ts";
import { ownCache } from "./openText.ts";
import { temporaryFolder } from "./temporaryFiles.ts";

beforeEach(() => void ownCache());

const settings = (datasetPath: string, changes: Partial<DatasetSettings> = {}): DatasetSettings => ({
  datasetType: "text",
  datasetPath,
  evalDatasetPath: "",
  validationFraction: 0,
  tokenizerPath: "byte",
  maxTargetLength: 128,
  perDeviceBatchSize: 1,
  ...changes,
});
const open = (path: string, changes?: Partial<DatasetSettings>) =>
  openDataset(settings(path, changes), { vocabSize: 257, shuffleSeed: 0 });

describe("trials", () => {
  it("A4: a text shorter than a window is refused with the split, what there is and what is needed", async () => {
    const folder = temporaryFolder({ "a.txt": "x".repeat(39) });
    await expect(open(folder)).rejects.toThrow(
      /the training split has 40 tokens in 1 document\(s\), but 129 are needed: .*max_target_length to 39 or less/,
    );
  });

  it("A4: a validation split that comes out empty is refused by its name", async () => {
    const folder = temporaryFolder({ "a.txt": "twelve bytes" });
    await expect(open(folder, { validationFraction: 0.04, maxTargetLength: 4 })).rejects.toThrow(
      /the validation split has 1 tokens .* but 2 are needed: .*Raise validation_fraction=0\.04/,
    );
  });

  it("A6: a text file of 2.2 GiB streams whole, and memory stays flat", async () => {
    const path = join(temporaryFolder(), "large.txt");
    const bytes = Math.round(2.2 * 2 ** 30);
    const end = "the last words";
    const file = openSync(path, "w");
    ftruncateSync(file, bytes - end.length); // sparse: zeros, which are text as any other character
    writeSync(file, end, bytes - end.length);
    closeSync(file);
    const before = process.memoryUsage().rss;
    let [length, most, tail] = [0, 0, ""];
    for await (const { text } of readTextParts([{ path }])) {
      length += text.length;
      tail = (tail + text.slice(-100)).slice(-end.length);
      most = Math.max(most, process.memoryUsage().rss);
    }
    expect(length).toBe(bytes);
    expect(tail).toBe(end);
    expect(most - before).toBeLessThan(500 * 2 ** 20);
  });

  it("A7: another text of the same size and name, another window, another tokenizer: each is read anew", async () => {
    const text = (word: string) => `${word} sat on the mat, and that was that. `.repeat(8);
    const [cat, dog] = [temporaryFolder({ "a.txt": text("the cat") }), temporaryFolder({ "a.txt": text("the dog") })];
    const first = await open(cat);
    expect((await open(cat)).hashes!.tokens).toBe(first.hashes!.tokens);
    const edited = await open(dog);
    expect(edited.size!.bytes).toBe(first.size!.bytes);
    expect(edited.hashes!.tokens).not.toBe(first.hashes!.tokens);
    const shorter = await open(cat, { maxTargetLength: 32 });
    expect(shorter.train.windows).toBeGreaterThan(first.train.windows);
    expect(shorter.train.batchAt(1).tokens.shape).toEqual([1, 32]);
  });

  it("A17: three documents of one token: each is followed by exactly one end, and the boundaries sum to the tokens", () => {
    const { eosId } = byteTokenizer();
    const { tokens, documentEnds } = packDocuments([[65], [66], [67]], byteTokenizer());
    expect([...tokens]).toEqual([65, eosId, 66, eosId, 67, eosId]);
    expect(documentEnds).toEqual([2, 4, 6]);
    const lengths = documentEnds.map((end, i) => end - (documentEnds[i - 1] ?? 0));
    expect(lengths.reduce((sum, length) => sum + length, 0)).toBe(tokens.length);
  });
});
