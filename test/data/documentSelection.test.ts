import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { holdOutTail, splitStream } from "../../src/data/documentSelection.ts";
import { packDocuments } from "../../src/data/packing.ts";
import { memoryStream, type TokenStream } from "../../src/data/tokenStream.ts";

const tokenizer = { vocabSize: 1000, eosId: 999 };
const documents = fc.array(fc.array(fc.integer({ min: 0, max: 998 }), { maxLength: 12 }), {
  minLength: 1,
  maxLength: 30,
});

const all = (stream: TokenStream) => [...stream.read(0, stream.length)];
const ends = (stream: TokenStream) => [...stream.readEnds(0, stream.documents)];

describe("a split stream", () => {
  it("gives every document to one side, in order, with its end and its mask, wherever it is read", () => {
    fc.assert(
      fc.property(documents, fc.infiniteStream(fc.boolean()), fc.nat(), fc.nat(), (docs, coins, a, b) => {
        const heldOut = docs.map(() => coins.next().value as boolean);
        const packed = packDocuments(docs, tokenizer);
        const whole = memoryStream(
          packed,
          Uint8Array.from(packed.tokens, (id) => id % 2),
        );
        const draws = Uint32Array.from(heldOut, Number);
        const split = splitStream(
          whole,
          (first, count) => draws.slice(first, first + count),
          (draw) => draw === 1,
        );
        for (const [side, stream] of [split.train, split.validation].entries()) {
          const own = docs.filter((_, i) => heldOut[i] === (side === 1));
          const expected = packDocuments(own, tokenizer);
          expect(stream.length).toBe(expected.tokens.length);
          expect(all(stream)).toEqual([...expected.tokens]);
          expect(ends(stream)).toEqual([...expected.documentEnds]);
          expect([...stream.readMask!(0, stream.length)]).toEqual([...expected.tokens].map((id) => id % 2));
          const start = a % (stream.length + 1);
          const count = b % (stream.length - start + 1);
          expect([...stream.read(start, count)]).toEqual([...expected.tokens.slice(start, start + count)]);
          const first = a % (stream.documents + 1);
          expect([...stream.readEnds(first, stream.documents - first)]).toEqual(expected.documentEnds.slice(first));
        }
      }),
    );
  });
});

describe("the tail of a single document", () => {
  const packed = packDocuments([Array.from({ length: 10 }, (_, i) => i)], tokenizer);

  it("is held out so that both parts end", () => {
    const { train, validation } = holdOutTail(memoryStream(packed), 0.3, 999);
    expect(all(train)).toEqual([0, 1, 2, 3, 4, 5, 6, 999]);
    expect(all(validation)).toEqual([7, 8, 9, 999]);
    expect([ends(train), ends(validation)]).toEqual([[8], [4]]);
    expect([...train.read(6, 2)]).toEqual([6, 999]);
    expect([...train.read(2, 3)]).toEqual([2, 3, 4]);
    expect([...train.read(7, 1)]).toEqual([999]);
  });

  it("keeps the mask, and predicts both ends", () => {
    const mask = Uint8Array.of(0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1);
    const { train, validation } = holdOutTail(memoryStream(packed, mask), 0.3, 999);
    expect([...train.readMask!(0, 8)]).toEqual([0, 0, 0, 0, 0, 1, 1, 1]);
    expect([...validation.readMask!(0, 4)]).toEqual([1, 1, 1, 1]);
  });
});
