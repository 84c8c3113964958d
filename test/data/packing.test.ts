import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type BatchShape, trainingBatches } from "../../src/data/batches.ts";
import { fullWindows, packDocuments } from "../../src/data/packing.ts";
import { memoryStream } from "../../src/data/tokenStream.ts";
import { validationBatches } from "../../src/data/validationBatches.ts";

const tokenizer = { vocabSize: 1000, eosId: 999 };
const documents = fc.array(fc.array(fc.integer({ min: 0, max: 998 }), { maxLength: 30 }), {
  minLength: 1,
  maxLength: 20,
});

describe("packing", () => {
  it("ends each of three one-token documents with exactly one end token", () => {
    const packed = packDocuments([[1], [2], [3]], tokenizer);
    expect([...packed.tokens]).toEqual([1, 999, 2, 999, 3, 999]);
    expect(packed.documentEnds).toEqual([2, 4, 6]);
  });

  it("keeps every token in order, and the boundaries sum to the token count", () => {
    fc.assert(
      fc.property(documents, (docs) => {
        const { tokens, documentEnds } = packDocuments(docs, tokenizer);
        expect([...tokens]).toEqual(docs.flatMap((doc) => [...doc, 999]));
        const lengths = documentEnds.map((end, i) => end - (documentEnds[i - 1] ?? 0));
        expect(lengths).toEqual(docs.map((doc) => doc.length + 1));
        expect(lengths.reduce((a, b) => a + b, 0)).toBe(tokens.length);
      }),
    );
  });

  it("stores ids in as many bits as the vocabulary needs", () => {
    expect(packDocuments([[65535]], { vocabSize: 65536, eosId: 0 }).tokens).toBeInstanceOf(Uint16Array);
    const wide = packDocuments([[128255]], { vocabSize: 128256, eosId: 128001 }).tokens;
    expect(wide).toBeInstanceOf(Uint32Array);
    expect([...wide]).toEqual([128255, 128001]);
  });
});

const shapes = fc.record({ batchSize: fc.integer({ min: 1, max: 5 }), windowLength: fc.integer({ min: 1, max: 9 }) });

/** [token, target] pairs of the rows that count. */
function pairsOf(batch: {
  tokens: { data: ArrayLike<number | bigint> };
  targets: typeof batch.tokens;
  mask?: typeof batch.tokens;
}) {
  return Array.from(batch.tokens.data, (token, i) => ({
    token: Number(token),
    target: Number(batch.targets.data[i]),
    counts: batch.mask === undefined || batch.mask.data[i] === 1,
  })).filter(({ counts }) => counts);
}

describe("training batches", () => {
  const stream = (count: number) =>
    packDocuments([Array.from({ length: count - 1 }, (_, i) => i)], { vocabSize: 10_000, eosId: 9999 });

  it("predict every token of the full windows exactly once an epoch, each by the one before it", () => {
    fc.assert(
      fc.property(shapes, fc.integer({ min: 10, max: 200 }), fc.nat(), (shape, count, seed) => {
        const packed = stream(count);
        const batches = trainingBatches(memoryStream(packed), shape, seed);
        const { batchSize, windowLength } = shape;
        // Whole epochs only, so that each is seen in full: batchSize epochs are a whole number of batches.
        const targets: number[] = [];
        for (let step = 1; step <= batches.windows; step++) {
          for (const { token, target } of pairsOf(batches.batchAt(step))) {
            expect(target === 9999 ? count - 1 : target).toBe(token + 1);
            targets.push(target);
          }
        }
        const expected = [...packed.tokens].slice(1, 1 + batches.windows * windowLength);
        const times = new Map<number, number>();
        for (const target of targets) times.set(target, (times.get(target) ?? 0) + 1);
        expect([...times.keys()].sort((a, b) => a - b)).toEqual(expected.sort((a, b) => a - b));
        expect(new Set(times.values())).toEqual(new Set([batchSize]));
      }),
    );
  });

  it("visit every window once in each epoch, in different orders", () => {
    const shape: BatchShape = { batchSize: 1, windowLength: 4 };
    const batches = trainingBatches(memoryStream(stream(41)), shape, 5);
    expect(batches.windows).toBe(10);
    const epoch = (e: number) =>
      Array.from({ length: 10 }, (_, i) => Number(batches.batchAt(e * 10 + i + 1).tokens.data[0]));
    const sorted = (list: number[]) => [...list].sort((a, b) => a - b);
    expect(sorted(epoch(0))).toEqual([0, 4, 8, 12, 16, 20, 24, 28, 32, 36]);
    expect(sorted(epoch(1))).toEqual(sorted(epoch(0)));
    expect(epoch(1)).not.toEqual(epoch(0));
    expect(batches.epochAt(5)).toBe(0.5);
  });

  it("are the same for a step whatever was asked before, and others for another seed", () => {
    const shape: BatchShape = { batchSize: 3, windowLength: 8 };
    const data = (seed: number, order: number[]) => {
      const batches = trainingBatches(memoryStream(stream(500)), shape, seed);
      return new Map(order.map((step) => [step, [...batches.batchAt(step).tokens.data].map(Number)]));
    };
    const forwards = data(1, [1, 2, 3, 40, 41]);
    const backwards = data(1, [41, 3, 40, 1, 2]);
    for (const [step, tokens] of forwards) expect(backwards.get(step)).toEqual(tokens);
    expect(data(2, [1]).get(1)).not.toEqual(forwards.get(1));
  });

  it("count steps from 1", () => {
    expect(() => trainingBatches(memoryStream(stream(50)), { batchSize: 1, windowLength: 4 }, 0).batchAt(0)).toThrow(
      "from 1",
    );
  });

  it("count the targets that the stream says, each the mask of the token that is predicted", () => {
    const packed = packDocuments(
      [
        [1, 2, 3, 4],
        [5, 6],
      ],
      tokenizer,
    ); // 1 2 3 4 end 5 6 end
    const masked = memoryStream(packed, Uint8Array.of(0, 0, 1, 1, 1, 0, 1, 1));
    const batches = trainingBatches(masked, { batchSize: 1, windowLength: 3 }, 0);
    const counted = [1, 2].map((step) => {
      const batch = batches.batchAt(step);
      return { valid: batch.validTokens, targets: pairsOf(batch).map(({ target }) => target) };
    });
    expect(counted.sort((a, b) => a.targets[0]! - b.targets[0]!)).toEqual([
      { valid: 2, targets: [3, 4] },
      { valid: 2, targets: [999, 6] },
    ]);
    const { batchAt } = validationBatches(masked, { batchSize: 2, windowLength: 5 }, new Int32Array(1000).fill(2));
    expect(pairsOf(batchAt(0)).map(({ target }) => target)).toEqual([3, 4, 999, 6, 999]);
    expect(batchAt(0)).toMatchObject({ validTokens: 5, targetBytes: 10 });
  });

  it("have int32 arrays of [batch, window]", () => {
    const batch = trainingBatches(memoryStream(stream(50)), { batchSize: 2, windowLength: 4 }, 0).batchAt(1);
    expect(batch.tokens).toMatchObject({ shape: [2, 4], dtype: "int32" });
    expect(batch.targets).toMatchObject({ shape: [2, 4], dtype: "int32" });
    expect(batch.mask).toBeUndefined();
    expect(batch.validTokens).toBe(8);
  });
});

describe("validation batches", () => {
  it("score every token but the first exactly once, in order, padding the last batch", () => {
    fc.assert(
      fc.property(documents, shapes, (docs, shape) => {
        const packed = packDocuments(docs, tokenizer);
        if (packed.tokens.length < 2) return;
        const bytesOfToken = Int32Array.from({ length: 1000 }, (_, id) => (id === 999 ? 0 : (id % 5) + 1));
        const validation = validationBatches(memoryStream(packed), shape, bytesOfToken);
        const all = Array.from({ length: validation.batches }, (_, i) => validation.batchAt(i));
        const targets = all.flatMap((batch) => pairsOf(batch).map(({ target }) => target));
        const tokens = all.flatMap((batch) => pairsOf(batch).map(({ token }) => token));
        const stream = [...packed.tokens];
        expect(targets).toEqual(stream.slice(1));
        expect(tokens).toEqual(stream.slice(0, -1));
        expect(all.reduce((sum, batch) => sum + batch.validTokens, 0)).toBe(stream.length - 1);
        const bytes = stream.slice(1).reduce((sum, id) => sum + bytesOfToken[id]!, 0);
        expect(all.reduce((sum, batch) => sum + batch.targetBytes, 0)).toBe(bytes);
        expect(validation.windows).toBeGreaterThanOrEqual(fullWindows(stream.length, shape.windowLength));
        for (const batch of all) expect(batch.mask.shape).toEqual([shape.batchSize, shape.windowLength]);
      }),
    );
  });
});
