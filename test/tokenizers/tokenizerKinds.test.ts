/** Every kind of tokenizer.json against the ids of the reference library, and the trials A11 to A15 of public bug reports. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it, type TestContext } from "vitest";
import { loadTokenizer } from "../../src/tokenizers/index.ts";
import { streamDecoder, type Tokenizer, textBytes } from "../../src/tokenizers/tokenizer.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { llama3Folder } from "./llama3.ts";

interface Case {
  readonly text: string;
  readonly ids: readonly number[];
  readonly idsWithControl: readonly number[];
  readonly decoded: string;
}
interface Kind {
  readonly tokenizer: unknown;
  readonly cases: readonly Case[];
}

/** Made by make.py there. */
const folder = fileURLToPath(new URL("files/", import.meta.url));
const kindOf = (name: string) => JSON.parse(readFileSync(join(folder, `${name}.json`), "utf8")) as Kind;
const kinds = readdirSync(folder)
  .map((file) => file.replace(/\.json$/, ""))
  .filter((name) => name !== "make.py" && name !== "llama3" && !name.startsWith("sentencepiece-model"));

function load(tokenizer: unknown): Tokenizer {
  return loadTokenizer(
    temporaryFolder({
      "tokenizer.json": JSON.stringify(tokenizer),
      "tokenizer_config.json": JSON.stringify({ eos_token: "<|end|>" }),
    }),
  );
}

let llama3: Tokenizer | undefined;
async function llama3Tokenizer(context: TestContext): Promise<Tokenizer> {
  llama3 ??= loadTokenizer(await llama3Folder(context));
  return llama3;
}

function expectReference(tokenizer: Tokenizer, cases: readonly Case[]): void {
  expect(cases.length).toBeGreaterThan(30);
  for (const { text, ids, idsWithControl, decoded } of cases) {
    expect({ text, ids: [...tokenizer.encode(text)] }).toEqual({ text, ids });
    expect({ text, ids: [...tokenizer.encode(text, { control: true })] }).toEqual({ text, ids: idsWithControl });
    expect(tokenizer.decode(ids)).toBe(decoded);
    const stream = streamDecoder(tokenizer);
    expect(ids.map((id) => stream.push(id)).join("") + stream.end()).toBe(decoded);
  }
}

describe("a tokenizer.json", () => {
  it("is there in every kind", () => {
    expect(kinds.length).toBeGreaterThanOrEqual(10);
  });

  it.each(kinds)("of the kind %s gives the reference's ids and texts", (name) => {
    const { tokenizer, cases } = kindOf(name);
    expectReference(load(tokenizer), cases);
  });

  it("of SentencePiece's kinds gives the same ids in parts", () => {
    for (const name of ["metaspace-always", "metaspace-first", "sentencepiece-bpe", "bytelevel-prefix"]) {
      const tokenizer = load(kindOf(name).tokenizer);
      const [start, rest] = ["the old house", " by the sea"];
      const parts = [...tokenizer.encode(start), ...tokenizer.encode(rest, { continues: true })];
      expect(parts).toEqual([...tokenizer.encode(start + rest)]);
    }
  });

  it("of SentencePiece's kinds counts the bytes of its tokens", () => {
    for (const name of ["metaspace-never", "sentencepiece-bpe"]) {
      const tokenizer = load(kindOf(name).tokenizer);
      const bytes = textBytes(tokenizer);
      const text = " the house by the sea";
      const sum = tokenizer.encode(text, { continues: true }).reduce((total, id) => total + bytes[id]!, 0);
      expect(sum).toBe(Buffer.byteLength(text));
    }
  });

  it("of any kind has a hash of its content", () => {
    const { tokenizer } = kindOf("metaspace-never");
    expect(load(tokenizer).hash).toBe(load(tokenizer).hash);
    expect(load(kindOf("metaspace-always").tokenizer).hash).not.toBe(load(tokenizer).hash);
  });

  /** Ids from the reference library. */
  it("spells by bytes what its vocabulary lacks, though its tokens of bytes are listed as special", () => {
    const bytes = Array.from({ length: 256 }, (_, i) => `<0x${i.toString(16).toUpperCase().padStart(2, "0")}>`);
    const tokens = ["<unk>", "<s>", "<|end|>", ...bytes, "▁", "a", "b", "▁a"];
    const rules = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };
    const model = { unk_token: "<unk>", fuse_unk: true, byte_fallback: true };
    const models = [
      { type: "BPE", ...model, vocab: Object.fromEntries(tokens.map((token, id) => [token, id])), merges: ["▁ a"] },
      { type: "Unigram", unk_id: 0, byte_fallback: true, vocab: tokens.map((token, id) => [token, id > 2 ? -5 : 0]) },
    ];
    const space = (from: string, to: string) => ({ type: "Replace", pattern: { String: from }, content: to });
    for (const model of models) {
      const tokenizer = load({
        added_tokens: tokens.slice(0, 259).map((content, id) => ({ id, content, ...rules })),
        normalizer: { type: "Sequence", normalizers: [{ type: "Prepend", prepend: "▁" }, space(" ", "▁")] },
        decoder: {
          type: "Sequence",
          decoders: [
            space("▁", " "),
            { type: "ByteFallback" },
            { type: "Fuse" },
            { type: "Strip", content: " ", start: 1, stop: 0 },
          ],
        },
        model,
      });
      expect([...tokenizer.encode("a é b")]).toEqual([262, 259, 198, 172, 259, 261]);
      expect([...tokenizer.encode("日")]).toEqual([259, 233, 154, 168]);
      expect([...tokenizer.encode("a <0x41> b", { control: true })]).toEqual([262, 259, 68, 259, 259, 261]);
      expect(tokenizer.decode(tokenizer.encode("a é b"), { skipControl: true })).toBe("a é b");
      expect(textBytes(tokenizer)[198]).toBe(1);
      expect([tokenizer.isControl(2), tokenizer.isControl(198)]).toEqual([true, false]);
    }
  });

  /** Cuts and ids from the reference library. */
  it("takes joiners, and no superscripts, for characters of words", () => {
    const words = ["a\u200cb", "c\u200dd", "\u200e", "²", "c", "①", "a", "ⓐb", "\ufeff"];
    const vocab = Object.fromEntries(["[UNK]", "<|end|>", ...words].map((word, id) => [word, id]));
    const file = {
      added_tokens: [] as object[],
      pre_tokenizer: { type: "Whitespace" },
      model: { type: "WordPiece", unk_token: "[UNK]", continuing_subword_prefix: "##", vocab },
    };
    const end = { id: 1, content: "<|end|>", single_word: false, lstrip: false, rstrip: false, normalized: false };
    file.added_tokens.push({ ...end, special: true });
    const ids = (text: string) => [...load(file).encode(text)];
    expect(ids("a\u200cb c\u200dd \u200e ²c ①a ⓐb\ufeff")).toEqual([2, 3, 4, 5, 6, 7, 8, 9, 10]);
    file.added_tokens.push({ ...end, id: 11, content: "ab", single_word: true, special: false });
    expect([ids("ab\u200d"), ids("\u200dab"), ids("ab")]).toEqual([[0], [0], [11]]);
  });

  // biome-ignore lint/suspicious/noExplicitAny: broken on purpose, in any place
  const broken: [string, (file: any) => void][] = [
    ["model type", (file) => Object.assign(file.model, { type: "Other" })],
    ["draws ids at random", (file) => Object.assign(file.model, { dropout: 0.1 })],
    ["continuing_subword_prefix", (file) => Object.assign(file.model, { continuing_subword_prefix: "##" })],
    ["Precompiled", (file) => Object.assign(file, { normalizer: { type: "Precompiled", precompiled_charsmap: "" } })],
    ["Unknown Normalizer type", (file) => Object.assign(file, { normalizer: { type: "Nmt" } })],
    ['pre_tokenizer "UnicodeScripts"', (file) => Object.assign(file, { pre_tokenizer: { type: "UnicodeScripts" } })],
    ["a Split without", (file) => Object.assign(file, { pre_tokenizer: { type: "Split", behavior: "Isolated" } })],
    ['decoder "CTC"', (file) => Object.assign(file, { decoder: { type: "CTC" } })],
    ["has the id -1", (file) => Object.assign(file.model.vocab, { a: -1 })],
    ["model.vocab is missing", (file) => delete file.model.vocab],
  ];
  it.each(broken)("with what can't be computed exactly is refused by name: %s", (message, breakIt) => {
    const file = structuredClone(kindOf("metaspace-never").tokenizer);
    breakIt(file);
    expect(() => load(file)).toThrow(message);
    expect(() => load(file)).toThrow(/tokenizer\.json: /);
  });
});

describe("trials", () => {
  it("A11: a whole word in the vocabulary is taken before merging (ignore_merges)", async (context) => {
    const tokenizer = await llama3Tokenizer(context);
    expect(tokenizer.vocabSize).toBe(128_256);
    expect([...tokenizer.encode(" Việt")]).toEqual([101798]);
  });

  it.each(["never", "first", "always"])(
    "A12: Metaspace with prepend_scheme %s puts its space as the file says",
    (scheme) => {
      const { tokenizer, cases } = kindOf(`metaspace-${scheme}`);
      const ours = load(tokenizer);
      for (const text of ["a b", " a"]) {
        expect([...ours.encode(text)]).toEqual(cases.find((each) => each.text === text)!.ids);
      }
      // Behind a control token the text begins anew for "always" alone.
      const behind = [...ours.encode("<|end|>a", { control: true })].slice(1);
      expect(behind).toEqual([...ours.encode("a", { continues: scheme !== "always" })]);
      expect(ours.decode(behind)).toBe("a");
    },
  );

  it("A13: contractions, numbers, line ends, combining marks are cut as Llama 3 cuts them", async (context) => {
    const tokenizer = await llama3Tokenizer(context);
    expectReference(tokenizer, kindOf("llama3").cases);
  });

  it("A13: a lone surrogate is U+FFFD, once, in every kind", async (context) => {
    const all = [loadTokenizer("byte"), ...kinds.map((name) => load(kindOf(name).tokenizer))];
    for (const tokenizer of [...all, await llama3Tokenizer(context)]) {
      for (const lone of ["a\ud800b", "\udc00", "x\ud83e"]) {
        expect([...tokenizer.encode(lone)]).toEqual([...tokenizer.encode(lone.replace(/[\ud800-\udfff]/, "\ufffd"))]);
      }
    }
  });

  it("A14: control tokens spelled in raw text are ordinary characters, unless parsing is asked for", async (context) => {
    const text = "The end is <|eot_id|>, the very end <|end_of_text|>; so says the manual.";
    const tokenizer = await llama3Tokenizer(context);
    const raw = tokenizer.encode(text);
    expect([...raw].filter((id) => tokenizer.isControl(id))).toEqual([]);
    expect(tokenizer.decode(raw)).toBe(text);
    const parsed = tokenizer.encode(text, { control: true });
    expect([...parsed].filter((id) => tokenizer.isControl(id))).toEqual([128009, 128001]);
    expect(tokenizer.decode(parsed)).toBe(text);
    for (const name of kinds) {
      const other = load(kindOf(name).tokenizer);
      expect([...other.encode("a<|end|>b")]).not.toContain(other.eosId);
      expect([...other.encode("a<|end|>b", { control: true })]).toContain(other.eosId);
    }
  });

  it("A15: a character that spans tokens is decoded with its last one; a broken tail is flushed once", async (context) => {
    const text = "🦙 ďábel 똻";
    const tokenizers = [
      await llama3Tokenizer(context),
      loadTokenizer("byte"),
      load(kindOf("sentencepiece-bpe").tokenizer),
      load(kindOf("bytelevel-digits").tokenizer),
    ];
    for (const tokenizer of tokenizers) {
      const ids = [...tokenizer.encode(text)];
      expect(ids.length).toBeGreaterThan(5);
      const stream = streamDecoder(tokenizer);
      const pieces = ids.map((id) => stream.push(id));
      expect(pieces.join("")).toBe(text);
      expect(pieces.join("")).not.toContain("\ufffd");
      expect(stream.end()).toBe("");

      const cut = streamDecoder(tokenizer);
      const start = ids.slice(0, -1).map((id) => cut.push(id));
      expect(start.join("")).toBe("🦙 ďábel ");
      expect(cut.end()).toBe("\ufffd");
      expect(cut.end()).toBe("");
      expect(`${start.join("")}\ufffd`).toBe(tokenizer.decode(ids.slice(0, -1)));
    }
  });
});
