/** What mutated files have done before it was mended: each once more, by hand. */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parquetWriteBuffer } from "hyparquet-writer";
import { describe, expect, it } from "vitest";
import { UserError } from "../../src/base/errors.ts";
import { nearest } from "../../src/base/nearest.ts";
import { loadFullState, loadHfLlama, openModelFiles, saveCheckpoint } from "../../src/checkpoint/index.ts";
import { openShards } from "../../src/checkpoint/processShards.ts";
import { openSafetensors, writeSafetensors } from "../../src/checkpoint/safetensors.ts";
import { loadParameters, openSource } from "../../src/convert/index.ts";
import { jsonLines } from "../../src/data/jsonLines.ts";
import { parquetRows } from "../../src/data/parquetRows.ts";
import { loadChatTemplate, loadTokenizer } from "../../src/tokenizers/index.ts";
import { initialState } from "../../src/train/state.ts";
import { openText, ownCache } from "../data/openText.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { goldenJson } from "../golden.ts";
import { tinyModel } from "../train/tinyRun.ts";
import { tinyConfig, tinyWeights } from "./modelFormats.ts";

const deep = (open: string, close: string) => open.repeat(100_000) + close.repeat(100_000);

async function modelFolder(config: unknown): Promise<string> {
  const folder = temporaryFolder({ "config.json": typeof config === "string" ? config : JSON.stringify(config) });
  await writeSafetensors(join(folder, "model.safetensors"), tinyWeights());
  return folder;
}

/** The message of the error, which must be typed. */
async function refusal(work: () => unknown): Promise<string> {
  const error = await (async () => work())().then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(UserError);
  return (error as UserError).message;
}

describe("errors", () => {
  it("stay short, and give no commands to a terminal, whatever names a file holds", () => {
    expect(new UserError("E_X", `no "\u001b[2J\u0000\u009b" here`).message).toBe('no "\\x1b[2J\\x00\\x9b" here');
    const { message } = new UserError("E_X", `begin ${"x".repeat(1e6)} end`);
    expect(message.length).toBeLessThan(4000);
    expect(message).toMatch(/^begin x+ … \d+ characters … x+ end$/);
  });

  it("take no time to find the nearest of names of any length", () => {
    const long = "x".repeat(1e6);
    expect(nearest(long, [long, "x"])).toBeUndefined();
    expect(nearest("steps", [long, "step"])).toBe("step");
  });
});

describe("JSON", () => {
  it("nested without end is refused, wherever it lies", async () => {
    const header = Buffer.from(`{"a":${deep("[", "]")}}`);
    const prefix = Buffer.alloc(8);
    prefix.writeBigUInt64LE(BigInt(header.length));
    const folder = temporaryFolder({ "x.safetensors": Buffer.concat([prefix, header]) });
    expect(await refusal(() => openSafetensors(join(folder, "x.safetensors")))).toContain("no JSON");
    const model = { type: "BPE", vocab: {}, merges: [] };
    for (const part of ["normalizer", "pre_tokenizer", "post_processor", "decoder"]) {
      const steps = `{"type":"Sequence","normalizers":[`;
      const tokenizer = JSON.stringify({ model, [part]: "HERE" }).replace('"HERE"', deep(steps, "]}"));
      const path = join(temporaryFolder({ "tokenizer.json": tokenizer }), "tokenizer.json");
      expect(await refusal(() => loadTokenizer(path))).toContain("nested deeper than 256");
    }
    const config = await modelFolder(JSON.stringify({ ...tinyConfig, x: 0 }).replace('"x":0', `"x":${deep("[", "]")}`));
    expect(await refusal(() => loadHfLlama(config))).toContain("nested deeper than 256");
  });

  it.each(["null", "[]", "7"])("that is %s where config.json should be is refused", async (config) => {
    const folder = await modelFolder(config);
    for (const open of [() => openSource(folder), () => openModelFiles(folder), () => loadHfLlama(folder)]) {
      expect(await refusal(open)).toContain("config.json");
    }
  });
});

describe("weights", () => {
  it("of 2^53 layers are refused before a name is made for each", async () => {
    const folder = await modelFolder({ ...tinyConfig, num_hidden_layers: Number.MAX_SAFE_INTEGER });
    for (const open of [() => openSource(folder), () => loadHfLlama(folder)]) {
      expect(await refusal(open)).toContain("too few for the 9007199254740991 layers");
    }
  });

  it("in a folder where a file should be are refused", async () => {
    const weight_map = { "model.norm.weight": "." };
    const folder = temporaryFolder({ "model.safetensors.index.json": JSON.stringify({ weight_map }) });
    expect(await refusal(() => openModelFiles(folder))).toContain("it is no file");
  });

  it("without elements have dims of any size, and take no memory", async () => {
    const entry = { dtype: "F32", shape: [0, Number.MAX_SAFE_INTEGER], data_offsets: [0, 0] };
    const part = (key: string) => {
      const header = Buffer.from(JSON.stringify({ [key]: entry }));
      const prefix = Buffer.alloc(8);
      prefix.writeBigUInt64LE(BigInt(header.length));
      return Buffer.concat([prefix, header]);
    };
    const shards = {
      "params-00001-of-00002.safetensors": part("a@0,0"),
      "params-00002-of-00002.safetensors": part("b"),
    };
    const file = await openShards(temporaryFolder(shards), "params");
    expect((await file.read("a")).data.length).toBe(0);
    await file.close();
  });

  it("of more processes than any are missed by the name of the first that is not there", async () => {
    const name = "params-00001-of-4000000000.safetensors";
    const folder = temporaryFolder({ [name]: "" });
    expect(await refusal(() => openShards(folder, "params"))).toMatch(/of-4000000000\.safetensors is missing/);
  });
});

describe("a run's own files", () => {
  it.each(["{", "null", '{"format":1,"step":1e999}', ""])("refuses the state.json %s", async (text) => {
    const folder = temporaryFolder();
    const state = initialState(tinyModel, 5);
    const progress = {
      step: 1,
      skippedInARow: 0,
      skippedSteps: 0,
      overflowSteps: 0,
      data: {},
      provenance: { recipe: "bf16" },
    };
    const { path } = await saveCheckpoint(join(folder, "checkpoints"), state, progress);
    writeFileSync(join(path, "state.json"), text);
    // Its manifest says so first; without the check of hashes the file itself does.
    expect(await refusal(() => loadFullState(path, tinyModel))).toContain("state.json");
  });

  it("refuses a config.json of settings that are no sizes", async () => {
    const folder = temporaryFolder();
    const progress = {
      step: 1,
      skippedInARow: 0,
      skippedSteps: 0,
      overflowSteps: 0,
      data: {},
      provenance: { recipe: "bf16" },
    };
    await saveCheckpoint(join(folder, "checkpoints"), initialState(tinyModel, 5), progress);
    for (const [text, message] of [
      ["null", "it must be an object"],
      ['{"head_dim":{"toString":1}}', 'head_dim={"toString":1}'],
    ]) {
      writeFileSync(join(folder, "config.json"), text!);
      expect(await refusal(() => loadParameters(folder, tinyModel))).toContain(message);
    }
  });
});

describe("tokenizers", () => {
  const golden = goldenJson<Record<string, unknown>>("10_tokenizer/tokenizer_llama3style");
  const load = (changes: Record<string, unknown>) => () =>
    loadTokenizer(temporaryFolder({ "tokenizer.json": JSON.stringify({ ...golden, ...changes }) }));
  const noText = { toString: 1, valueOf: 2 };

  it.each([
    ["pre_tokenizer", { type: "CharDelimiterSplit", delimiter: noText }],
    ["pre_tokenizer", { type: "Metaspace", replacement: noText }],
    ["post_processor", { type: "TemplateProcessing", single: [{ SpecialToken: { id: noText } }, { Sequence: {} }] }],
  ])("refuse a %s whose text is none", async (part, value) => {
    expect(await refusal(load({ [part]: value }))).toContain(part);
  });

  it("refuse a pattern that is too large to be compiled", async () => {
    const pattern = { Regex: "x".repeat(200_000) };
    const split = { type: "Split", pattern, behavior: "MergedWithNext", invert: false };
    const message = await refusal(load({ pre_tokenizer: split, normalizer: { type: "NFKC" } }));
    expect(message).toMatch(/ can't .*use.* \(Invalid regular expression/);
    expect(message.length).toBeLessThan(4000);
  });

  it("refuse a token so long that its merges could not be found in time", async () => {
    const long = Buffer.from("x".repeat(100_000));
    const field = (number: number, bytes: Uint8Array) => {
      const length = bytes.length;
      const varint =
        length < 128 ? Buffer.of(length) : Buffer.of((length & 127) | 128, ((length >> 7) & 127) | 128, length >> 14);
      return Buffer.concat([Buffer.of((number << 3) | 2), varint, bytes]);
    };
    const piece = field(1, field(1, long));
    const file = Buffer.concat([
      field(1, field(1, Buffer.from("<unk>"))),
      piece,
      field(2, Buffer.of(24, 2)),
      field(3, Buffer.of(32, 0)),
    ]);
    expect(
      await refusal(() =>
        loadTokenizer(join(temporaryFolder({ "tokenizer.json": "", "tokenizer.model": file }), "tokenizer.model")),
      ),
    ).toMatch(/has 100000 characters, and may have 1024/);
  });

  it("leave out a chat template whose name is none", async () => {
    const chat_template = [{ name: noText, template: "x" }];
    const files = {
      "tokenizer.json": JSON.stringify(golden),
      "tokenizer_config.json": JSON.stringify({ chat_template }),
    };
    expect(await refusal(() => loadChatTemplate(temporaryFolder(files)))).toContain("no chat template");
  });
});

describe("data", () => {
  /** Two million rows in 200 bytes, all but one the same. */
  const manyRows = () => {
    const data: (string | null)[] = new Array(1 << 21).fill("a");
    [data[0], data[1]] = ["b", null];
    const columnData = [{ name: "text", data, nullable: true }];
    return Buffer.from(
      parquetWriteBuffer({ columnData, codec: "UNCOMPRESSED", rowGroupSize: data.length, pageSize: 1 << 30 }),
    );
  };
  const rowsOf = async (path: string) => {
    let rows = 0;
    for await (const _ of parquetRows(path, ["text"])) rows++;
    return rows;
  };

  it("of a Parquet file whose run goes on for 2^27 rows takes the memory of another process, which is all that is lost", async () => {
    const file = manyRows();
    const run = file.indexOf(Buffer.of(0xf0, 0xff, 0xff, 0x01)); // 2^21 − 8 times, in a varint
    expect(run).toBeGreaterThan(0);
    Buffer.of(0xfe, 0xff, 0xff, 0x7f).copy(file, run);
    const few = new Uint8Array(parquetWriteBuffer({ columnData: [{ name: "text", data: ["a", "b"] }] }));
    const folder = temporaryFolder({ "bomb.parquet": file, "good.parquet": few });
    expect(await refusal(() => rowsOf(join(folder, "bomb.parquet")))).toMatch(/takes more than \d+ MB of memory/);
    expect(await rowsOf(join(folder, "good.parquet"))).toBe(2);
  });

  it("of JSON Lines nested without end is a bad record", async () => {
    const path = join(temporaryFolder({ "x.jsonl": `{"text":"a"}\n{"messages":${deep("[", "]")}}\n` }), "x.jsonl");
    const records: unknown[] = [];
    for await (const record of jsonLines(path)) records.push(record);
    expect(records[1]).toEqual({ place: "line 2", problem: "not JSON (it is nested deeper than 256)" });
  });

  it("of a Parquet file that was left in its midst is read from its beginning again", async () => {
    const columnData = [{ name: "text", data: ["a", "b", "c"] }];
    const file = new Uint8Array(parquetWriteBuffer({ columnData, rowGroupSize: 1 }));
    const folder = temporaryFolder({ "x.parquet": file });
    for await (const record of parquetRows(join(folder, "x.parquet"), ["text"])) {
      expect(record.place).toBe("row 1");
      break;
    }
    expect(await rowsOf(join(folder, "x.parquet"))).toBe(3);
  });

  it("kept on disk is made anew where its manifest tells of other tokens, or other numbers of them", async () => {
    const cache = ownCache();
    const folder = temporaryFolder({ "a.txt": "the cat sat on the mat. ".repeat(9) });
    const whole = await openText({ datasetPath: folder });
    const [entry] = readdirSync(cache).filter((name) => name !== "files.json");
    const manifest = join(cache, entry!, "manifest.json");
    const text = readFileSync(manifest, "utf8");
    for (const [from, to] of [
      ['"count": 0', '"count": 7'],
      [/"tokens": \d+/, '"tokens": 100'],
      [/"documents": \d+/, '"documents": 0'],
    ] as const) {
      writeFileSync(manifest, text.replace(from, to));
      const said: string[] = [];
      const again = await openText({ datasetPath: folder }, { say: (note) => said.push(note) });
      expect(said.join()).toContain("is not whole and is made anew (manifest.json is damaged)");
      expect(again.size).toEqual(whole.size);
    }
  });
});
