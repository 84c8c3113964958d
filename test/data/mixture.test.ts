import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { mixedBatches } from "../../src/data/batches.ts";
import type { Dataset } from "../../src/data/index.ts";
import { mixtureMeant, mixturePattern, parseMixture, sequenceOrder } from "../../src/data/mixture.ts";
import { packDocuments } from "../../src/data/packing.ts";
import { type ProcessPart, rowsOfProcess } from "../../src/data/processPart.ts";
import { listSourceFiles } from "../../src/data/sourceFiles.ts";
import { streamWindows } from "../../src/data/streamWindows.ts";
import { memoryStream } from "../../src/data/tokenStream.ts";
import { requireTargetBytes, type ValidationBatch } from "../../src/data/validationBatches.ts";
import { openText, ownCache, validationText } from "./openText.ts";
import { temporaryFolder } from "./temporaryFiles.ts";

describe("the paths of a mixture", () => {
  it("are read as MaxText's grain loader spells them", () => {
    expect(parseMixture("books")).toEqual([{ path: "books" }]);
    expect(parseMixture("books,0.7")).toEqual([{ path: "books,0.7" }]); // a name, where there is one path
    expect(parseMixture("books,0.7;code/*.{txt,md},0.3;")).toEqual([
      { path: "books", weight: 0.7 },
      { path: "code/*.{txt,md}", weight: 0.3 },
    ]);
    expect(parseMixture("a; b/*.{x,y}")).toEqual([{ path: "a" }, { path: "b/*.{x,y}" }]);
  });

  it.each([
    ["a,0.5;b", "b has no weight"],
    ["a,0;b,1", 'the weight of a is "0"'],
    ["a,x;b,1", 'the weight of a is "x"'],
    ["a;a", "a is there twice"],
    [";", "there is no path"],
  ])("refuses %s", (text, message) => {
    expect(() => parseMixture(text)).toThrow(message);
  });
});

it.each([
  ["0.7 books 0.3 code/x", "books,0.7;code/x,0.3"],
  ["books:0.7,code:0.3", "books,0.7;code,0.3"],
  ["books:0.7", "books,0.7"],
  ["some books", undefined],
  ["a book of 4 words", undefined],
  ["C:books", undefined],
])("%s, which is no path, may be meant as the mixture %s", (text, meant) => {
  expect(mixtureMeant(text)).toBe(meant);
  if (meant === undefined) return;
  expect(() => listSourceFiles(text, { kind: "text" })).toThrow(
    `no such file or folder; with a weight it is written ${meant}`,
  );
});

const weights = fc.array(fc.double({ min: 0.01, max: 1, noNaN: true }), { minLength: 2, maxLength: 5 });

describe("a mixture", () => {
  it("meets its weights in every turn, and no source is ever a whole sequence ahead", () => {
    fc.assert(
      fc.property(weights, (given) => {
        const { pattern, shares } = mixturePattern(given);
        const period = pattern.length;
        const sum = given.reduce((a, b) => a + b, 0);
        const counts = shares.map(() => 0);
        pattern.forEach((source, i) => {
          counts[source]! += 1;
          expect(counts[source]!).toBeLessThan((shares[source]! / period) * (i + 1) + 1);
        });
        expect(counts).toEqual([...shares]);
        shares.forEach((share, i) => {
          expect(Math.abs(share / period - given[i]! / sum)).toBeLessThanOrEqual(1 / period);
        });
      }),
      { numRuns: 40 },
    );
    expect(mixturePattern([0.7, 0.3]).shares).toEqual([7, 3]);
    expect(() => mixturePattern([1, 1e-6])).toThrow("the weight 0.000001 of source 2 is less than one in 10000");
  });

  it("is a function of the position alone, and goes through each source once an epoch", () => {
    fc.assert(
      fc.property(
        weights,
        fc.array(fc.integer({ min: 1, max: 20 }), { minLength: 5, maxLength: 5 }),
        fc.nat(),
        (given, sizes, seed) => {
          const counts = sizes.slice(0, given.length);
          const order = sequenceOrder(counts, given, seed);
          const places = Array.from({ length: 300 }, (_, i) => order.placeAt(i));
          const again = sequenceOrder(counts, given, seed);
          for (let i = 299; i >= 0; i -= 7) expect(again.placeAt(i)).toEqual(places[i]);
          counts.forEach((count, source) => {
            const own = places.filter((place) => place.source === source).map(({ index }) => index);
            for (let start = 0; start + count <= own.length; start += count) {
              expect(new Set(own.slice(start, start + count)).size).toBe(count);
            }
            expect(order.epochsAt(300)[source]).toBeCloseTo(own.length / count, 12);
          });
        },
      ),
      { numRuns: 40 },
    );
  });

  it("without weights is one set, of which each sequence comes once an epoch", () => {
    const order = sequenceOrder([3, 1, 4], undefined, 9);
    const epoch = (from: number) => Array.from({ length: 8 }, (_, i) => order.placeAt(from + i));
    const names = (from: number) => epoch(from).map(({ source, index }) => `${source}.${index}`);
    expect(names(0).sort()).toEqual(["0.0", "0.1", "0.2", "1.0", "2.0", "2.1", "2.2", "2.3"]);
    expect(names(8).sort()).toEqual(names(0).sort());
    expect(names(8)).not.toEqual(names(0));
  });

  it("trains and validates on each source apart, and counts their epochs", async () => {
    ownCache();
    const texts = (letter: string) =>
      Object.fromEntries(Array.from({ length: 10 }, (_, i) => [`${i}.txt`, `${letter.repeat(38)}${i}`]));
    const [books, code] = [temporaryFolder(texts("b")), temporaryFolder(texts("c"))];
    const data = await openText({
      datasetPath: `${books},0.75;${code},0.25`,
      validationFraction: 0.2,
      perDeviceBatchSize: 4,
    });
    expect(data.size).toMatchObject({ train: { documents: 16 }, sources: [{ source: books }, { source: code }] });
    const letters = (step: number) => {
      const { tokens } = data.train.batchAt(step);
      return Array.from({ length: 4 }, (_, row) =>
        Array.from(tokens.data.slice(row * 8, row * 8 + 8), Number).includes(98),
      );
    };
    for (let step = 1; step <= 12; step++) expect(letters(step).filter(Boolean).length).toBe(3);
    const windows = 39; // (8 documents of 40 tokens - 1) / 8
    expect(data.train.windows).toBe(2 * windows);
    expect(data.train.epochsAt!(13)).toEqual([
      { source: books, epochs: 1 },
      { source: code, epochs: 13 / windows },
    ]);
    const { validation } = data;
    const sources = Array.from({ length: validation!.batches }, (_, i) => validation!.sourceAt!(i));
    expect(sources.filter((source) => source === books).length).toBe(sources.length / 2);
    expect(sources[0]).not.toBe(sources[1]);
    expect(validationText(data)).toMatch(/^[bc0-9|]+$/);
  });

  it("refuses a file in two sources' splits", async () => {
    ownCache();
    const folder = temporaryFolder({ "a.txt": "a".repeat(50), "b.txt": "b".repeat(50) });
    const [a, b] = [join(folder, "a.txt"), join(folder, "b.txt")];
    await expect(openText({ datasetPath: `${a};${b}`, evalDatasetPath: a })).rejects.toThrow("share 1 file(s)");
  });
});

describe("processes", () => {
  const stream = (documents: number, length: number) =>
    memoryStream(
      packDocuments(
        Array.from({ length: documents }, (_, i) => Array(length - 1).fill(i)),
        { vocabSize: 300, eosId: 299 },
      ),
    );
  const sources = [{ name: "", sequences: streamWindows(stream(8, 16), 4) }]; // 31 windows
  const cut = { batchSize: 4, microBatches: 2, windowLength: 4 };

  it.each([1, 2, 4])("A9: %i of them read every window of an epoch exactly once, in one order", (count) => {
    const alone = mixedBatches(sources, cut, { seed: 3 });
    const parts = Array.from({ length: count }, (_, index) =>
      mixedBatches(sources, cut, { seed: 3, part: { index, count } }),
    );
    const rowsIn = (data: ArrayLike<number | bigint>) =>
      Array.from({ length: data.length / 4 }, (_, row) =>
        Array.from({ length: 4 }, (_, i) => Number(data[row * 4 + i])).join(" "),
      );
    for (let step = 1; step <= 31; step++) {
      const whole = rowsIn(alone.batchAt(step).tokens.data);
      const shared = parts.map((part) => rowsIn(part.batchAt(step).tokens.data));
      // The processes' rows of a micro-batch, one after the other, are the micro-batch.
      const joined = [0, 1].flatMap((micro) =>
        shared.flatMap((rows) => rows.slice((micro * 4) / count, ((micro + 1) * 4) / count)),
      );
      expect(joined).toEqual(whole);
    }
    const seen = new Map<number, number>();
    for (let position = 0; position < 31 * 8; position++) {
      const { index } = sequenceOrder([31], undefined, 3).placeAt(position);
      seen.set(index, (seen.get(index) ?? 0) + 1);
    }
    expect([...seen.values()]).toEqual(Array(31).fill(8));
  });

  it("A10: 7 windows, batches of 4, 2 processes: every step has a batch on each, also past the epoch's end", () => {
    const seven = [{ name: "", sequences: streamWindows(stream(2, 16), 4) }];
    expect(seven[0]!.sequences.count).toBe(7);
    const shape = { batchSize: 4, windowLength: 4 };
    const parts = [0, 1].map((index) => mixedBatches(seven, shape, { seed: 0, part: { index, count: 2 } }));
    for (let step = 1; step <= 9; step++) {
      for (const part of parts) expect(part.batchAt(step).tokens.shape).toEqual([2, 4]);
      expect(parts[0]!.epochAt(step)).toBe(parts[1]!.epochAt(step));
    }
    expect(() => rowsOfProcess(shape, { index: 0, count: 3 })).toThrow("choose a multiple of 3");
  });

  it("validate every window of all sources exactly once, in as many batches each, whatever the data", async () => {
    ownCache();
    const records = (word: string, count: number) =>
      Array.from(
        { length: count },
        (_, i) => `${JSON.stringify({ text: `${word} ${"x".repeat(i % 17)} ${i}` })}\n`,
      ).join("");
    const folder = temporaryFolder({ "a.jsonl": records("first", 40), "b.jsonl": records("other", 9) });
    const [a, b] = [join(folder, "a.jsonl"), join(folder, "b.jsonl")];
    const kinds = [
      { datasetPath: `${a};${b}`, validationFraction: 0.4 },
      { datasetPath: a, evalDatasetPath: b, packing: "best_fit" },
      { datasetType: "synthetic" },
    ] as const;
    const rowsIn = ({ targets, mask }: ValidationBatch) =>
      Array.from({ length: targets.shape[0]! }, (_, row) =>
        Array.from({ length: 8 }, (_, i) =>
          mask.data[row * 8 + i] === 1 ? Number(targets.data[row * 8 + i]) : -1,
        ).join(" "),
      );
    for (const kind of kinds) {
      const open = async (part?: ProcessPart) =>
        (await openText({ perDeviceBatchSize: 4, ...kind }, part ? { part } : {})).validation!;
      const alone = await open();
      for (const count of [1, 2, 4]) {
        const parts = await Promise.all(Array.from({ length: count }, (_, index) => open({ index, count })));
        for (const part of parts) expect([part.windows, part.batches]).toEqual([alone.windows, alone.batches]);
        for (let index = 0; index < alone.batches; index++) {
          const whole = alone.batchAt(index);
          const own = parts.map((part) => part.batchAt(index));
          for (const part of parts) expect(part.sourceAt?.(index)).toBe(alone.sourceAt?.(index));
          expect(own.flatMap(rowsIn)).toEqual(rowsIn(whole));
          for (const key of ["validTokens", "targetBytes"] as const) {
            expect(own.reduce((sum, batch) => sum + batch[key], 0)).toBe(whole[key]);
          }
        }
        // Also one that has nothing of its own is not refused: the others have.
        for (const part of parts) expect(() => requireTargetBytes(part)).not.toThrow();
      }
      expect(() => alone.ofProcess({ index: 0, count: 3 })).toThrow("choose a multiple of 3");
    }
  });

  it("train on synthetic data apart too", async () => {
    const settings = { datasetType: "synthetic", perDeviceBatchSize: 4 } as const;
    const options = { microBatches: 2 };
    const alone = await openText(settings, options);
    const parts = await Promise.all(
      [0, 1].map((index) => openText(settings, { ...options, part: { index, count: 2 } })),
    );
    const rows = ({ train }: Dataset, from: number) => train.batchAt(3).tokens.data.slice(from * 8, (from + 2) * 8);
    const joined = [0, 2].flatMap((from) => parts.flatMap((part) => [...rows(part, from)]));
    expect(joined).toEqual([...alone.train.batchAt(3).tokens.data]);
  });
});
