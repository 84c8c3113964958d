/** Stored tokens packed by whole documents, and split: with and without end tokens, in either width, with documents that are empty. */
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { UserError } from "../../src/base/errors.ts";
import type { Dataset, DatasetSettings } from "../../src/data/index.ts";
import { openText, ownCache, textsOf, validationText } from "./openText.ts";
import { bytesOf, idsOf, megatron } from "./storedFiles.ts";
import { temporaryFolder } from "./temporaryFiles.ts";

const trainingText = ({ train }: Dataset) =>
  textsOf(Array.from({ length: train.windows }, (_, i) => train.batchAt(i + 1)));
/** Everything that is predicted, in no order. */
const predicted = (data: Dataset) =>
  [...trainingText(data), ...(data.validation ? validationText(data) : "")].sort().join("");

/** What is to be predicted of documents: all but the first token of each. */
const targetsOf = (documents: readonly string[]) =>
  [...documents.map((text) => text.slice(1)).join("")].sort().join("");

async function expectRight(settings: Partial<DatasetSettings>, documents: readonly string[]) {
  const { validationFraction: fraction = 0 } = settings;
  const split = fraction > 0 && documents.length > 1;
  let data: Dataset;
  try {
    data = await openText({ maxTargetLength: 5, ...settings });
  } catch (error) {
    // Each split needs something to predict; which documents are held out, their hashes say.
    expect(error).toBeInstanceOf(UserError);
    expect((error as UserError).code).toBe("E_TOO_FEW_TOKENS");
    if (fraction === 0) expect(targetsOf(documents)).toBe("");
    return;
  }
  const { train, validation } = data.size!;
  expect(train.documents + (validation?.documents ?? 0)).toBe(documents.length + (fraction > 0 && !split ? 1 : 0));
  if (fraction === 0 || split) expect(predicted(data)).toBe(targetsOf(documents));
}

describe("packing of stored tokens", () => {
  const texts = fc.array(fc.string({ unit: fc.constantFrom("a", "b", "c"), maxLength: 12 }), {
    minLength: 1,
    maxLength: 9,
  });
  const shape = fc.record({
    packing: fc.constantFrom("best_fit" as const, "none" as const),
    validationFraction: fc.constantFrom(0, 0.3),
    wide: fc.boolean(),
    maxSegmentsPerSeq: fc.constantFrom(-1, 2),
  });

  it("dataset_type=tokens: every token but the first of a document is predicted once", async () => {
    ownCache();
    await fc.assert(
      fc.asyncProperty(
        texts,
        fc.boolean(),
        shape,
        async (bodies, isEnded, { wide, maxSegmentsPerSeq, ...settings }) => {
          const text = `${bodies.join("|")}${isEnded ? "|" : ""}`;
          fc.pre(text.length > 0);
          const folder = temporaryFolder({ "a.bin": bytesOf(idsOf(text), wide ? Uint32Array : Uint16Array) });
          await expectRight(
            {
              ...{ datasetType: "tokens", datasetPath: join(folder, "a.bin"), ...settings },
              ...(settings.packing === "best_fit" && { maxSegmentsPerSeq }),
              datasetTokenDtype: wide ? "uint32" : "uint16",
            },
            text.match(/[^|]*\|?/g)!.filter((document) => document !== ""),
          );
        },
      ),
      { numRuns: 60 },
    );
  });

  it("dataset_type=megatron: also where many documents are empty, or have no end token", async () => {
    ownCache();
    const documents = fc.array(fc.array(fc.constantFrom("", "a", "|", "ab|", "abcdefgh", "c|"), { maxLength: 3 }), {
      minLength: 1,
      maxLength: 12,
    });
    await fc.assert(
      fc.asyncProperty(documents, shape, async (given, { wide, maxSegmentsPerSeq, ...settings }) => {
        fc.pre(given.flat().join("") !== "");
        const folder = temporaryFolder(megatron(given, wide ? { code: 4, ids: 4 } : { code: 8, ids: 2 }));
        await expectRight(
          {
            ...{ datasetType: "megatron", datasetPath: join(folder, "a.bin"), ...settings },
            ...(settings.packing === "best_fit" && { maxSegmentsPerSeq }),
          },
          given.map((sequences) => sequences.join("")).filter((text) => text !== ""),
        );
      }),
      { numRuns: 60 },
    );
  });

  it("reads one document among a thousand that are empty or an end alone, and says what is wrong with these alone", async () => {
    ownCache();
    const empty = Array.from({ length: 1000 }, (_, i) => (i % 2 ? [] : ["|"]));
    const path = (files: Record<string, Uint8Array>) => join(temporaryFolder(files), "a.bin");
    const settings = { datasetType: "megatron", packing: "best_fit" } as const;
    const data = await openText({ ...settings, datasetPath: path(megatron([...empty, ["abc|"], ...empty])) });
    expect(data.size!.train).toEqual({ documents: 1001, tokens: 1004 });
    expect(trainingText(data)).toBe("bc|");
    await expect(openText({ ...settings, datasetPath: path(megatron(empty)) })).rejects.toThrow(
      "the training split has 500 document(s) of a single token each: a token is predicted from those before it in its document. Add text",
    );
  });
});

describe("the end of a file that is one document", () => {
  it.each([
    ["abcdefghij", "abcdefg|", "hij|"],
    ["abcdefghi|", "abcdefg|", "hi|"],
  ])("of %s is held out whole", async (text, train, validation) => {
    ownCache();
    for (const files of [{ "a.bin": bytesOf(idsOf(text)) }, megatron([[text]])]) {
      const datasetType = "a.idx" in files ? ("megatron" as const) : ("tokens" as const);
      const datasetPath = join(temporaryFolder(files), "a.bin");
      const data = await openText({ datasetType, datasetPath, validationFraction: 0.25, maxTargetLength: 7 });
      expect(trainingText(data)).toBe(train.slice(1));
      expect(validationText(data)).toBe(validation.slice(1));
    }
  });
});
