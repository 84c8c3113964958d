/** Documents that are both trained on and validated on: how many, and how much is read to count them. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { packDocuments } from "../../src/data/packing.ts";
import { countShared } from "../../src/data/sharedDocuments.ts";
import { memoryStream } from "../../src/data/tokenStream.ts";

const eosId = 63;

/** A source of documents with the draws that are given, and how many tokens were read of it. */
function sourceOf(documents: readonly (readonly number[])[], drawOf: (ids: readonly number[]) => number) {
  const packed = memoryStream(
    packDocuments(
      documents.map((ids) => [...ids]),
      { vocabSize: 64, eosId },
    ),
  );
  const draws = Uint32Array.from(documents, drawOf);
  const read = { tokens: 0 };
  const stream: typeof packed = {
    ...packed,
    read(start, count) {
      read.tokens += count;
      return packed.read(start, count);
    },
  };
  return { read, stream, readDraws: (first: number, count: number) => draws.slice(first, first + count) };
}

const numbered = (i: number) => [i & 7, (i >> 3) & 7, (i >> 6) & 7, (i >> 9) & 7, (i >> 12) & 7];

describe("documents that two sources have both", () => {
  it("are counted as a plain search counts them, whatever their draws", () => {
    const documents = fc.array(fc.array(fc.nat(2), { maxLength: 3 }), { maxLength: 12 });
    fc.assert(
      fc.property(
        documents,
        fc.array(documents, { maxLength: 3 }),
        fc.integer({ min: 1, max: 4 }),
        (own, others, k) => {
          const drawOf = (ids: readonly number[]) => (ids.reduce((sum, id) => sum + id, 0) % k) << 16;
          const there = new Set(others.flat().map(String));
          expect(
            countShared(
              sourceOf(own, drawOf),
              others.map((other) => sourceOf(other, drawOf)),
              eosId,
            ),
          ).toBe(own.filter((ids) => there.has(String(ids))).length);
        },
      ),
    );
  });

  it.each([
    ["equal ones", () => [1, 2, 3, 4, 5], () => [1, 2, 3, 4, 5], 1],
    ["empty ones", () => [], () => [], 1],
    ["different ones of one draw", numbered, (i: number) => numbered(i + 500), 0.5],
    ["different ones of one draw, none shared", numbered, (i: number) => [9, ...numbered(i).slice(1)], 0],
  ])("are counted in linear time: %s", (_, own, other, share) => {
    const reads = (count: number) => {
      const [one, two] = [own, other].map((of) =>
        sourceOf(
          Array.from({ length: count }, (_, i) => of(i)),
          () => 7,
        ),
      );
      const factor = share === 0.5 ? 1 - 500 / count : share;
      expect(countShared(one!, [two!], eosId)).toBe(count * factor);
      return one!.read.tokens + two!.read.tokens;
    };
    // Each token once, and each document's end.
    for (const count of [1000, 4000]) expect(reads(count)).toBeLessThanOrEqual(2 * count * 6);
  });
});
