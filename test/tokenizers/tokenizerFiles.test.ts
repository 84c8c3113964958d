import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { controlToken } from "../../src/tokenizers/addedTokens.ts";
import { trainBpe } from "../../src/tokenizers/bpeTrainer.ts";
import { byteTokenizer } from "../../src/tokenizers/byteTokenizer.ts";
import { defaultSplitPattern, translateSplitPattern } from "../../src/tokenizers/splitPattern.ts";
import { streamDecoder } from "../../src/tokenizers/tokenizer.ts";
import { copyTokenizer, loadTokenizer, saveTokenizer } from "../../src/tokenizers/tokenizerFiles.ts";
import { parseTokenizerJson, toTokenizerJson } from "../../src/tokenizers/tokenizerJson.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { goldenJson, goldenPath } from "../golden.ts";

interface Cases {
  vocab_size: number;
  encode: { text: string; ids: number[]; ids_with_special?: number[]; decoded: string; decoded_skip_special: string }[];
  decode: { ids: number[]; decoded: string; decoded_skip_special: string }[];
}

describe.each(["llama3style", "qwen2style"])("golden 10, %s", (style) => {
  const tokenizer = loadTokenizer(goldenPath(`10_tokenizer/tokenizer_${style}.json`));
  const cases = goldenJson<Cases>(`10_tokenizer/cases_${style}`);

  it("encodes every string to the same ids", () => {
    expect(tokenizer.vocabSize).toBe(cases.vocab_size);
    expect([cases.encode.length, cases.decode.length]).toEqual([225, 40]);
    const wrong = cases.encode.filter(
      ({ text, ids, ids_with_special = ids }) =>
        `${[...tokenizer.encode(text, { control: true })]}` !== `${ids}` ||
        `${[...tokenizer.encode(text, { control: true, framed: true })]}` !== `${ids_with_special}`,
    );
    expect(wrong.map(({ text }) => text)).toEqual([]);
  });

  it("decodes every list of ids to the same text, whole and streamed", () => {
    for (const { ids, decoded, decoded_skip_special } of [...cases.encode, ...cases.decode]) {
      expect(tokenizer.decode(ids)).toBe(decoded);
      expect(tokenizer.decode(ids, { skipControl: true })).toBe(decoded_skip_special);
      const stream = streamDecoder(tokenizer);
      expect(ids.map((id) => stream.push(id)).join("") + stream.end()).toBe(decoded);
    }
  });

  it("makes control tokens of no string by default", () => {
    for (const { text } of cases.encode) {
      expect([...tokenizer.encode(text)].filter((id) => tokenizer.isControl(id))).toEqual([]);
    }
  });
});

describe("translateSplitPattern", () => {
  const cuts = (pattern: string, text: string) => text.match(translateSplitPattern(pattern));

  it("keeps Unicode's white space, which is not JavaScript's", () => {
    expect(cuts("\\s+|\\S+", "a\u0085b\ufeffc")).toEqual(["a", "\u0085", "b\ufeffc"]);
    expect(cuts("[^\\s]+", "a\u0085b\ufeffc")).toEqual(["a", "b\ufeffc"]);
  });

  it("folds case within (?i:…) only, beyond ASCII too", () => {
    expect(cuts("(?i:'s|'ll)|x", "'S 'ſ 'lL X x")).toEqual(["'S", "'ſ", "'lL", "x"]);
  });

  it("cuts English as Llama 3 does", () => {
    expect(cuts(defaultSplitPattern, "We'll pay $1234.50\r\n\n  now, they'VE said")).toEqual([
      "We",
      "'ll",
      " pay",
      " $",
      "123",
      "4",
      ".",
      "50",
      "\r\n\n",
      " ",
      " now",
      ",",
      " they",
      "'VE",
      " said",
    ]);
  });

  it.each([["a++b"], ["\\w+"], ["[a[bc]]"], ["(?<=a)(b"], ["a{1,2}+"], ["[\\S]"]])("refuses %s by name", (pattern) => {
    expect(() => translateSplitPattern(pattern)).toThrow(/split pattern .* uses /);
  });
});

describe("tokenizer files", () => {
  it("come back as they were saved", async () => {
    const model = await trainBpe(["one two three, one two, one. ".repeat(5), "日本語 日本語"], 300);
    const folder = join(temporaryFolder(), "made", "here");
    saveTokenizer(model, folder);
    const loaded = loadTokenizer(folder);
    expect(parseTokenizerJson(JSON.parse(JSON.stringify(toTokenizerJson(model))), "x")).toEqual(model);
    expect(loadTokenizer(join(folder, "tokenizer.json")).hash).toBe(loaded.hash);
    expect(loaded.vocabSize).toBe(model.tokens.length);
    expect(loaded.decode([loaded.eosId])).toBe("<|end_of_text|>");
  });

  it("take the end token that tokenizer_config.json names", async () => {
    const model = await trainBpe(["text text"], 300);
    const file = toTokenizerJson({
      ...model,
      tokens: [...model.tokens, undefined],
      added: [...model.added, controlToken(model.tokens.length, "<stop>")],
    });
    const folder = temporaryFolder({ "tokenizer.json": JSON.stringify(file) });
    expect(loadTokenizer(folder).eosId).toBe(model.eosId);
    writeFileSync(join(folder, "tokenizer_config.json"), JSON.stringify({ eos_token: { content: "<stop>" } }));
    expect(loadTokenizer(folder).eosId).toBe(model.tokens.length);
    writeFileSync(join(folder, "tokenizer_config.json"), JSON.stringify({ eos_token: "<none>" }));
    expect(() => loadTokenizer(folder)).toThrow('"<none>" is among its added tokens');
  });

  it("that are not there are refused with the way to make one", () => {
    expect(() => loadTokenizer("no/such")).toThrow("halfbyte tokenizer train");
    expect(() => loadTokenizer(temporaryFolder())).toThrow("no tokenizer.json");
  });

  const good = () => JSON.parse(JSON.stringify(goldenJson("10_tokenizer/tokenizer_llama3style")));
  // biome-ignore lint/suspicious/noExplicitAny: broken on purpose, in any place
  const broken: [string, (file: any) => void][] = [
    ["model type", (file) => Object.assign(file.model, { type: "WordLevel" })],
    ["no list of tokens", (file) => Object.assign(file.model, { type: "Unigram" })],
    ["has the id -1", (file) => Object.assign(file.model.vocab, { "!": -1 })],
    ["has the id 1000000000000", (file) => Object.assign(file.model.vocab, { "!": 1e12 })],
    ["two tokens have the id 5", (file) => Object.assign(file.model.vocab, { "!": 5 })],
    ["byte-level alphabet", (file) => Object.assign(file.model.vocab, { 日: 600 })],
    ["no token for the byte 0x21", (file) => delete file.model.vocab["!"]],
    ["merge 0 uses", (file) => file.model.merges.unshift(["zzz", "a"])],
    ["merge 0 is", (file) => file.model.merges.unshift("abc")],
    ["model.vocab is missing", (file) => delete file.model.vocab],
    ["not a tokenizer.json", (file) => delete file.model],
    ["no end-of-document token", (file) => Object.assign(file, { added_tokens: [] })],
    ["ids up to 2000000", (file) => Object.assign(file.model.vocab, { ĠĠĠĠĠĠĠ: 2_000_000 })],
  ];
  it.each(broken)("with a wrong part are refused by name: %s", (message, breakIt) => {
    const file = good();
    breakIt(file);
    const path = join(temporaryFolder({ "tokenizer.json": JSON.stringify(file) }), "tokenizer.json");
    expect(() => loadTokenizer(path)).toThrow(message);
    expect(() => loadTokenizer(path)).toThrow(path);
  });

  it("that are not JSON are refused", () => {
    expect(() => loadTokenizer(temporaryFolder({ "tokenizer.json": "{" }))).toThrow("not readable as JSON");
  });
});

describe("byteTokenizer", () => {
  const tokenizer = byteTokenizer();

  it("has a token a byte and one for the end", () => {
    expect([...tokenizer.encode("aé")]).toEqual([0x61, 0xc3, 0xa9]);
    expect(tokenizer.decode([0x61, 0xc3, 0xa9, 256])).toBe("aé<|end_of_text|>");
    expect(tokenizer.decode([0x61, 256, 0xc3], { skipControl: true })).toBe("a\ufffd");
    expect(tokenizer).toMatchObject({ name: "byte", vocabSize: 257, eosId: 256 });
  });

  it("makes an end token of text only when asked to", () => {
    const text = "<|end_of_text|>x";
    expect(tokenizer.decode(tokenizer.encode(text))).toBe(text);
    expect([...tokenizer.encode(text)]).not.toContain(256);
    expect([...tokenizer.encode(text, { control: true })]).toEqual([256, 0x78]);
  });

  it("comes back from a file as the same tokenizer", () => {
    const folder = temporaryFolder();
    copyTokenizer("byte", folder);
    const loaded = loadTokenizer(folder);
    expect(loaded.hash).toBe(tokenizer.hash);
    expect([...loaded.encode("aé\ud800<|end_of_text|>")]).toEqual([...tokenizer.encode("aé\ud800<|end_of_text|>")]);
  });

  it("keeps a byte order mark inside a text", () => {
    expect(tokenizer.decode(tokenizer.encode("\ufeffa"))).toBe("\ufeffa");
  });
});
