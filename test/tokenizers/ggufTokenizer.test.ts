/** Tokenizers out of GGUF metadata: golden's tokenizers there and back, a SentencePiece one, and what is refused. */
import { describe, expect, it } from "vitest";
import type { GgufValue } from "../../src/gguf/index.ts";
import { bpeTokenizer } from "../../src/tokenizers/bpeTokenizer.ts";
import { generalTokenizer } from "../../src/tokenizers/generalTokenizer.ts";
import { tokenizerOfGguf } from "../../src/tokenizers/ggufTokenizer.ts";
import { parseTokenizerJson } from "../../src/tokenizers/tokenizerJson.ts";
import { goldenJson } from "../golden.ts";

interface TokenizerJson {
  readonly added_tokens: readonly { readonly id: number; readonly content: string }[];
  readonly model: { readonly vocab: Record<string, number>; readonly merges: readonly (string | string[])[] };
}

/** The metadata that converters write for a byte-level tokenizer.json. */
function metadataOf({ added_tokens, model }: TokenizerJson, pre: string): Map<string, GgufValue> {
  const tokens: string[] = [];
  for (const [token, id] of Object.entries(model.vocab)) tokens[id] = token;
  for (const { id, content } of added_tokens) tokens[id] = content;
  const types = Int32Array.from(tokens, (_, id) => (added_tokens.some((added) => added.id === id) ? 3 : 1));
  return new Map<string, GgufValue>([
    ["tokenizer.ggml.model", "gpt2"],
    ["tokenizer.ggml.pre", pre],
    ["tokenizer.ggml.tokens", tokens],
    ["tokenizer.ggml.token_type", types],
    ["tokenizer.ggml.merges", model.merges.map((merge) => (typeof merge === "string" ? merge : merge.join(" ")))],
    ["tokenizer.ggml.bos_token_id", added_tokens[0]!.id],
    ["tokenizer.ggml.eos_token_id", added_tokens[0]!.id],
  ]);
}

interface Cases {
  readonly encode: readonly { readonly text: string; readonly ids: number[]; readonly ids_with_special: number[] }[];
}

describe("tokenizerOfGguf", () => {
  it.each([
    ["llama3style", "llama-bpe"],
    ["qwen2style", "qwen2"],
  ])("%s encodes as its tokenizer.json does", (name, pre) => {
    const metadata = metadataOf(goldenJson(`10_tokenizer/tokenizer_${name}`), pre);
    metadata.set("tokenizer.ggml.add_bos_token", name === "llama3style");
    const { tokenizer, config } = tokenizerOfGguf(metadata, "file.gguf");
    const { encode } = bpeTokenizer(parseTokenizerJson(tokenizer, "file.gguf", String(config.eos_token))!, "file.gguf");
    const cases = goldenJson<Cases>(`10_tokenizer/cases_${name}`).encode;
    expect(cases).toHaveLength(225);
    // Golden's tokens in the text are special there.
    for (const { text, ids } of cases) expect([...encode(text, { control: true })], text).toEqual(ids);
    const begin = config.bos_token;
    expect(JSON.stringify(tokenizer.post_processor).includes(JSON.stringify(begin))).toBe(name === "llama3style");
  });

  it("makes SentencePiece's merges of the scores, with bytes for what has no piece", () => {
    const pieces = ["<unk>", "<s>", "</s>", ...Array.from({ length: 256 }, (_, i) => byteToken(i))];
    const words = ["▁", "a", "b", "c", "ab", "▁a", "bc", "▁ab", "abc", "▁abc"];
    const tokens = [...pieces, ...words];
    // As in Llama 2: the later, the lower. "bc" is made before "▁ab" can be.
    const scores = Float32Array.from(tokens, (token) => (words.indexOf(token) < 4 ? 0 : -words.indexOf(token)));
    const types = Int32Array.from(tokens, (_, id) => (id === 0 ? 2 : id < 3 ? 3 : id < 259 ? 6 : 1));
    const metadata = new Map<string, GgufValue>([
      ["tokenizer.ggml.model", "llama"],
      ["tokenizer.ggml.tokens", tokens],
      ["tokenizer.ggml.scores", scores],
      ["tokenizer.ggml.token_type", types],
      ["tokenizer.ggml.bos_token_id", 1],
      ["tokenizer.ggml.eos_token_id", 2],
      ["tokenizer.ggml.unknown_token_id", 0],
    ]);
    const { tokenizer, config } = tokenizerOfGguf(metadata, "file.gguf");
    expect(config).toMatchObject({ bos_token: "<s>", eos_token: "</s>", unk_token: "<unk>" });
    expect((tokenizer.model as TokenizerJson["model"]).merges).toEqual([
      ["a", "b"],
      ["▁", "a"],
      ["b", "c"],
      ["▁", "ab"],
      ["▁a", "b"],
      ["a", "bc"],
      ["ab", "c"],
      ["▁", "abc"],
      ["▁a", "bc"],
      ["▁ab", "c"],
    ]);
    const { encode, decode } = generalTokenizer(tokenizer, "file.gguf", "file.gguf", "</s>");
    const spelled = (text: string) => [...encode(text)].map((id) => tokens[id]);
    expect(spelled("abc ab")).toEqual(["▁abc", "▁ab"]);
    expect(spelled("é")).toEqual(["▁", byteToken(0xc3), byteToken(0xa9)]);
    expect(decode([...encode("abc é ab")])).toBe("abc é ab");
  });

  it("drops bytes that have no token, as Hugging Face's library does, and takes unk_token's where there is one", () => {
    const file = structuredClone(goldenJson<TokenizerJson>("10_tokenizer/tokenizer_llama3style"));
    const { ć: _, ...vocab } = file.model.vocab; // byte 0x07
    const without = { ...file, model: { ...file.model, vocab } };
    const { encode, decode } = bpeTokenizer(parseTokenizerJson(without, "x")!, "x");
    expect(decode(encode("bell\u0007, é"))).toBe("bell, é");
    expect(parseTokenizerJson({ ...without, model: { ...without.model, unk_token: "a" } }, "x")).toBeUndefined();
  });

  it("leaves out fillers and refuses what it can't make, by name", () => {
    const base = metadataOf(goldenJson("10_tokenizer/tokenizer_llama3style"), "llama-bpe");
    const tokens = base.get("tokenizer.ggml.tokens") as string[];
    const refusal = (change: Record<string, GgufValue | undefined>) => {
      const metadata = new Map(base);
      for (const [key, value] of Object.entries(change)) {
        if (value === undefined) metadata.delete(`tokenizer.ggml.${key}`);
        else metadata.set(`tokenizer.ggml.${key}`, value);
      }
      try {
        return tokenizerOfGguf(metadata, "file.gguf").tokenizer;
      } catch (error) {
        return (error as Error).message;
      }
    };
    const filled = refusal({
      tokens: [...tokens, "[PAD512]"],
      token_type: Int32Array.of(...(base.get("tokenizer.ggml.token_type") as Int32Array), 5),
    });
    expect(JSON.stringify(filled)).not.toContain("PAD512");
    expect(refusal({ model: undefined })).toBe("file.gguf: it holds no tokenizer (tokenizer.ggml.model)");
    expect(refusal({ model: "bert" })).toMatch(/of the kind "bert"; gpt2/);
    expect(refusal({ pre: "viking" })).toMatch(/"viking" \(tokenizer.ggml.pre\), is not known; known are gpt-2, /);
    expect(refusal({ pre: undefined })).toMatch(/does not say how text is cut/);
    expect(refusal({ tokens: Int32Array.of(1) })).toMatch(/tokens is no list of texts/);
    expect(refusal({ token_type: Int32Array.of(1) })).toMatch(/token_type has 1 of 512 entries/);
    expect(refusal({ merges: ["a nothing"] })).toMatch(/merge 0, "a nothing", is no pair of tokens/);
    expect(refusal({ eos_token_id: 512 })).toMatch(/eos_token_id is 512; there are 512 tokens/);
    expect(refusal({ model: "llama" })).toMatch(/scores is no list of numbers/);
  });
});

const byteToken = (byte: number): string => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`;
