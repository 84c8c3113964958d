/** Packed documents, by property: every document is there once, whole, and nothing of it is anybody else's. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Batch, type BatchShape, trainingBatches } from "../../src/data/batches.ts";
import { documentSequences } from "../../src/data/documentSequences.ts";
import { packDocuments, requireDocument } from "../../src/data/packing.ts";
import { paddingShare } from "../../src/data/packingReport.ts";
import type { Packing } from "../../src/data/packingSettings.ts";
import { memoryStream, type TokenStream } from "../../src/data/tokenStream.ts";
import { validationBatches } from "../../src/data/validationBatches.ts";

const eos = 60_000;
const tokenizer = { vocabSize: 60_001, eosId: eos };

/** Documents of distinct tokens, by their lengths without end tokens. */
function documentsOf(lengths: readonly number[]): number[][] {
  let next = 0;
  return lengths.map((length) => Array.from({ length }, () => next++));
}
const streamOf = (documents: readonly number[][]): TokenStream => memoryStream(packDocuments(documents, tokenizer));

interface Piece {
  readonly tokens: number[];
  readonly targets: number[];
  readonly counts: number[];
}

/** The rows of a batch apart into the runs of their segments, padding left out. */
function piecesOf({ tokens, targets, mask, segments }: Batch): Piece[][] {
  const [rows, width] = tokens.shape as [number, number];
  return Array.from({ length: rows }, (_, row) => {
    const pieces: Piece[] = [];
    for (let t = row * width; t < (row + 1) * width; t++) {
      const id = Number(segments!.data[t]);
      if (id === 0) {
        // Padding is at the end and counts nowhere.
        expect([Number(mask!.data[t]), Number(tokens.data[t]), Number(targets.data[t])]).toEqual([0, 0, 0]);
        continue;
      }
      expect([pieces.length, pieces.length + 1]).toContain(id);
      if (id > pieces.length) pieces.push({ tokens: [], targets: [], counts: [] });
      pieces.at(-1)!.tokens.push(Number(tokens.data[t]));
      pieces.at(-1)!.targets.push(Number(targets.data[t]));
      pieces.at(-1)!.counts.push(Number(mask!.data[t]));
    }
    return pieces;
  });
}

/** One epoch of training, a row a step. */
function epochOf(stream: TokenStream, windowLength: number, packing: Packing, seed = 0): Batch[] {
  const batches = trainingBatches(stream, { batchSize: 1, windowLength, packing }, seed);
  return Array.from({ length: batches.windows }, (_, i) => batches.batchAt(i + 1));
}

const bestFit = (maxSegments?: number): Packing => ({
  strategy: "best_fit",
  withinDocuments: true,
  ...(maxSegments !== undefined && { maxSegments }),
});
const lengths = fc.array(fc.integer({ min: 0, max: 40 }), { minLength: 1, maxLength: 40 });
const nonempty = lengths.filter((all) => all.some((length) => length > 0));

describe("best_fit", () => {
  it("has every document once an epoch, whole unless it is longer than a sequence, each token predicted by the one before", () => {
    fc.assert(
      fc.property(
        nonempty,
        fc.integer({ min: 1, max: 25 }),
        fc.option(fc.integer({ min: 1, max: 4 }), { nil: undefined }),
        (lengths, width, maxSegments) => {
          const documents = documentsOf(lengths);
          const rows = epochOf(streamOf(documents), width, bestFit(maxSegments)).flatMap(piecesOf);
          for (const row of rows) {
            expect(row.length).toBeGreaterThan(0);
            expect(row.length).toBeLessThanOrEqual(maxSegments ?? width);
          }
          const pieces = rows.flat().sort((a, b) => a.tokens[0]! - b.tokens[0]!);
          for (const { counts } of pieces) expect(new Set(counts)).toEqual(new Set([1]));
          const wanted = documents.flatMap((ids) => {
            const whole = [...ids, eos];
            return Array.from({ length: Math.ceil(ids.length / width) }, (_, i) => {
              const [from, to] = [i * width, Math.min((i + 1) * width, ids.length)];
              return { tokens: whole.slice(from, to), targets: whole.slice(from + 1, to + 1) };
            });
          });
          expect(pieces.map(({ tokens, targets }) => ({ tokens, targets }))).toEqual(wanted);
        },
      ),
    );
  });

  it("is the same in whatever order steps are asked for, and another order of the same sequences for another seed", () => {
    const stream = streamOf(documentsOf(Array.from({ length: 500 }, (_, i) => (i * 37) % 50)));
    const shape: BatchShape = { batchSize: 3, windowLength: 64, packing: bestFit() };
    const data = (seed: number, order: number[]) => {
      const batches = trainingBatches(stream, shape, seed);
      return new Map(order.map((step) => [step, [...batches.batchAt(step).tokens.data].map(Number)]));
    };
    const forwards = data(1, [1, 2, 3, 40, 41]);
    expect(data(1, [41, 3, 40, 1, 2])).toEqual(forwards);
    expect(data(2, [1]).get(1)).not.toEqual(forwards.get(1));
    const sorted = (seed: number) => epochOf(stream, 64, bestFit(), seed).map(({ tokens }) => [...tokens.data].join());
    expect(sorted(1).sort()).toEqual(sorted(2).sort());
  });

  it("wastes little: documents of many lengths leave under 1 % of padding", () => {
    const draws = Array.from({ length: 20_000 }, (_, i) => ((Math.imul(i + 1, 2654435761) >>> 0) / 2 ** 32) ** 2);
    const long = documentSequences(
      lazyStream(20_000, (i) => 2 + Math.ceil(600 * draws[i]!)),
      512,
      { segmented: true },
    );
    expect(paddingShare(long.report)).toBeLessThan(0.01);
    expect(paddingShare(long.report)).toBeGreaterThan(0);
    expect(long.report.cut).toBe(draws.filter((u) => 1 + Math.ceil(600 * u) > 512).length);
    const alone = documentSequences(
      lazyStream(20_000, (i) => 2 + Math.ceil(600 * draws[i]!)),
      512,
      {
        segmented: true,
        maxSegments: 1,
      },
    );
    expect(paddingShare(alone.report)).toBeGreaterThan(0.5);
  });

  it("keeps no more of three million documents than where their groups begin", () => {
    const documents = 3_000_000;
    const stream = lazyStream(documents, (i) => 20 + (i % 1000));
    global.gc?.();
    const before = process.memoryUsage();
    const sequences = documentSequences(stream, 2048, { segmented: true });
    const after = process.memoryUsage();
    expect(after.heapUsed + after.arrayBuffers - before.heapUsed - before.arrayBuffers).toBeLessThan(48 * 2 ** 20);
    expect(sequences.report.targets).toBe(
      Array.from({ length: 1000 }, (_, i) => 3000 * (19 + i)).reduce((a, b) => a + b),
    );
    expect(paddingShare(sequences.report)).toBeLessThan(0.01);
  });
});

/** Documents of made-up tokens, none of which is kept. @param lengthOf with the end token; the same every 1,000 documents, or few */
function lazyStream(documents: number, lengthOf: (document: number) => number): TokenStream {
  const period = Math.min(documents, 1000);
  const isPeriodic = documents > 100_000;
  const ends: number[] = [0];
  for (let i = 0; i < (isPeriodic ? period : documents); i++) ends.push(ends[i]! + lengthOf(i));
  const turn = ends.at(-1)!;
  const endOf = (i: number) => (isPeriodic ? Math.floor(i / period) * turn + ends[(i % period) + 1]! : ends[i + 1]!);
  return {
    documents,
    length: endOf(documents - 1),
    read: (start, count) => Uint16Array.from({ length: count }, (_, i) => (start + i) % 60_000),
    readEnds: (first, count) => Float64Array.from({ length: count }, (_, i) => endOf(first + i)),
  };
}

it("documents that are nothing but their ends are refused, for nothing is to be predicted", () => {
  const refused = () => requireDocument("training split", streamOf([[], []]));
  expect(refused).toThrow("the training split has 2 document(s) of a single token each");
  requireDocument("training split", streamOf([[], [1]]));
});

describe("none", () => {
  it("has one document in a sequence, or a part of one, and needs no segments", () => {
    const documents = documentsOf([5, 1, 0, 12, 8]);
    const batches = epochOf(streamOf(documents), 8, { strategy: "none", withinDocuments: true });
    for (const { segments } of batches) expect(segments).toBeUndefined();
    const rows = batches.map(({ tokens, mask }) => [...tokens.data].map(Number).filter((_, i) => mask!.data[i] === 1));
    expect(rows.sort((a, b) => a[0]! - b[0]!)).toEqual([
      documents[0],
      documents[1],
      documents[3]!.slice(0, 8),
      documents[3]!.slice(8),
      documents[4],
    ]);
  });

  it("A17: three documents of one token, in one sequence of 8 or in three: each predicts one end token", () => {
    const stream = streamOf([[1], [2], [3]]);
    const [packed] = epochOf(stream, 8, bestFit());
    expect([...packed!.tokens.data]).toEqual([1, 2, 3, 0, 0, 0, 0, 0]);
    expect([...packed!.targets.data]).toEqual([eos, eos, eos, 0, 0, 0, 0, 0]);
    expect([...packed!.segments!.data]).toEqual([1, 2, 3, 0, 0, 0, 0, 0]);
    expect([...packed!.mask!.data]).toEqual([1, 1, 1, 0, 0, 0, 0, 0]);
    const alone = epochOf(stream, 8, { strategy: "none", withinDocuments: true });
    expect(alone.map(({ tokens }) => Number(tokens.data[0])).sort()).toEqual([1, 2, 3]);
    for (const { targets, validTokens } of alone) expect([Number(targets.data[0]), validTokens]).toEqual([eos, 1]);
  });
});

describe("concat within documents", () => {
  const within: Packing = { strategy: "concat", withinDocuments: true };

  it("has the windows of the plain stream, in which no document's first token is predicted from another", () => {
    fc.assert(
      fc.property(nonempty, fc.integer({ min: 1, max: 12 }), (lengths, width) => {
        const stream = streamOf(documentsOf(lengths));
        if (stream.length <= width) return;
        const plain = epochOf(stream, width, { strategy: "concat", withinDocuments: false });
        const batches = epochOf(stream, width, within);
        batches.forEach((batch, i) => {
          expect(batch.tokens).toEqual(plain[i]!.tokens);
          expect(batch.targets).toEqual(plain[i]!.targets);
          expect(plain[i]!.mask).toBeUndefined();
          for (const { tokens, counts } of piecesOf(batch).flat()) {
            // The end token is the last of its document, and predicts nothing.
            const end = tokens.indexOf(eos);
            expect(end === -1 || end === tokens.length - 1).toBe(true);
            expect(counts).toEqual(tokens.map((id) => (id === eos ? 0 : 1)));
          }
        });
      }),
    );
  });

  it("counts the documents of a window that begins in the middle of one", () => {
    const stream = streamOf(documentsOf([3, 2, 4]));
    const bySegments = epochOf(stream, 5, within)
      .map(({ tokens, segments }) => [[...tokens.data].map(Number), [...segments!.data].map(Number)] as const)
      .sort(([a], [b]) => a[0]! - b[0]!);
    expect(bySegments).toEqual([
      [
        [0, 1, 2, eos, 3],
        [1, 1, 1, 1, 2],
      ],
      [
        [4, eos, 5, 6, 7],
        [1, 1, 2, 2, 2],
      ],
    ]);
  });
});

describe("masks of prompts", () => {
  it.each<Packing>([
    bestFit(),
    { strategy: "none", withinDocuments: true },
    { strategy: "concat", withinDocuments: true },
    { strategy: "concat", withinDocuments: false },
  ])("stay with their tokens: %o", (packing) => {
    fc.assert(
      fc.property(nonempty, fc.integer({ min: 1, max: 12 }), (lengths, width) => {
        const { tokens, documentEnds } = packDocuments(documentsOf(lengths), tokenizer);
        if (packing.strategy === "concat" && tokens.length <= width) return;
        // Every third token is a prompt's, and so are the even ends.
        const mask = Uint8Array.from(tokens, (id, i) => Number(id === eos ? i % 2 : id % 3 > 0));
        const stream = memoryStream({ tokens, documentEnds }, mask);
        for (const { tokens, targets, mask } of epochOf(stream, width, packing)) {
          [...targets.data].map(Number).forEach((id, i) => {
            if (id !== eos && id % 3 === 0) expect(mask!.data[i]).toBe(0);
            const own = Number(tokens.data[i]) !== eos;
            if (id !== eos && id % 3 > 0 && own) expect(mask!.data[i]).toBe(1);
          });
        }
      }),
    );
  });

  it("a genuine end token counts where padding has the same id (B6): masks are by place", () => {
    const stream = memoryStream(packDocuments([[5, 6, 7]], { vocabSize: 10, eosId: 0 }));
    const [batch] = epochOf(stream, 8, bestFit());
    expect([...batch!.targets.data]).toEqual([6, 7, 0, 0, 0, 0, 0, 0]);
    expect([...batch!.mask!.data]).toEqual([1, 1, 1, 0, 0, 0, 0, 0]);
    expect(batch!.validTokens).toBe(3);
  });
});

describe("validation of packed documents", () => {
  it("scores every token but the first of each document exactly once", () => {
    fc.assert(
      fc.property(nonempty, fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 4 }), (lengths, width, rows) => {
        const documents = documentsOf(lengths);
        const shape = { batchSize: rows, windowLength: width, packing: bestFit() };
        const validation = validationBatches(streamOf(documents), shape, new Uint8Array(eos + 1).fill(2));
        const all = Array.from({ length: validation.batches }, (_, i) => validation.batchAt(i));
        const targets = all.flatMap(({ targets, mask }) =>
          [...targets.data].map(Number).filter((_, i) => mask.data[i] === 1),
        );
        const wanted = documents.flatMap((ids) => (ids.length === 0 ? [] : [...ids.slice(1), eos]));
        expect(targets.sort((a, b) => a - b)).toEqual(wanted.sort((a, b) => a - b));
        expect(all.reduce((sum, { targetBytes }) => sum + targetBytes, 0)).toBe(2 * wanted.length);
        for (const { segments } of all) expect(segments!.shape).toEqual([rows, width]);
      }),
    );
  });
});
