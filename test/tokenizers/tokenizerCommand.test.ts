import { copyFileSync, existsSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { command as verbs } from "../../src/cli/tokenizer.ts";
import { command } from "../../src/cli/tokenizerTrain.ts";
import { loadTokenizer } from "../../src/tokenizers/index.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { goldenPath } from "../golden.ts";
import { ensureBuilt, halfbyte as runHalfbyte } from "../train/halfbyte.ts";

afterEach(() => vi.restoreAllMocks());

/** Runs the command and gives what it printed. */
async function run(...args: string[]): Promise<string> {
  let printed = "";
  vi.spyOn(process.stdout, "write").mockImplementation((text) => {
    printed += text;
    return true;
  });
  expect(await command.run(args)).toBe(0);
  return printed;
}

const books = () =>
  temporaryFolder(
    Object.fromEntries(
      Array.from({ length: 10 }, (_, i) => [
        `${i}.txt`,
        `The house of the ${i} cats and the dogs of word${i}. `.repeat(40),
      ]),
    ),
  );

describe("halfbyte tokenizer train", () => {
  it("writes a tokenizer, the same for the same text", async () => {
    const folder = books();
    const [a, b] = [join(folder, "a"), join(folder, "b")];
    const first = JSON.parse(await run(`dataset_path=${folder}`, "vocab_size=280", `output=${a}`, "--json"));
    await run(`dataset_path=${folder}`, "vocab_size=280", `output=${b}`);
    expect(first).toMatchObject({ vocabSize: 280, documents: 10, output: a });
    expect(first.bytesPerToken).toBeGreaterThan(2);
    expect(loadTokenizer(a).hash).toBe(loadTokenizer(b).hash);
    expect(loadTokenizer(a).hash).toBe(first.hash);
  });

  it("leaves out what training holds out, and says when the text gives fewer tokens", async () => {
    const folder = books();
    const args = [`dataset_path=${folder}`, "validation_fraction=0.2", `output=${join(folder, "t")}`];
    const printed = await run(...args, "vocab_size=1_000");
    expect(printed).toContain("from 8 documents");
    expect(printed).toContain("fewer than vocab_size=1000");
  });

  it("reads prompts and chats, and leaves out records that can't be used on demand", async () => {
    const chat = JSON.stringify({ messages: [{ role: "user", content: "a word, a word, a word" }] });
    const folder = temporaryFolder({ "a.jsonl": `${chat}\n{"text": 1}\n` });
    const train = (...args: string[]) =>
      runHalfbyte([
        ...["tokenizer", "train", `dataset_path=${join(folder, "a.jsonl")}`, `output=${join(folder, "out")}`],
        ...["dataset_type=chat", "vocab_size=260", ...args],
      ]);
    expect((await train()).stderr).toContain("dataset_bad_records=skip leaves such records out");
    expect((await train("dataset_bad_records=drop")).stderr).toContain("must be stop, skip");
    const { stdout } = await train("dataset_bad_records=skip", "--json");
    expect(JSON.parse(stdout)).toMatchObject({ documents: 1, badRecords: 1, bytes: 22 });
  });

  it("refuses an output that is a file before it learns anything", async () => {
    const folder = books();
    const args = [`dataset_path=${folder}`, `output=${join(folder, "1.txt")}`];
    await expect(command.run(args)).rejects.toThrow(/^output=.*1\.txt: no folder can be written there \(/);
    await expect(command.run(args)).rejects.toMatchObject({ code: "E_OUTPUT" });
  });

  it.each([
    [[], "dataset_path=… is missing"],
    [["dataset_path=x"], "output=… is missing"],
    [["dataset_path=x", "output=y", "vocab=5"], "vocab_size"],
    [["dataset_path=x", "output=y", "vocab_size=many"], "vocab_size=many: must be an integer"],
    [["dataset_path=x", "output=y", "vocab_size=100"], "vocab_size=100: must be 257 or more"],
    [["dataset_path=x", "output=y", "validation_fraction=1"], "must be from 0 to below 1"],
    [["dataset_path=no/such/place", "output=y"], "dataset_path=no/such/place: no such file or folder"],
  ])("refuses %j", async (args, message) => {
    await expect(command.run(args)).rejects.toThrow(message);
    expect(existsSync("y")).toBe(false);
  });
});

describe("halfbyte tokenizer", () => {
  const halfbyte = (...args: string[]) => runHalfbyte(["tokenizer", ...args]);
  beforeAll(ensureBuilt);
  const smol = `tokenizer_path=${goldenPath("16_chat/tokenizer.json")}`;

  it.each([
    [[], "what to do is missing; known are train, encode, decode, info, chat"],
    [["trian"], 'unknown "trian"; did you mean "train"?'],
  ])("refuses %j", async (args, message) => {
    await expect(verbs.run(args)).rejects.toThrow(message);
  });

  it("encode shows each piece above its id, and decode gives the text back", async () => {
    const text = "Naïve 🦙\nend";
    const { exitCode, stdout } = await halfbyte("encode", `text=${text}`, smol);
    expect(exitCode).toBe(0);
    const [pieces, ids] = stdout.split("\n");
    const cells = (line: string) => line.split(/[|│]/).map((cell) => cell.trim());
    expect(cells(pieces!)).toContain("\\n");
    expect(cells(pieces!)).toHaveLength(cells(ids!).length);
    expect(stdout).toMatch(/\d+ tokens, 15 bytes, \d\.\d\d bytes each\n$/);
    const listed = stdout.match(/^ids=.*$/m)![0];
    expect((await halfbyte("decode", listed, smol)).stdout).toBe(`${text}\n`);
    const ended = `${listed},509`; // and <|eot_id|>
    expect((await halfbyte("decode", ended, smol)).stdout).toBe(`${text}<|eot_id|>\n`);
    expect((await halfbyte("decode", ended, smol, "skip_control=true", "--json")).stdout).toBe(
      `${JSON.stringify({ text })}\n`,
    );
  });

  it("encode --json gives ids and pieces, framed on demand", async () => {
    const plain = JSON.parse((await halfbyte("encode", "text=one", smol, "--json")).stdout);
    expect(plain).toMatchObject({ bytes: 3, tokens: plain.ids.length });
    expect(plain.pieces.join("")).toBe("one");
    const framed = JSON.parse((await halfbyte("encode", "text=one", smol, "framed=true", "--json")).stdout);
    expect(framed.ids).toEqual([504, ...plain.ids]);
  });

  it("info tells what a tokenizer holds", async () => {
    const { stdout } = await halfbyte("info", smol);
    expect(stdout).toContain("515 ids: ");
    expect(stdout).toMatch(/before a text +<\|begin_of_text\|>/);
    expect(stdout).toMatch(/chat template +none/);
    const facts = JSON.parse((await halfbyte("info", "tokenizer_path=byte", "--json")).stdout);
    expect(facts).toMatchObject({ vocabSize: 257, format: "a token a byte", endOfDocument: "<|end_of_text|>" });
    expect(facts.tokensByBytes).toEqual([0, 256]);
  });

  it("chat marks what is trained on", async () => {
    const messages = [
      { role: "user", content: "Name a colour." },
      { role: "assistant", content: "Blue." },
    ];
    const folder = temporaryFolder({
      "chat_template.jinja":
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
      "chats.jsonl": `${JSON.stringify({ messages: [messages[0]] })}\n${JSON.stringify({ messages })}\n`,
      "one.json": JSON.stringify(messages, null, 1),
      "bad.jsonl": '{"text": 1}\n',
      "packed.jsonl.gz": gzipSync(
        `{"text": 1}\n${JSON.stringify({
          conversations: [
            { from: "human", value: "Name a colour." },
            { from: "gpt", value: "Blue." },
          ],
        })}\n`,
      ),
    });
    copyFileSync(goldenPath("16_chat/tokenizer.json"), join(folder, "tokenizer.json"));
    const chat = (...args: string[]) => halfbyte("chat", `tokenizer_path=${folder}`, ...args);
    const shown =
      "<|begin_of_text|><|im_start|>user\nName a colour.<|im_end|>\n<|im_start|>assistant\n[[Blue.<|im_end|>]]\n";
    expect((await chat(`messages=${join(folder, "chats.jsonl")}`, "record=2")).stdout).toContain(shown);
    expect((await chat(`messages=${join(folder, "one.json")}`)).stdout).toMatch(
      /\n\d+ tokens, 6 of them trained on\n$/,
    );
    expect((await chat(`messages=${join(folder, "chats.jsonl")}`, "--json")).stdout).toContain('"trained":0');
    const packed = `messages=${join(folder, "packed.jsonl.gz")}`;
    expect((await chat(packed, "record=2")).stdout).toContain(shown);
    expect((await chat(packed)).stderr).toContain('packed.jsonl.gz:1: no "messages"');
    const refused = await chat(`messages=${join(folder, "bad.jsonl")}`);
    expect(refused.exitCode).toBe(2);
    expect(refused.stderr).toContain('bad.jsonl:1: no "messages"');
    expect((await chat(`messages=${join(folder, "chats.jsonl")}`, "record=3")).stderr).toContain("record=3: it has 2");
  });

  it.each([
    ["encode", "tokenizer_path=byte", "texts=a"],
    ["encode", "tokenizer_path=byte"],
    ["decode", "tokenizer_path=byte"],
    ["decode", "tokenizer_path=byte", "ids=1,257"],
    ["info"],
    ["chat", "tokenizer_path=byte", "messages=no/such.json"],
  ])("%s %s %s is refused before anything is done", async (...args) => {
    expect((await halfbyte(...args.filter((arg) => arg !== undefined))).exitCode).toBe(2);
  });
});
