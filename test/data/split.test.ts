import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { splitDocuments } from "../../src/data/split.ts";

const documentList = fc
  .array(fc.integer({ min: 1, max: 10_000 }), { minLength: 1, maxLength: 60 })
  .map((sizes) => sizes.map((bytes, i) => ({ key: `part/${i}.txt`, bytes })));

describe("splitDocuments", () => {
  it("puts every document in exactly one split, keeping the order", () => {
    fc.assert(
      fc.property(documentList, fc.double({ min: 0.001, max: 0.9, noNaN: true }), (documents, fraction) => {
        const { train, validation } = splitDocuments(documents, fraction);
        const inTraining = new Set(train);
        expect(validation.filter((document) => inTraining.has(document))).toEqual([]);
        expect(documents.filter((document) => inTraining.has(document))).toEqual(train);
        expect(train.length + validation.length).toBe(documents.length);
        expect(train.length).toBeGreaterThan(0);
        expect(validation.length > 0).toBe(documents.length > 1);
      }),
    );
  });

  it("holds out about the share that was asked for", () => {
    const documents = Array.from({ length: 400 }, (_, i) => ({ key: `${i}.txt`, bytes: 500 + ((i * 7919) % 1000) }));
    const total = documents.reduce((sum, { bytes }) => sum + bytes, 0);
    const heldOut = splitDocuments(documents, 0.05).validation.reduce((sum, { bytes }) => sum + bytes, 0);
    expect(heldOut / total).toBeCloseTo(0.05, 2);
  });

  it("prefers a small document to a share far too large", () => {
    const documents = [
      { key: "a", bytes: 990 },
      { key: "b", bytes: 10 },
    ];
    expect(splitDocuments(documents, 0.01).validation.map(({ key }) => key)).toEqual(["b"]);
  });

  it("does not depend on the place of a document in the list", () => {
    const documents = Array.from({ length: 30 }, (_, i) => ({ key: `${i}.txt`, bytes: 100 }));
    const keys = (list: readonly { key: string }[]) => list.map(({ key }) => key).sort();
    expect(keys(splitDocuments([...documents].reverse(), 0.2).validation)).toEqual(
      keys(splitDocuments(documents, 0.2).validation),
    );
  });

  it("holds out nothing for 0", () => {
    expect(splitDocuments([{ key: "a", bytes: 1 }], 0).validation).toEqual([]);
  });
});
