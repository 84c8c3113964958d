/** Regular expressions of tokenizers that try every way to match. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { UserError } from "../../src/base/errors.ts";
import { loadTokenizer, type Tokenizer } from "../../src/tokenizers/index.ts";
import { withPatternLimits } from "../../src/tokenizers/patternLimits.ts";
import { withinSeconds } from "../../src/tokenizers/timeLimit.ts";
import { refusing, show } from "../../src/tokenizers/tokenizerParts.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";

type Json = Record<string, unknown>;
const kinds = fileURLToPath(new URL("files/", import.meta.url));
const fileOf = (name: string) =>
  (JSON.parse(readFileSync(join(kinds, `${name}.json`), "utf8")) as { tokenizer: Json }).tokenizer;
const load = (file: Json) =>
  loadTokenizer(
    temporaryFolder({ "tokenizer.json": JSON.stringify(file), "tokenizer_config.json": '{"eos_token":"<|end|>"}' }),
  );
const split = (Regex: string): Json => ({ type: "Split", pattern: { Regex }, behavior: "Isolated", invert: false });
const bytes = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: false };
const cutBy = (Regex: string) => ({ type: "Sequence", pretokenizers: [split(Regex), bytes] });
const replaceBy = (Regex: string) => ({ type: "Replace", pattern: { Regex }, content: "" });

describe("a regular expression that tries every way to match", () => {
  it.each([
    ["in a Split", { pre_tokenizer: cutBy("(?:a+)+b") }, "(?:a+)+b"],
    ["in a Split that the library reads", { pre_tokenizer: cutBy("(x+x+)+$") }, "(x+x+)+$"],
    ["in one by three nested runs", { pre_tokenizer: cutBy("(?:\\s*\\s*\\s*\\s*)*z") }, "(?:\\s*\\s*\\s*\\s*)*z"],
    ["of choices alone", { pre_tokenizer: cutBy(`${"(?:a|a)".repeat(40)}b`) }, `${"(?:a|a)".repeat(40)}b`],
    ["in a normalizer", { normalizer: replaceBy("(?:a|a)*!!") }, "(?:a|a)*!!"],
  ])(
    "%s is refused by name when the tokenizer is loaded",
    (_, part, name) => {
      const before = process.cpuUsage().user;
      let error: unknown;
      try {
        load({ ...fileOf("bytelevel-digits"), ...part });
      } catch (thrown) {
        error = thrown;
      }
      expect(error).toMatchObject({ code: "E_TOKENIZER" });
      expect(String(error)).toContain(`tokenizer.json: the regular expression ${show(name)} takes more than 2 s`);
      expect((process.cpuUsage().user - before) / 1e6).toBeLessThan(30);
    },
    60_000,
  );

  it("only for texts that nobody tried ends in the same error, not in a hang; other texts are encoded", () => {
    const file = { ...fileOf("bytelevel-digits"), pre_tokenizer: cutBy("(?:\\p{Greek}+)+#|\\p{L}+") };
    const inner = load(file);
    const tokenizer = withPatternLimits(file, refusing("x/tokenizer.json"), () => inner, { seconds: 0.3 });
    expect(tokenizer.decode(tokenizer.encode("αβγ# and abc"))).toBe("αβγ# and abc");
    expect(() => tokenizer.encode(`${"α".repeat(40)}!`)).toThrow(UserError);
    expect(() => tokenizer.encode(`${"α".repeat(40)}!`)).toThrow(
      /^x\/tokenizer\.json: the regular expression "\(\?:.*Greek/,
    );
    expect(tokenizer.decode(tokenizer.encode("abc"))).toBe("abc");
  }, 30_000);

  it("in a decoder is stopped in decoding", () => {
    const file = { ...fileOf("sentencepiece-bpe"), decoder: replaceBy("(?:b+)+c") };
    const slow = {
      ...load(fileOf("sentencepiece-bpe")),
      bytesOf: () => Buffer.from(String(/(?:b+)+c/.test("b".repeat(40)))),
    };
    const tokenizer = withPatternLimits(file, refusing("x/tokenizer.json"), () => slow, { seconds: 0.3 });
    expect(() => tokenizer.bytesOf(5)).toThrow('the regular expression "(?:b+)+c" takes more than 0.3 s');
  }, 30_000);
});

describe("a normalizer or decoder that makes much of little", () => {
  const replace = (pattern: Json, content: string) => ({ type: "Replace", pattern, content });
  const twice = replace({ String: "a" }, "a".repeat(50));
  it.each([
    ["a text by a long one", { normalizer: replace({ String: "a" }, "b".repeat(1_000_000)) }],
    ["nothing by a text", { normalizer: replace({ Regex: "x*" }, "b".repeat(64)) }],
    ["a little several times", { normalizer: { type: "Sequence", normalizers: [twice, twice] } }],
    ["in decoding", { decoder: replace({ String: "a" }, "b".repeat(1_000_000)) }],
    ["by what stands for spaces", { decoder: { type: "Metaspace", replacement: "▁".repeat(100) } }],
  ])("is refused before it does: %s", (_, part) =>
    expect(() => load({ ...fileOf("sentencepiece-bpe"), ...part })).toThrow(/times as long; 64 times is the most/),
  );

  it("is none where it keeps the length about", () => {
    const normalizer = {
      type: "Sequence",
      normalizers: [replace({ String: " " }, "▁"), replace({ Regex: " {2,}" }, "▁▁")],
    };
    expect(load({ ...fileOf("sentencepiece-bpe"), normalizer }).encode("a b").length).toBeGreaterThan(0);
    const spaces = { type: "Metaspace", replacement: "▁▁" };
    expect(() => load({ ...fileOf("sentencepiece-bpe"), pre_tokenizer: spaces })).toThrow("must have one character");
  });
});

describe("limits of time", () => {
  const ofDeepSeek =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
  const ofTekken =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
  const inner = { encode: () => new Int32Array() } as unknown as Tokenizer;
  const hasLimits = (pattern: string) =>
    withPatternLimits({ pre_tokenizer: cutBy(pattern) }, refusing(""), () => inner) !== inner;

  it.each([
    ofDeepSeek,
    ofTekken,
    "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    "[一-龥぀-ゟ゠-ヿ]+",
    "\\p{N}{1,3}",
    " ",
    "\\{|[a+*]|``",
  ])("are not for %s", (pattern) => expect(hasLimits(pattern)).toBe(false));

  it.each(["(?:a|a)b", "(a)", "a?a?a?", "a+b", "a+a+", "(?=a)", "a{1000}", "x|".repeat(1000)])(
    "are for %s",
    (pattern) => expect(hasLimits(pattern)).toBe(true),
  );

  it("cost the expressions in wide use nothing, and give what the work gives", () => {
    for (const name of ["bytelevel-digits", "sentencepiece-bpe", "unigram", "wordpiece", "whitespace"]) {
      const inner = load(fileOf(name));
      expect(withPatternLimits(fileOf(name), refusing(""), () => inner)).toBe(inner);
    }
    expect(withinSeconds(1, () => 7)).toEqual({ value: 7 });
    expect(() => withinSeconds(1, () => JSON.parse("{"))).toThrow(SyntaxError);
    expect(
      withinSeconds(0.05, () => {
        for (;;);
      }),
    ).toEqual({ seconds: 0.05 });
    expect(withinSeconds(1, () => withinSeconds(1, () => 8))).toEqual({ value: { value: 8 } });
  });
});
