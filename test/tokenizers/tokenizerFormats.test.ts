/** Tokenizers in other files than tokenizer.json: tiktoken's ranks, SentencePiece's model, a GGUF file's metadata. */
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { describe, expect, it, type TestContext } from "vitest";
import { UserError } from "../../src/base/errors.ts";
import {
  copyTokenizer,
  loadChatTemplate,
  loadTokenizer,
  renderChat,
  type Tokenizer,
} from "../../src/tokenizers/index.ts";
import { ggufOf, llamaB, splitGgufOf } from "../convert/models.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { goldenPath } from "../golden.ts";
import { llama3Ranks, pipFile, smolLm2 } from "../pipPackage.ts";
import { llama3Folder } from "./llama3.ts";

const llama3Cases = JSON.parse(readFileSync(fileURLToPath(new URL("files/llama3.json", import.meta.url)), "utf8"))
  .cases as readonly {
  readonly text: string;
  readonly ids: readonly number[];
  readonly idsWithControl: readonly number[];
}[];
interface Pieces {
  readonly model: string;
  readonly cases: readonly { readonly text: string; readonly ids: readonly number[]; readonly decoded: string }[];
}
const piecesOf = (name: string): Pieces =>
  JSON.parse(readFileSync(fileURLToPath(new URL(`files/${name}.json`, import.meta.url)), "utf8"));
const pieces = piecesOf("sentencepiece-model");
const symbols = piecesOf("sentencepiece-model-symbols");

const ids = (tokenizer: Tokenizer, text: string) => [...tokenizer.encode(text, { control: true })];
const modelFile = (content: string | Uint8Array) =>
  join(temporaryFolder({ "tokenizer.model": content }), "tokenizer.model");

let ranks: Tokenizer | undefined;
async function rankTokenizer(context: TestContext): Promise<Tokenizer> {
  ranks ??= loadTokenizer(await pipFile(context, llama3Ranks));
  return ranks;
}

describe("Meta's tokenizer.model of Llama 3", () => {
  it("A11: gives the ids of the tokenizer.json, words that are tokens included", async (context) => {
    const tokenizer = await rankTokenizer(context);
    expect(tokenizer).toMatchObject({ vocabSize: 128_256, eosId: 128_001, frame: { before: [128_000], after: [] } });
    expect(ids(tokenizer, "Hello world!")).toEqual([9906, 1917, 0]);
    expect(ids(tokenizer, " Việt")).toEqual([101798]);
    expect(ids(tokenizer, "1234567 tokens\r\n\n  x")).toEqual([4513, 10961, 22, 11460, 81923, 220, 865]);
    expect(ids(tokenizer, "naïve café 🦙 <|eot_id|>")).toEqual([3458, 38672, 588, 53050, 11410, 99, 247, 220, 128009]);
    for (const { text, ids: raw, idsWithControl } of llama3Cases) {
      expect([...tokenizer.encode(text)]).toEqual(raw);
      expect(ids(tokenizer, text)).toEqual(idsWithControl);
    }
  });

  it("has its tokens and merges, in their order", async (context) => {
    const [json, tokenizer] = [loadTokenizer(await llama3Folder(context)), await rankTokenizer(context)];
    const differing = Array.from({ length: 128_000 }, (_, id) => id).filter(
      (id) => Buffer.compare(json.bytesOf(id), tokenizer.bytesOf(id)) !== 0,
    );
    expect(differing).toEqual([]);
    const unit = fc.constantFrom("a", "e", " ", "the", "ing", "0", "\n", "é", "日", "ت", "न", "🦙", "'s", "_", "=");
    fc.assert(
      fc.property(fc.string({ unit, maxLength: 60 }), (text) => {
        expect([...tokenizer.encode(text)]).toEqual([...json.encode(text)]);
      }),
    );
  });

  it("is kept by a run as a tokenizer.json that gives the same", async (context) => {
    const tokenizer = await rankTokenizer(context);
    const folder = temporaryFolder();
    copyTokenizer(await pipFile(context, llama3Ranks), folder);
    const kept = loadTokenizer(folder);
    expect(kept.hash).toBe(tokenizer.hash);
    expect(kept.frame).toEqual(tokenizer.frame);
  });

  it.each([
    [
      "another number of ranks",
      "IQ== 0\nIg== 1\n",
      "2 ranks; Llama 3's file has 128000, and a file of ranks does not say",
    ],
    ["a broken line", `${"IQ== 0\n".repeat(127_999)}? 5\n`, "line 2 has the rank 0; ranks count from 0"],
  ])("with %s is refused by name", (_, content, message) => {
    const file = modelFile(content);
    expect(() => loadTokenizer(file)).toThrow(message);
    expect(() => loadTokenizer(file)).toThrow(file);
  });
});

describe("SentencePiece's tokenizer.model", () => {
  const bytes = Buffer.from(pieces.model, "base64");

  it.each([
    ["with a space before a text", pieces],
    ["with symbols of its user's", symbols],
  ])("gives SentencePiece's ids and texts, %s", (_, { model, cases }) => {
    const tokenizer = loadTokenizer(modelFile(Buffer.from(model, "base64")));
    expect(tokenizer).toMatchObject({ vocabSize: 420, eosId: 2, frame: { before: [1], after: [] } });
    for (const { text, ids: wanted, decoded } of cases) {
      expect({ text, ids: [...tokenizer.encode(text)] }).toEqual({ text, ids: wanted });
      expect(tokenizer.decode(wanted)).toBe(decoded);
    }
    expect([...tokenizer.encode("</s>", { control: true, framed: true })]).toEqual([1, 2]);
  });

  it("is found in a folder, and its config beside it counts", () => {
    const folder = temporaryFolder({
      "tokenizer.model": bytes,
      "tokenizer_config.json": JSON.stringify({ eos_token: "<s>", chat_template: "{{ bos_token }}|{{ eos_token }}" }),
    });
    expect(loadTokenizer(folder).eosId).toBe(1);
    expect(renderChat(loadChatTemplate(folder), [])).toBe("<s>|<s>");
    const copy = temporaryFolder();
    copyTokenizer(folder, copy);
    expect([...loadTokenizer(copy).encode("the sea")]).toEqual([...loadTokenizer(folder).encode("the sea")]);
    expect(renderChat(loadChatTemplate(copy), [])).toBe("<s>|<s>");
  });

  /** The file with a field of its trainer's (2) or normalizer's (3) settings behind the others. */
  const withField = (message: number, ...field: readonly number[]) =>
    Buffer.concat([bytes, Uint8Array.of((message << 3) | 2, field.length, ...field)]);
  it.each([
    ["Unigram", withField(2, 3 << 3, 1)],
    ["removes white space", withField(3, 4 << 3, 1)],
    ["keeps spaces as they are", withField(3, 5 << 3, 0)],
    ["puts spaces behind words", withField(2, (24 << 3) | 0x80, 1, 1)],
    ['whose normalizer "identity" changes the text by tables', withField(3, (2 << 3) | 2, 1, 7)],
    ["has symbols of its user", Buffer.concat([Buffer.from(symbols.model, "base64"), Uint8Array.of(26, 2, 3 << 3, 1)])],
    ["not a protocol buffer", bytes.subarray(0, 1000)],
  ])("that can't be computed exactly is refused by name: %s", (message, content) => {
    expect(() => loadTokenizer(modelFile(content))).toThrow(message);
  });

  it("that was damaged ends in a typed error or a tokenizer, soon", () => {
    const path = join(temporaryFolder(), "tokenizer.model");
    const damage = fc.array(fc.tuple(fc.nat(bytes.length - 1), fc.nat(255)), { minLength: 1, maxLength: 8 });
    fc.assert(
      fc.property(damage, fc.nat(bytes.length), (changes, length) => {
        const damaged = Buffer.from(bytes.subarray(0, Math.max(length, 100)));
        for (const [at, value] of changes) if (at < damaged.length) damaged[at] = value;
        writeFileSync(path, damaged);
        try {
          loadTokenizer(path);
        } catch (error) {
          expect(error).toBeInstanceOf(UserError);
        }
      }),
      { numRuns: 200 },
    );
  });
});

describe("a GGUF file", () => {
  it("SmolLM2's gives its tokenizer and chat template", async (context) => {
    const file = await pipFile(context, smolLm2);
    const tokenizer = loadTokenizer(file);
    expect(tokenizer).toMatchObject({ vocabSize: 49_152, eosId: 2, frame: { before: [], after: [] } });
    expect([...tokenizer.encode("The capital of France is")]).toEqual([504, 3575, 282, 4649, 314]);
    const text = renderChat(loadChatTemplate(file), [{ role: "user", content: "hi" }], { addGenerationPrompt: true });
    expect(text).toMatch(
      /^<\|im_start\|>system\n.*<\|im_end\|>\n<\|im_start\|>user\nhi<\|im_end\|>\n<\|im_start\|>assistant\n$/s,
    );
    const copy = temporaryFolder();
    copyTokenizer(file, copy);
    expect(loadTokenizer(copy).hash).toBe(tokenizer.hash);
    expect(loadChatTemplate(copy).source).toBe(loadChatTemplate(file).source);
  });
});

describe("tokenizer_path", () => {
  it("is that of a split GGUF file whichever part is named, and of a folder with its parts", async () => {
    const folder = temporaryFolder();
    const whole = loadTokenizer(await ggufOf(join(temporaryFolder(), "whole.gguf"), llamaB));
    const parts = await splitGgufOf(join(folder, "model"), llamaB, 3);
    for (const path of [...parts, folder]) expect(loadTokenizer(path).hash, path).toBe(whole.hash);
    rmSync(parts[1]!);
    expect(() => loadTokenizer(parts[2]!)).toThrow(
      /of the 3 parts of this split file, model-00002-of-00003.gguf is not/,
    );
    expect(loadTokenizer(parts[0]!).hash).toBe(whole.hash);
  });

  it("prefers a folder's tokenizer.json, and refuses one without any file by what it may have", () => {
    const folder = temporaryFolder({ "tokenizer.model": Buffer.from(pieces.model, "base64") });
    writeFileSync(join(folder, "tokenizer.json"), readFileSync(goldenPath("16_chat/tokenizer.json")));
    expect(loadTokenizer(folder).vocabSize).toBe(515);
    expect(() => loadTokenizer(temporaryFolder())).toThrow("no tokenizer.json, tokenizer.model or single .gguf file");
  });
});
