/** Tokens made elsewhere: plain .bin files, and Megatron's .bin with .idx. */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { UserError } from "../../src/base/errors.ts";
import type { DatasetSettings } from "../../src/data/index.ts";
import { openMegatronIndex } from "../../src/data/megatronIndex.ts";
import { openText, ownCache, validationText } from "./openText.ts";
import { bytesOf, eos, idsOf, megatron } from "./storedFiles.ts";
import { temporaryFolder } from "./temporaryFiles.ts";

const asValidation = (datasetPath: string, kind: "tokens" | "megatron", changes: Partial<DatasetSettings> = {}) => {
  const other = temporaryFolder({
    "o.bin": bytesOf(idsOf("some other tokens|")),
    ...rename(megatron([["some other tokens|"]])),
  });
  return openText({ datasetType: kind, datasetPath: join(other, "o.bin"), evalDatasetPath: datasetPath, ...changes });
};
const rename = (files: Record<string, Uint8Array>) =>
  Object.fromEntries(Object.entries(files).map(([name, bytes]) => [name.replace("a.", "o."), bytes]));

describe("dataset_type=tokens", () => {
  it("reads ids of two bytes or four where they lie, and ends documents at the end token", async () => {
    const cache = ownCache();
    const text = "first|second|the third has no end";
    for (const [datasetTokenDtype, array] of [
      ["auto", Uint16Array],
      ["uint16", Uint16Array],
      ["uint32", Uint32Array],
    ] as const) {
      const folder = temporaryFolder({ "a.bin": bytesOf(idsOf(text), array) });
      const own = { "o.bin": bytesOf(idsOf("some other tokens|"), array) };
      const datasetPath = join(temporaryFolder(own), "o.bin");
      const data = await asValidation(join(folder, "a.bin"), "tokens", { datasetTokenDtype, datasetPath });
      expect(data.size?.validation).toEqual({ documents: 3, tokens: text.length });
      expect(validationText(data)).toBe(text.slice(1));
    }
    // The tokens are not copied.
    const entries = readdirSync(cache, { recursive: true, encoding: "utf8" }).filter((name) =>
      name.endsWith("tokens.bin"),
    );
    expect(entries).toEqual([]);
  });

  it("reads a folder of files as one, in order, and splits it by document", async () => {
    ownCache();
    const documents = Array.from({ length: 60 }, (_, i) => `document ${i}|`);
    const folder = temporaryFolder({
      "part-0.bin": bytesOf(idsOf(documents.slice(0, 31).join(""))),
      "part-1.bin": bytesOf(idsOf(documents.slice(31).join(""))),
    });
    const whole = await openText({ datasetType: "tokens", datasetPath: folder });
    expect(whole.size!.train).toEqual({ documents: 60, tokens: documents.join("").length });
    const split = await openText({ datasetType: "tokens", datasetPath: folder, validationFraction: 0.2 });
    const heldOut = `|${validationText(split)}`.split("|").filter((text) => text !== "");
    expect(split.size!.train.documents + split.size!.validation!.documents).toBe(60);
    expect(split.size!.validation!.documents).toBeGreaterThan(3);
    expect(split.size!.validation!.documents).toBeLessThan(25);
    for (const text of heldOut.slice(1)) expect(documents).toContain(`${text}|`);
    const again = await openText({ datasetType: "tokens", datasetPath: folder, validationFraction: 0.2 });
    expect(again.hashes!.tokens).toBe(split.hashes!.tokens);
    expect(whole.hashes!.tokens).not.toBe(split.hashes!.tokens);
  });

  it("A16: refuses an id that the vocabulary has not, with the file, the place and the id", async () => {
    ownCache();
    const open = (
      ids: number[],
      array: typeof Uint16Array | typeof Uint32Array,
      changes: Partial<DatasetSettings> = {},
    ) => {
      const datasetPath = join(temporaryFolder({ "a.bin": bytesOf(ids, array) }), "a.bin");
      return openText({ datasetType: "tokens", datasetPath, ...changes });
    };
    await expect(open([...idsOf("some text|"), 257], Uint16Array)).rejects.toThrow(
      /a\.bin: token 10 \(byte 20, read as uint16\) is 257, and tokenizer_path=byte has ids 0 to 256/,
    );
    // Ids of two bytes read as four, and the other way round.
    await expect(open(idsOf("of two bytes"), Uint16Array, { datasetTokenDtype: "uint32" })).rejects.toThrow(
      /token 0 \(byte 0, read as uint32\) is 6684783.*dataset_token_dtype=uint16 if ids take 2 bytes each/,
    );
    await expect(open([70_000, 70_001], Uint32Array)).rejects.toThrow(/token 0 \(byte 0, read as uint16\) is 4464/);
    await expect(open([1], Uint16Array, { datasetTokenDtype: "uint32" })).rejects.toThrow(
      "no whole number of uint32 ids",
    );
  });

  it("refuses ids that are read in halves", async () => {
    ownCache();
    const folder = temporaryFolder({
      "four.bin": bytesOf(idsOf("ids of four bytes|"), Uint32Array),
      "eight.bin": new Uint8Array(BigInt64Array.from(idsOf("ids of eight|"), BigInt).buffer),
    });
    const open = (name: string, datasetTokenDtype: "auto" | "uint32") =>
      openText({ datasetType: "tokens", datasetPath: join(folder, name), datasetTokenDtype });
    await expect(open("four.bin", "auto")).rejects.toThrow(
      /four\.bin: read as uint16, every second id is 0, so its ids seem to take 4 bytes each: set dataset_token_dtype=uint32/,
    );
    expect((await open("four.bin", "uint32")).size!.train).toEqual({ documents: 1, tokens: 18 });
    await expect(open("eight.bin", "uint32")).rejects.toThrow("8 bytes each: write them anew as uint32");
  });

  it("is refused where no document has a token beside its end, also of one source in several", async () => {
    ownCache();
    const folder = temporaryFolder({ "ends.bin": bytesOf([eos, eos, eos]), "text.bin": bytesOf(idsOf("some text|")) });
    const [ends, text] = [join(folder, "ends.bin"), join(folder, "text.bin")];
    for (const packing of ["best_fit", "none"] as const) {
      for (const datasetPath of [ends, `${text},0.5;${ends},0.5`]) {
        const opening = openText({ datasetType: "tokens", datasetPath, packing });
        await expect(opening).rejects.toMatchObject({ code: "E_TOO_FEW_TOKENS" });
      }
    }
    const chunk = temporaryFolder(megatron([["ab"], [], [], ["c"]]));
    for (const packing of ["best_fit", "none", "concat"] as const) {
      const opening = openText({ datasetType: "megatron", datasetPath: join(chunk, "a.bin"), packing });
      await opening.catch((error: unknown) => expect(error).toBeInstanceOf(UserError));
    }
  });

  it("A7: looks through a file again that was changed, and not one that was not", async () => {
    ownCache();
    const folder = temporaryFolder({ "a.bin": bytesOf(idsOf("some text, and more|")) });
    const settings = { datasetType: "tokens", datasetPath: join(folder, "a.bin") } as const;
    const first = await openText(settings);
    expect((await openText(settings)).hashes!.tokens).toBe(first.hashes!.tokens);
    writeFileSync(settings.datasetPath, bytesOf(idsOf("some text, but more|")));
    expect((await openText(settings)).hashes!.tokens).not.toBe(first.hashes!.tokens);
    writeFileSync(settings.datasetPath, bytesOf([...idsOf("some text, but mor"), 999]));
    await expect(openText(settings)).rejects.toThrow("token 18");
  });
});

describe("dataset_type=megatron", () => {
  it.each([
    ["uint16", { code: 8, ids: 2 }],
    ["int16", { code: 3, ids: 2 }],
    ["int32", { code: 4, ids: 4 }],
  ])("reads ids of %s, and documents of several sequences, by the .bin, the .idx or their name", async (_, form) => {
    ownCache();
    const folder = temporaryFolder(megatron([["one|"], ["two in ", "parts|"], [""], ["three|"]], form));
    for (const name of ["a.bin", "a.idx", "a"]) {
      const data = await asValidation(join(folder, name), "megatron");
      expect(data.size?.validation).toEqual({ documents: 3, tokens: 23 });
      expect(validationText(data)).toBe("ne|two in parts|three|");
    }
  });

  it("A17: says where documents lack the end token", async () => {
    ownCache();
    const folder = temporaryFolder(megatron([["one"], ["two|"], ["three"]]));
    const said: string[] = [];
    const settings = { datasetType: "megatron", datasetPath: folder, maxTargetLength: 4 } as const;
    for (let time = 0; time < 2; time++) await openText(settings, { say: (text) => said.push(text) });
    expect(said).toEqual(
      Array(2).fill(expect.stringMatching(/^note: 2 documents of .*a\.bin do not end with .*\(id 256\)/)),
    );
  });

  it.each([
    ["a.idx", (bytes: Buffer) => bytes.subarray(0, 20), "20 bytes are no Megatron index"],
    ["a.idx", (bytes: Buffer) => bytes.subarray(0, bytes.length - 8), "it was cut off, or is damaged"],
    ["a.idx", (bytes: Buffer) => bytes.fill("X", 0, 3), "it does not begin with MMIDIDX"],
    ["a.idx", (bytes: Buffer) => bytes.fill(2, 9, 10), "index version 2"],
    ["a.idx", (bytes: Buffer) => bytes.fill(5, 17, 18), "ids are stored as int64"],
    ["a.idx", (bytes: Buffer) => bytes.fill(77, 17, 18), "ids are stored as code 77"],
    ["a.idx", (bytes: Buffer) => bytes.fill(0x7f, 18, 26), "it was cut off, or is damaged"],
    ["a.idx", (bytes: Buffer) => bytes.fill(0xff, 34, 38), "sequence 0 has -1 tokens"],
    ["a.idx", (bytes: Buffer) => bytes.fill(9, 50, 51), "sequences must follow each other"],
    ["a.idx", (bytes: Buffer) => bytes.fill(9, 66, 67), "document 1 begins with sequence 9 of 2"],
    ["a.bin", (bytes: Buffer) => bytes.subarray(0, 4), "the two do not belong together"],
  ])("refuses a damaged %s", async (name, damage, message) => {
    ownCache();
    const folder = temporaryFolder(megatron([["one of them|"], ["and another|"]]));
    const path = join(folder, name);
    writeFileSync(path, damage(readFileSync(path)));
    await expect(openText({ datasetType: "megatron", datasetPath: join(folder, "a.bin") })).rejects.toThrow(message);
  });

  it("ends in a typed error or a right read for any change of the index", async () => {
    const files = megatron([["one of them|"], ["and ", "another|"], ["third|"]]);
    const folder = temporaryFolder(files);
    const changes = fc.array(fc.tuple(fc.nat(files["a.idx"].length - 1), fc.integer({ min: 0, max: 255 })), {
      minLength: 1,
      maxLength: 4,
    });
    fc.assert(
      fc.property(changes, fc.integer({ min: 0, max: 30 }), (edits, cut) => {
        const bytes = files["a.idx"].slice(0, files["a.idx"].length - (cut > 20 ? cut : 0));
        for (const [place, value] of edits) if (place < bytes.length) bytes[place] = value;
        writeFileSync(join(folder, "a.idx"), bytes);
        try {
          const { tokens, documentEnds } = openMegatronIndex(join(folder, "a.bin"));
          const ends = [...documentEnds()];
          expect(ends).toEqual([...ends].sort((a, b) => a - b));
          expect(ends.at(-1) ?? 0).toBeLessThanOrEqual(tokens);
        } catch (error) {
          expect(error).toBeInstanceOf(UserError);
        }
      }),
      { numRuns: 300 },
    );
  });

  it("says what is missing beside it", async () => {
    const folder = temporaryFolder({ "b.bin": bytesOf([1, 2]), "c.txt": "text" });
    const open = (name: string) => openText({ datasetType: "megatron", datasetPath: join(folder, name) });
    await expect(open("b")).rejects.toThrow(/b\.idx: no such file: Megatron's \.bin needs the \.idx/);
    await expect(open("none")).rejects.toThrow("no such file or folder");
    await expect(open("c.txt")).rejects.toThrow("reads files whose names end in .bin");
  });
});
