/** Every form in which documents come gives the same tokens, and bad records are named by their place. */
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { parquetWriteBuffer } from "hyparquet-writer";
import { describe, expect, it } from "vitest";
import { UserError } from "../../src/base/errors.ts";
import { fileBytes } from "../../src/data/fileBytes.ts";
import {
  type DatasetSettings,
  listSourceFiles,
  openEvaluation,
  readDocuments,
  trainingTexts,
} from "../../src/data/index.ts";
import { parquetRows } from "../../src/data/parquetRows.ts";
import {
  byteTokenizer,
  type ChatMessage,
  compileChatTemplate,
  loadTokenizer,
  renderChat,
  saveTokenizer,
  trainBpe,
} from "../../src/tokenizers/index.ts";
import { openText, ownCache, textsOf, validationText } from "./openText.ts";
import { temporaryFolder } from "./temporaryFiles.ts";

const documents = ["the first of them", "a second, with a\nline end", "third"];
const lines = (records: readonly unknown[]) => records.map((record) => `${JSON.stringify(record)}\n`).join("");
const jsonl = lines(documents.map((text) => ({ id: 7, text })));
/** All documents in order, each with its end; the first token of all is no target. */
const expected = `${documents.join("|")}|`.slice(1);

/** A data set as its own validation, so that every token is seen in order. */
async function read(files: Record<string, string | Uint8Array>, changes: Partial<DatasetSettings> = {}) {
  const other = temporaryFolder({ "other.txt": "other text, long enough" });
  const folder = temporaryFolder(files);
  const evalDatasetPath = join(folder, Object.keys(files)[0]!);
  const paths = { datasetPath: join(other, "other.txt"), evalDatasetPath, ...changes };
  return { data: await openText(paths), folder };
}
const textOf = async (files: Record<string, string | Uint8Array>) => validationText((await read(files)).data);

/** `zstd` as a program, where there is one. */
const zstd = (text: string, ...args: string[]) => execFileSync("zstd", ["-q", "-c", ...args], { input: text });
const hasZstd = existsSync("/usr/bin/zstd");
/** A frame of one block as it is: what any program writes that packs nothing. */
function rawZstd(text: string | Uint8Array): Uint8Array {
  const bytes = Buffer.from(text);
  const size = Buffer.alloc(4);
  size.writeUInt32LE(bytes.length);
  const block = 1 | (bytes.length << 3); // the last one, raw
  return Buffer.concat([
    Buffer.of(0x28, 0xb5, 0x2f, 0xfd, 0xa0),
    size,
    Buffer.of(block & 255, (block >> 8) & 255, block >> 16),
    bytes,
  ]);
}

function parquet(columns: Record<string, unknown[]>, codec: "SNAPPY" | "UNCOMPRESSED" = "SNAPPY"): Uint8Array {
  const columnData = Object.entries(columns).map(([name, data]) => ({ name, data }));
  return new Uint8Array(parquetWriteBuffer({ columnData, codec, rowGroupSize: 2 }));
}

describe("formats", () => {
  it("A1: JSON Lines with and without a byte order mark give the same documents, and the mark is no token", async () => {
    ownCache();
    expect(await textOf({ "a.jsonl": jsonl })).toBe(expected);
    expect(await textOf({ "a.jsonl": `\ufeff${jsonl}` })).toBe(expected);
  });

  it("A2: blank lines, CR LF and a missing last line end are no faults", async () => {
    ownCache();
    const untidy = `\r\n${jsonl.replaceAll("\n", "\r\n\r\n  \n")}\n`.trimEnd();
    expect(untidy.endsWith("}")).toBe(true);
    expect(await textOf({ "a.jsonl": untidy })).toBe(expected);
  });

  it.each([
    ["a.jsonl.gz", gzipSync(jsonl)],
    ["a.jsonl.gz", Buffer.concat([gzipSync(jsonl.slice(0, 40)), gzipSync(jsonl.slice(40))])],
    ["a.jsonl.zst", rawZstd(jsonl)],
    ["a.jsonl.zst", Buffer.concat([rawZstd(jsonl.slice(0, 40)), rawZstd(jsonl.slice(40))])],
    ["a.parquet", parquet({ id: [1, 2, 3], text: documents })],
    ["a.parquet", parquet({ text: documents }, "UNCOMPRESSED")],
  ])("reads %s as the plain file", async (name, content) => {
    ownCache();
    expect(await textOf({ [name]: content })).toBe(expected);
  });

  it.runIf(hasZstd)("reads what zstd packs, of many blocks", async () => {
    ownCache();
    const text = Array.from({ length: 40_000 }, (_, i) => `line ${i * i} of a long file\n`).join("");
    expect(await textOf({ "a.txt.zst": zstd(text, "-3") })).toBe(`${text}|`.slice(1));
  });

  it("says that a packed file is cut off or damaged", async () => {
    ownCache();
    const packed = gzipSync(jsonl);
    await expect(read({ "a.jsonl.gz": packed.subarray(0, packed.length - 9) })).rejects.toThrow(
      /a\.jsonl\.gz: is damaged/,
    );
    await expect(read({ "a.jsonl.gz": jsonl })).rejects.toThrow(/a\.jsonl\.gz: is damaged, or no gzip file/);
    await expect(read({ "a.jsonl.zst": rawZstd(jsonl).subarray(0, 60) })).rejects.toThrow(/a\.jsonl\.zst: is damaged/);
    await expect(read({ "a.parquet": jsonl })).rejects.toThrow(/a\.parquet: can't be read as Parquet/);
  });

  it("refuses to take two gigabytes because a .zst asks for them", async () => {
    ownCache();
    const header = Buffer.of(0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    await expect(read({ "a.txt.zst": header })).rejects.toThrow("window is larger than 128 MiB");
  });
});

describe("bad records", () => {
  const bad = [
    '{"text":"good one"}',
    "",
    '{"txt":"x"}',
    '{"text":null}',
    "not JSON",
    "[1, 2]",
    '{"text":"good two"}\r',
    '{"text":',
  ].join("\n");

  it.each([
    [3, '{"txt":"x"}', 'no "text": it has "txt"; train_data_columns names others'],
    [3, '{"text":null}', '"text" is null, and must be text'],
    [3, '{"text":["a"]}', '"text" is ["a"], and must be text'],
    [3, "not JSON", "not JSON ("],
    [3, "[1, 2]", 'a list is no JSON object; a file that is one JSON list becomes lines by: jq -c ".[]"'],
    [3, '{"messages":[]}', "dataset_type=chat reads such records"],
  ])("A2: stop with the line and why: line %i, %s", async (line, text, message) => {
    ownCache();
    const records = `{"text":"good"}\n\n${text}\n{"text":"good"}`;
    const pattern = new RegExp(`a\\.jsonl:${line}: `);
    const failure = read({ "a.jsonl": records });
    await expect(failure).rejects.toThrow(pattern);
    await expect(failure).rejects.toThrow(message);
    await expect(failure).rejects.toThrow("dataset_bad_records=skip");
  });

  it("A2: or are left out and counted, with the first one's place, also when the tokens come from the cache", async () => {
    ownCache();
    const folder = temporaryFolder({ "a.jsonl": bad, "b.jsonl": "\n" });
    for (let time = 0; time < 2; time++) {
      const said: string[] = [];
      const data = await openText(
        { datasetPath: folder, datasetBadRecords: "skip" },
        { say: (text) => said.push(text) },
      );
      expect(data.size).toMatchObject({ train: { documents: 2, tokens: 18 }, badRecords: 5 });
      expect(said).toEqual([
        expect.stringMatching(/^note: 5 records are left out .* the first: .*a\.jsonl:3: no "text"/),
      ]);
    }
  });

  it("unpacks a long .gz without a warning of listeners that add up", async () => {
    const text = randomBytes(1 << 20).toString("hex");
    const path = join(temporaryFolder({ "a.txt.gz": gzipSync(text) }), "a.txt.gz");
    const warnings: Error[] = [];
    const hear = (warning: Error) => void warnings.push(warning);
    process.on("warning", hear);
    try {
      let read = "";
      for await (const chunk of fileBytes(path, { chunkBytes: 1 << 14 })) read += Buffer.from(chunk).toString("latin1");
      await new Promise((resolve) => setTimeout(resolve, 10));
      expect(read).toBe(text);
      expect(warnings).toEqual([]);
    } finally {
      process.off("warning", hear);
    }
  });

  it("refuses what is set about records where there is none, of training, evaluation and a vocabulary", async () => {
    ownCache();
    const folder = temporaryFolder({ "a.txt": "some text", "b.txt": "more text", "c.jsonl": '{"body":"text, too"}\n' });
    const [a, b, c] = ["a.txt", "b.txt", "c.jsonl"].map((name) => join(folder, name)) as [string, string, string];
    const idle = { trainDataColumns: "body", datasetBadRecords: "skip" } as const;
    for (const [settings, message] of [
      [{ datasetPath: a, ...idle }, "train_data_columns=body and dataset_bad_records=skip: without effect, for"],
      [
        { datasetPath: `${a};${b}`, trainDataColumns: "body" },
        "a.txt and all others are plain text, which has no records",
      ],
      [
        { datasetPath: a, evalDatasetPath: b, datasetBadRecords: "skip" as const },
        "dataset_bad_records=skip: without effect",
      ],
    ] as const) {
      await expect(openText(settings)).rejects.toMatchObject({
        code: "E_NO_EFFECT",
        message: expect.stringContaining(message),
      });
    }
    await expect(
      trainingTexts({ datasetType: "text", datasetPath: a, evalDatasetPath: "", validationFraction: 0, ...idle }),
    ).rejects.toThrow("train_data_columns=body and");
    const evaluation = { datasetType: "text", evalDatasetPath: a, maxTargetLength: 4, perDeviceBatchSize: 1 } as const;
    await expect(
      openEvaluation({ ...evaluation, trainDataColumns: "body" }, { tokenizer: byteTokenizer(), vocabSize: 257 }),
    ).rejects.toThrow("a.txt is plain text");
    const data = await openText({ datasetPath: a, evalDatasetPath: c, maxTargetLength: 4, ...idle });
    expect(validationText(data)).toBe("ext, too|");
  });

  it("A2: bytes that are not UTF-8 are told by their line", async () => {
    ownCache();
    const broken = Buffer.concat([Buffer.from('{"text":"good"}\n{"text":"'), Buffer.of(0xe9), Buffer.from('"}\n')]);
    await expect(read({ "a.jsonl": broken })).rejects.toThrow(/a\.jsonl:2: not UTF-8 from byte \d+ of the line on/);
  });

  it("A2: also of a Parquet column of bytes", async () => {
    ownCache();
    const bytes = [Buffer.from("good"), Buffer.of(0x61, 0xff, 0x62), Buffer.from("better")];
    const columnData = [{ name: "text", data: bytes, type: "BYTE_ARRAY" as const }];
    const table = new Uint8Array(parquetWriteBuffer({ columnData }));
    await expect(read({ "a.parquet": table })).rejects.toThrow(/a\.parquet:row 2: not UTF-8/);
    const { data } = await read({ "a.parquet": table }, { datasetBadRecords: "skip" });
    expect(validationText(data)).toBe("ood|better|");
    expect(data.size!.badRecords).toBe(1);
  });

  it("names the row of a Parquet file whose JSON is none, is no UTF-8 or is nested deep, and reads the others", async () => {
    const messages = ["good", "@@@@", "better", "####", "best"].map((content) => [{ role: "user", content }]);
    const columnData = [{ name: "messages", data: messages, type: "JSON" as const }];
    const table = Buffer.from(parquetWriteBuffer({ columnData, codec: "UNCOMPRESSED", statistics: false }));
    Buffer.from('"@@@"@').copy(table, table.indexOf('"@@@@"'));
    table[table.indexOf("####")] = 0xff;
    const rows: string[] = [];
    for await (const { place, problem } of parquetRows(join(temporaryFolder({ "a.parquet": table }), "a.parquet"), [
      "messages",
    ])) {
      rows.push(`${place}: ${problem ?? "good"}`);
    }
    expect(rows[1]).toMatch(/^row 2: "messages" is not JSON \(.*JSON/);
    expect(rows.filter((_, i) => i !== 1)).toEqual(["row 1: good", "row 3: good", "row 4: not UTF-8", "row 5: good"]);
  });

  it("reads Parquet packed by zstd, and refuses a page whose frame unpacks to another size than the header's", async () => {
    ownCache();
    const packed = (ZSTD: (bytes: Uint8Array) => Uint8Array) => {
      const columnData = [{ name: "text", data: documents }];
      return new Uint8Array(parquetWriteBuffer({ columnData, codec: "ZSTD", compressors: { ZSTD } }));
    };
    expect(await textOf({ "a.parquet": packed((bytes) => rawZstd(bytes)) })).toBe(expected);
    const longer = packed((bytes) => rawZstd(Buffer.concat([bytes, Buffer.from("more")])));
    await expect(read({ "a.parquet": longer })).rejects.toThrow(
      /a\.parquet: can't be read as Parquet \(a frame of \d+ bytes where \d+ are left/,
    );
    const shorter = packed((bytes) => rawZstd(bytes.subarray(1)));
    await expect(read({ "a.parquet": shorter })).rejects.toThrow(
      /Parquet \(\d+ bytes are to come of what unpacks to \d+/,
    );
  });

  it("A2: files without a record, and files without a byte, are refused before anything else", async () => {
    ownCache();
    const folder = temporaryFolder({ "none.jsonl": "", "blank/a.jsonl": "\n\r\n" });
    await expect(openText({ datasetPath: join(folder, "none.jsonl") })).rejects.toThrow("every file is empty");
    await expect(openText({ datasetPath: join(folder, "blank") })).rejects.toThrow(
      /the training split has 0 tokens in 0 document\(s\), .* takes 9\. Add text$/,
    );
  });

  it("names the row of a Parquet file, and its columns where the wanted one is missing", async () => {
    ownCache();
    const table = parquet({ text: ["good", null, "better"] });
    await expect(read({ "a.parquet": table })).rejects.toThrow(/a\.parquet:row 2: "text" is null/);
    const other = parquet({ body: ["good"], id: [1] });
    await expect(read({ "b.parquet": other })).rejects.toThrow(
      /b\.parquet: no column is named text; it has body, id: set train_data_columns/,
    );
    expect(validationText((await read({ "b.parquet": other }, { trainDataColumns: "body" })).data)).toBe("ood|");
  });
});

describe("prompts and completions", () => {
  const records = [
    { input: "2+2?", output: "4" },
    { input: "", output: "free" },
    { input: "left out", output: "" },
  ];

  it("count what follows the prompt, and its end", async () => {
    ownCache();
    const asked = records.map(({ input, output }) => ({ input: `${input} `, output }));
    const changes = {
      datasetType: "completion",
      datasetPath: join(temporaryFolder({ "t.jsonl": lines(asked) }), "t.jsonl"),
    } as const;
    const other = lines(records.map(({ input, output }) => ({ prompt: input, completion: output })));
    const { data } = await read({ "a.jsonl": other }, changes);
    expect(data.size?.validation).toEqual({ documents: 2, tokens: 6 + 5 });
    expect(validationText(data)).toBe("4|ree|"); // nothing comes before the first token of a document
    const { mask, validTokens } = data.train.batchAt(1);
    expect(mask?.shape).toEqual([1, 8]);
    expect(validTokens).toBeLessThan(8);
    const tokens = validationText(
      await openText({
        ...changes,
        evalDatasetPath: join(temporaryFolder({ "b.jsonl": other }), "b.jsonl"),
        trainDataColumns: "",
      }),
    );
    expect(tokens).toBe("4|ree|"); // nothing comes before the first token of a document
  });

  it("takes columns by the names they are given", async () => {
    ownCache();
    const folder = temporaryFolder({ "a.jsonl": lines([{ ask: "who?", say: "nobody at all" }]) });
    const data = await openText({ datasetType: "completion", datasetPath: folder, trainDataColumns: "ask, say" });
    expect(textsOf([data.train.batchAt(1), data.train.batchAt(2)]).length).toBeGreaterThan(0);
    await expect(openText({ datasetType: "completion", datasetPath: folder, trainDataColumns: "ask" })).rejects.toThrow(
      "takes two columns",
    );
    await expect(openText({ datasetType: "completion", datasetPath: folder })).rejects.toThrow(
      /no "prompt" and "completion", or "input" and "output", or "question" and "answer": it has "ask", "say"/,
    );
  });

  it("refuses plain text for them", async () => {
    const folder = temporaryFolder({ "a.txt": "text" });
    await expect(openText({ datasetType: "completion", datasetPath: join(folder, "a.txt") })).rejects.toThrow(
      "dataset_type=completion reads records: .jsonl or .parquet",
    );
  });
});

describe("folders", () => {
  it("of records and of plain text are told apart by a pattern", async () => {
    ownCache();
    const folder = temporaryFolder({
      "README.md": "read me",
      "data/a.jsonl": jsonl,
      "data/b.jsonl.gz": gzipSync(jsonl),
    });
    await expect(openText({ datasetPath: folder })).rejects.toThrow(
      /has plain text .*README\.md\) and records .*a\.jsonl/,
    );
    const data = await openText({ datasetPath: `${folder}/**/*.{jsonl,jsonl.gz}` });
    expect(data.size?.train.documents).toBe(6);
  });

  it("refuses other formats by name", async () => {
    const folder = temporaryFolder({ "a.tar.gz": "x", "a.bin": "x", "a.parquet.gz": "x" });
    for (const [name, message] of [
      ["a.tar.gz", "of a format that is not read"],
      ["a.bin", "holds tokens, not text"],
      ["a.parquet.gz", "unpack it"],
    ] as const) {
      await expect(openText({ datasetPath: join(folder, name) })).rejects.toThrow(message);
    }
    writeFileSync(join(folder, "a.json"), JSON.stringify([{ text: "a" }]));
    await expect(openText({ datasetPath: join(folder, "a.json") })).rejects.toThrow(/a list is no JSON object/);
  });
});

describe("conversations", () => {
  const template =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
  const chat = [
    { role: "user", content: "2+2?" },
    { role: "assistant", content: "4" },
  ];
  const shareGpt = [
    { from: "human", value: "2+2?" },
    { from: "gpt", value: "4" },
  ];
  async function chatTokenizer(): Promise<string> {
    const folder = join(temporaryFolder(), "tokenizer");
    saveTokenizer(await trainBpe(["<user>2+2?</s><assistant>4</s>"], 260), folder);
    writeFileSync(join(folder, "chat_template.jinja"), template);
    return folder;
  }

  it("count what the assistant says, in either spelling, in JSON Lines and in Parquet, on threads too", async () => {
    const tokenizerPath = await chatTokenizer();
    const tokenizer = loadTokenizer(tokenizerPath);
    const spellings = {
      "a.jsonl": lines([{ messages: chat }]),
      "b.jsonl": lines([{ conversations: shareGpt }]),
      "c.parquet": parquet({ messages: [chat] }),
    };
    for (const [name, content] of Object.entries(spellings)) {
      for (const tokenizeWorkers of [0, 2]) {
        ownCache();
        const folder = temporaryFolder({ [name]: content });
        const data = await openText(
          {
            datasetType: "chat",
            datasetPath: folder,
            evalDatasetPath: "",
            tokenizerPath,
            tokenizeWorkers,
            maxTargetLength: 4,
          },
          { vocabSize: 300 },
        );
        expect(data.size!.train.documents).toBe(1);
        const { train } = data;
        const counted = Array.from({ length: train.windows }, (_, i) => train.batchAt(i + 1))
          .map(({ tokens, targets, mask }) =>
            Array.from(targets.data, Number).filter((_, i) => mask!.data[i] === 1 && tokens),
          )
          .map((ids) => tokenizer.decode(ids));
        expect(counted.join("")).toMatch(/^(4<\/s>|<\/s>4|4<\/s|4<\/|4<|4)$/);
      }
    }
  });

  it("keep their numbers as Python reads and writes them, in JSON Lines and in a Parquet file's JSON", async () => {
    const compiled = compileChatTemplate(
      "{% for m in messages %}{{ m.content }}{{ m.x | tojson }}{{ m.x }};{% endfor %}",
    );
    const told = async (name: string, content: string | Uint8Array) => {
      const files = listSourceFiles(temporaryFolder({ [name]: content }), { kind: "chat" });
      for await (const part of readDocuments(files, { kind: "chat", columns: [] })) {
        // As it comes to a thread that encodes it.
        const { document } = structuredClone(part) as {
          readonly document: { readonly messages: readonly ChatMessage[] };
        };
        return renderChat(compiled, document.messages);
      }
      return undefined;
    };
    const numbers = '{"id":12345678901234567890,"t":1.0,"u":-0.0,"v":1E3,"w":3,"y":2.50}';
    expect(await told("a.jsonl", `{"messages":[{"role":"user","content":"1.0","x":${numbers}}]}`)).toBe(
      '1.0{"id": 12345678901234567890, "t": 1.0, "u": -0.0, "v": 1000.0, "w": 3, "y": 2.5}' +
        "{'id': 12345678901234567890, 't': 1.0, 'u': -0.0, 'v': 1000.0, 'w': 3, 'y': 2.5};",
    );
    const number = { type: "DOUBLE", repetition_type: "OPTIONAL" } as const;
    const schema = [
      { name: "root", num_children: 1 },
      { name: "messages", repetition_type: "OPTIONAL", num_children: 1, converted_type: "LIST" },
      { name: "list", repetition_type: "REPEATED", num_children: 1 },
      { name: "element", repetition_type: "OPTIONAL", num_children: 3 },
      { name: "role", type: "BYTE_ARRAY", converted_type: "UTF8", repetition_type: "OPTIONAL" },
      { name: "content", type: "BYTE_ARRAY", converted_type: "UTF8", repetition_type: "OPTIONAL" },
      { name: "x", repetition_type: "OPTIONAL", num_children: 2 },
      { name: "f", ...number },
      { name: "n", type: "INT32", repetition_type: "OPTIONAL" },
    ] as const;
    const columnData = [{ name: "messages", data: [[{ role: "user", content: "a", x: { f: 3, n: 3 } }]] }];
    const typed = new Uint8Array(parquetWriteBuffer({ columnData, schema: [...schema] }));
    expect(await told("typed.parquet", typed)).toBe("a{\"f\": 3.0, \"n\": 3}{'f': 3.0, 'n': 3};");
    const table = Buffer.from(
      parquet({ messages: [[{ role: "user", content: "a", x: { a: 777, b: 8 } }]] }, "UNCOMPRESSED"),
    );
    for (let at = table.indexOf("777"); at >= 0; at = table.indexOf("777", at)) table.write("7.0", at);
    expect(await told("a.parquet", table)).toBe("a{\"a\": 7.0, \"b\": 8}{'a': 7.0, 'b': 8};");
  });

  it("are refused where nobody answers, in training and in validation", async () => {
    ownCache();
    const tokenizerPath = await chatTokenizer();
    const folder = temporaryFolder({
      "asked.jsonl": lines([{ messages: chat.slice(0, 1) }]),
      "answered.jsonl": lines([{ messages: chat }]),
    });
    const [asked, answered] = [join(folder, "asked.jsonl"), join(folder, "answered.jsonl")];
    const open = (paths: Partial<DatasetSettings>) =>
      openText({ datasetType: "chat", tokenizerPath, maxTargetLength: 4, ...paths }, { vocabSize: 300 });
    await expect(open({ datasetPath: asked })).rejects.toThrow(
      /the training split of .*no token in them that is to be/,
    );
    const validation = { datasetPath: answered, evalDatasetPath: asked };
    await expect(open(validation)).rejects.toThrow(
      /the validation split of .*no token in them that is to be predicted/,
    );
  });

  it("are named by their place where the template refuses them, or their turns have no speaker", async () => {
    ownCache();
    const tokenizerPath = await chatTokenizer();
    const refusing = `{% if messages[0].role != "user" %}{{ raise_exception("the first must be the user's") }}{% endif %}${template}`;
    writeFileSync(join(tokenizerPath, "chat_template.jinja"), refusing);
    const records = lines([{ messages: chat }, { messages: [...chat].reverse() }, { messages: [{ text: "hi" }] }]);
    const folder = temporaryFolder({ "a.jsonl": records });
    const settings = { datasetType: "chat" as const, datasetPath: folder, tokenizerPath };
    await expect(openText(settings, { vocabSize: 300 })).rejects.toThrow(
      /a\.jsonl:(2: .*the first must be the user's|3: message 1 of)/,
    );
    const data = await openText({ ...settings, datasetBadRecords: "skip" }, { vocabSize: 300 });
    expect(data.size).toMatchObject({ train: { documents: 1 }, badRecords: 2 });
    await expect(openText({ ...settings, tokenizerPath: "byte" })).rejects.toThrow(
      "this tokenizer has no chat template",
    );
  });
});

describe("a damaged Parquet file", () => {
  it("ends in a typed error or in rows, whatever of it is changed or cut off", async () => {
    const whole = parquet({ text: documents.map((text) => text.repeat(20)), id: [1, 2, 3] });
    const folder = temporaryFolder({ "a.parquet": whole });
    const path = join(folder, "a.parquet");
    const edit = fc.tuple(fc.nat(whole.length - 1), fc.integer({ min: 0, max: 255 }));
    await fc.assert(
      fc.asyncProperty(
        fc.array(edit, { minLength: 1, maxLength: 3 }),
        fc.nat(3 * whole.length),
        async (edits, length) => {
          const bytes = whole.slice(0, Math.max(1, length));
          for (const [place, value] of edits) if (place < bytes.length) bytes[place] = value;
          writeFileSync(path, bytes);
          let rows = 0;
          try {
            for await (const _ of parquetRows(path, ["text"])) rows++;
            expect(rows).toBeLessThan(1000);
          } catch (error) {
            expect(error).toBeInstanceOf(UserError);
          }
        },
      ),
      // A row group that says it has 3458 rows.
      { numRuns: 300, examples: [[[[541, 128]], whole.length]] },
    );
  });
});
