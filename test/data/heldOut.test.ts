/** Equal documents are in one split, whatever sources they lie in and however these are spelled. */
import { cpSync } from "node:fs";
import { join, relative } from "node:path";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { parquetWriteBuffer } from "hyparquet-writer";
import { describe, expect, it } from "vitest";
import { textHash } from "../../src/data/hash.ts";
import { documentOfRecord } from "../../src/data/records.ts";
import { drawOf } from "../../src/data/tokenBlocks.ts";
import { trainingTexts } from "../../src/data/trainingTexts.ts";
import type { ChatMessage } from "../../src/tokenizers/chatTemplate.ts";
import { openText, ownCache, textsOf, validationText } from "./openText.ts";
import { temporaryFolder } from "./temporaryFiles.ts";

const bodies = Array.from({ length: 24 }, (_, i) => `the document of number ${String(i).padStart(3, "0")}`);
const numbers = (text: string) => new Set(text.match(/\d{3}/g) ?? []);

/** The numbers of documents that are trained on and validated on. */
async function splitOf(settings: Parameters<typeof openText>[0]) {
  const data = await openText({ maxTargetLength: 64, packing: "none", validationFraction: 0.3, ...settings });
  const batches = Array.from({ length: data.train.windows }, (_, i) => data.train.batchAt(i + 1));
  return { train: numbers(textsOf(batches)), validation: numbers(validationText(data)) };
}
async function expectApart(settings: Parameters<typeof openText>[0], count: number) {
  const { train, validation } = await splitOf(settings);
  expect([...train].filter((number) => validation.has(number))).toEqual([]);
  expect(train.size + validation.size).toBe(count);
  expect(validation.size).toBeGreaterThan(0);
  return { train, validation };
}
const jsonl = (texts: readonly string[]) => texts.map((text) => `${JSON.stringify({ text })}\n`).join("");
const ids = (texts: readonly string[]) =>
  new Uint8Array(Uint16Array.from(texts.flatMap((text) => [...Buffer.from(text), 256])).buffer);

describe("what is held out", () => {
  it("is the same of a folder and of one below it, of plain text and of tokens", async () => {
    ownCache();
    const texts = Object.fromEntries(bodies.map((text, i) => [`books/${i % 2 ? "sub/" : ""}${i}.txt`, text]));
    const folder = temporaryFolder(texts);
    const datasetPath = `${join(folder, "books")};${join(folder, "books", "sub")}`;
    const { train } = await expectApart({ datasetPath }, 24);
    const read = await trainingTexts({
      ...{ datasetType: "text", datasetPath, evalDatasetPath: "", validationFraction: 0.3 },
    });
    let text = "";
    for await (const part of read.texts()) text += part;
    expect(numbers(text)).toEqual(train);

    const stored = temporaryFolder({ "all/a.bin": ids(bodies), "all/sub/b.bin": ids(bodies.slice(4, 12)) });
    const paths = { datasetPath: `${join(stored, "all")};${join(stored, "all", "sub")}` };
    await expectApart({ datasetType: "tokens", ...paths }, 24);
  });

  it("is the same of copies under other names", async () => {
    ownCache();
    const files = Object.fromEntries(bodies.map((text, i) => [`a/${i}.txt`, text]));
    const folder = temporaryFolder(files);
    for (let i = 0; i < 24; i += 2) cpSync(join(folder, "a", `${i}.txt`), join(folder, "a", `copy-${i}.txt`));
    for (let i = 0; i < 24; i += 3) cpSync(join(folder, "a", `${i}.txt`), join(folder, "b", `other-${i}.txt`));
    await expectApart({ datasetPath: join(folder, "a") }, 24);
    await expectApart({ datasetPath: `${join(folder, "b")};${join(folder, "a")}` }, 24);
  });

  it("is the same of records that begin with a byte order mark, which is no text", async () => {
    ownCache();
    const marked = bodies.map((text) => `\ufeff${text}`);
    const folder = temporaryFolder({ "a.jsonl": jsonl(bodies), "b.jsonl": jsonl(marked), "one/c.txt": marked[0]! });
    const at = (name: string) => join(folder, name);
    await expectApart({ datasetPath: `${at("a.jsonl")};${at("b.jsonl")}` }, 24);
    const alone = { datasetPath: at("b.jsonl"), evalDatasetPath: at("one"), validationFraction: 0 };
    await expect(openText({ ...alone, maxTargetLength: 64 })).rejects.toThrow("every document of");

    const record = (value: object, kind: "completion" | "chat") => documentOfRecord({ ...value }, kind, []);
    const [user, assistant] = [
      { role: "user", content: "a" },
      { role: "assistant", content: "b\ufeff" },
    ];
    expect(record({ prompt: "\ufeffa", completion: "\ufeffb\ufeff" }, "completion")).toEqual(
      record({ prompt: "a", completion: "b\ufeff" }, "completion"),
    );
    const messages = [{ ...user, content: "\ufeffa" }, assistant];
    expect(record({ messages }, "chat")).toEqual(record({ messages: [user, assistant] }, "chat"));
    const conversations = [{ from: "human", value: "\ufeffa" }];
    expect(record({ conversations }, "chat")).toEqual(record({ messages: [user] }, "chat"));
  });

  it("is the same whatever form a document has", async () => {
    ownCache();
    const parquet = (texts: readonly string[]) =>
      new Uint8Array(parquetWriteBuffer({ columnData: [{ name: "text", data: [...texts], type: "STRING" }] }));
    // Longer than what is read of a file at once.
    const long = bodies.map((text, i) => (i % 8 === 0 ? `${text} ${"and so on, é ".repeat(9000)}` : text));
    const plain = long.map((text, i): [string, string | Uint8Array] =>
      i % 3 === 0 ? [`texts/${i}.txt.gz`, gzipSync(text)] : [`texts/${i}.txt`, i % 3 === 1 ? `\ufeff${text}` : text],
    );
    const folder = temporaryFolder({
      ...Object.fromEntries(plain),
      "other/moved.md": long[3]!,
      "some.jsonl": jsonl(long.slice(2, 18)),
      "one.jsonl": jsonl(long.slice(8, 9)),
      "more.jsonl.gz": gzipSync(jsonl(long.slice(14))),
      "rows.parquet": parquet(long.slice(5, 12)),
    });
    const at = (...names: string[]) => names.map((name) => join(folder, name)).join(";");
    for (const datasetPath of [
      at("texts", "some.jsonl", "rows.parquet"),
      at("rows.parquet", "more.jsonl.gz", "texts"),
      at("some.jsonl", "other", "more.jsonl.gz", "rows.parquet", "texts"),
      at("one.jsonl", "texts"),
    ]) {
      const opening = expectApart({ datasetPath }, 24);
      const split = await opening.catch((error: { code?: string }) => {
        // The single document of a source may be held out.
        if (error.code !== "E_TOO_FEW_TOKENS") throw error;
      });
      if (split === undefined) continue;
      const text = { datasetType: "text", datasetPath, evalDatasetPath: "", validationFraction: 0.3 } as const;
      let read = "";
      for await (const part of (await trainingTexts(text)).texts()) read += part;
      expect(numbers(read)).toEqual(split.train);
    }
  });

  it("is the same of conversations from JSON Lines and from Parquet", () => {
    const chat = (...messages: object[]) => drawOf({ kind: "chat", messages: messages as ChatMessage[] });
    const one = chat({ role: "user", content: "a" }, { role: "assistant", content: "b", age: 3 });
    expect(chat({ content: "a", name: null, role: "user" }, { age: 3n, content: "b", role: "assistant" })).toBe(one);
    expect(chat({ role: "user", content: "a" }, { role: "assistant", content: "b", age: 4 })).not.toBe(one);
    expect(chat({ role: "assistant", content: "b", age: 3 }, { role: "user", content: "a" })).not.toBe(one);
  });

  it("is the same of texts that are read in parts, however they are cut", () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: "binary" })), (parts) => {
        const hash = textHash();
        for (const part of parts) hash.add(part);
        expect(hash.value()).toBe(drawOf({ kind: "text", text: parts.join("") }));
      }),
    );
  });

  it("is the same of stored tokens with an end token and without", async () => {
    ownCache();
    const unended = (texts: readonly string[]) => ids(texts).slice(0, -2);
    const files = Object.fromEntries(bodies.map((_, i) => [`b/${i}.bin`, unended(bodies.slice(i, i + 1))]));
    const folder = temporaryFolder({ ...files, "a.bin": ids(bodies) });
    const datasetPath = `${join(folder, "a.bin")};${join(folder, "b")}`;
    await expectApart({ datasetType: "tokens", datasetPath }, 24);
  });

  it("is told, or refused, where validation data of their own are trained on in another form", async () => {
    ownCache();
    const folder = temporaryFolder({
      "train.jsonl": jsonl(bodies),
      "copy.txt": bodies[7]!,
      "some/a.txt.gz": gzipSync(bodies[3]!),
      "some/b.txt": "a document of its own",
      "tokens/a.bin": ids(bodies),
      "tokens/b.bin": ids(bodies.slice(2, 4)).slice(0, -2),
    });
    const at = (name: string) => join(folder, name);
    await expect(openText({ datasetPath: at("train.jsonl"), evalDatasetPath: at("copy.txt") })).rejects.toMatchObject({
      code: "E_SPLIT_OVERLAP",
      message: expect.stringContaining(`every document of ${at("copy.txt")} (1) is trained on too`),
    });
    const stored = {
      datasetType: "tokens",
      datasetPath: at("tokens/a.bin"),
      evalDatasetPath: at("tokens/b.bin"),
    } as const;
    await expect(openText(stored)).rejects.toThrow(`every document of ${at("tokens/b.bin")} (2)`);
    const said: string[] = [];
    const paths = { datasetPath: at("train.jsonl"), evalDatasetPath: at("some") };
    await openText(paths, { say: (text) => said.push(text) });
    expect(said).toEqual([
      `note: 1 of the 2 documents of ${at("some")} are trained on too: of them validation says nothing`,
    ]);
  });

  it("is the same of records in sources of any size", async () => {
    ownCache();
    for (let i = 0; i < 24; i++) {
      const few = [bodies[i]!, bodies[(i + 7) % 24]!];
      for (const own of [few, few.slice(0, 1)]) {
        const folder = temporaryFolder({ "a.jsonl": jsonl(bodies), "b.jsonl": jsonl(own) });
        const datasetPath = `${join(folder, "a.jsonl")};${join(folder, "b.jsonl")}`;
        // With so small a fraction each source holds out the document of its smallest draw.
        const opening = splitOf({ datasetPath, validationFraction: 0.001 });
        const split = await opening.catch((error: { code: string }) => error);
        if ("code" in split) expect(split.code).toBe("E_TOO_FEW_TOKENS");
        else expect([...split.train].filter((number) => split.validation.has(number))).toEqual([]);
      }
    }
  });

  it("tells where a source has nothing left, and why", async () => {
    ownCache();
    const folder = temporaryFolder({ "a.jsonl": jsonl(bodies) });
    const fraction = { validationFraction: 0.3, maxTargetLength: 4 };
    const { validation } = await splitOf({ datasetPath: folder });
    const heldOut = bodies.filter((text) => validation.has(numbers(text).values().next().value!));
    const own = temporaryFolder({ "b.jsonl": jsonl(heldOut), "same.jsonl": jsonl([bodies[0]!, bodies[0]!]) });
    const [a, b, same] = [join(folder, "a.jsonl"), join(own, "b.jsonl"), join(own, "same.jsonl")];
    await expect(openText({ datasetPath: `${a},0.5;${b},0.5`, ...fraction })).rejects.toMatchObject({
      code: "E_TOO_FEW_TOKENS",
      message: `${b} has nothing to train on: its ${heldOut.length} document(s) are all held out for validation. ${a} has such documents too, and what one source holds out, all do. Leave ${b} out, lower validation_fraction=0.3, or name other validation data by eval_dataset_path`,
    });
    await expect(openText({ datasetPath: same, ...fraction })).rejects.toThrow(
      `${same} has nothing to train on: its 2 document(s) are all held out for validation. validation_fraction=0.3 takes all of them (equal documents go together). Lower it, add documents, or name`,
    );
    await expect(
      trainingTexts({ datasetType: "text", datasetPath: same, evalDatasetPath: "", validationFraction: 0.3 }),
    ).rejects.toThrow("validation_fraction=0.3 holds out all 2 document(s)");
    const few = temporaryFolder({ "c.jsonl": jsonl(["ab", "cd", "ef"]) });
    await expect(openText({ datasetPath: few, validationFraction: 0.3, maxTargetLength: 64 })).rejects.toThrow(
      /the training split has \d tokens in . document\(s\), but 65 are needed: a window of max_target_length=64 takes 65; . document\(s\) are held out by validation_fraction=0\.3\. Add text/,
    );
  });

  it("is the end of a source that is a document of no other", async () => {
    ownCache();
    const folder = temporaryFolder({ "one.txt": "a".repeat(100), "other.txt": "b".repeat(100) });
    const datasetPath = `${join(folder, "one.txt")};${join(folder, "other.txt")}`;
    const data = await openText({ datasetPath, validationFraction: 0.1 });
    expect(data.size!.sources!.map(({ validation }) => validation!.tokens)).toEqual([11, 11]);
  });
});

describe("sources", () => {
  it("are refused where two are the same files", async () => {
    ownCache();
    const folder = temporaryFolder({ "books/a.txt": "some text", "books/b.txt": "other text" });
    const books = join(folder, "books");
    for (const other of [relative(process.cwd(), books), `${books}/`, `${books}/*.txt`, `${books}/./../books`]) {
      await expect(openText({ datasetPath: `${books};${other}` })).rejects.toThrow("are the same files");
    }
  });
});

describe("nothing to predict", () => {
  it("is refused where the windows of training end before what is to be learnt", async () => {
    ownCache();
    const folder = temporaryFolder({ "a.jsonl": `${JSON.stringify({ prompt: "a".repeat(8), completion: "b" })}\n` });
    const settings = { datasetType: "completion", packing: "concat", datasetPath: folder } as const;
    await expect(openText({ ...settings, maxTargetLength: 7 })).rejects.toThrow(
      /the training split of .* has 1 sequence\(s\), and no token in them that is to be predicted/,
    );
    expect((await openText({ ...settings, maxTargetLength: 8 })).train.windows).toBe(1);
  });
});
