/** Text files give the tokens of their whole text, whether or not the tokenizer cuts it at spaces. */
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { readDocuments } from "../../src/data/documentParts.ts";
import { spellBytes } from "../../src/tokenizers/byteAlphabet.ts";
import { loadTokenizer } from "../../src/tokenizers/index.ts";
import { defaultSplitPattern } from "../../src/tokenizers/splitPattern.ts";
import { openText, ownCache } from "../data/openText.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";

const bytes = Array.from({ length: 256 }, (_, byte) => spellBytes(Uint8Array.of(byte)));
const rules = { single_word: false, lstrip: false, rstrip: false, normalized: false };
const end = { ...rules, id: 256, content: "<|endoftext|>", special: true };
const levelled = { type: "ByteLevel", add_prefix_space: false, use_regex: false };
const isolated = { type: "Split", pattern: { Regex: defaultSplitPattern }, behavior: "Isolated" };

/** Tokenizers that know "e w" in one, if they ever see it. */
function folderOf(pre_tokenizer: unknown, options: { plain?: boolean; added?: readonly object[] } = {}): string {
  const space = options.plain ? " " : "Ġ";
  const all = [
    ...(options.plain ? bytes.slice(0, 256).map((_, i) => String.fromCharCode(i + 0x2000)) : bytes),
    "<|endoftext|>",
  ];
  const more = options.plain ? [..."abcdefghijklmnopqrstuvwxyz ", "e ", "e w"] : ["eĠ", "eĠw"];
  const vocab = Object.fromEntries([...all, ...more].map((token, id) => [token, id]));
  const model = {
    type: "BPE",
    vocab,
    merges: [`e ${space}`, `e${space} w`].map((merge, i) => (i === 0 ? ["e", space] : merge.split(/ (?=w)/))),
  };
  return temporaryFolder({
    "tokenizer.json": JSON.stringify({ added_tokens: [end, ...(options.added ?? [])], pre_tokenizer, model }),
    "tokenizer_config.json": JSON.stringify({ eos_token: "<|endoftext|>" }),
  });
}

const twoWords = { ...rules, id: 400, content: "one word", special: false };
const kinds: [string, boolean, () => string][] = [
  ["byte-level, with cuts", true, () => folderOf({ type: "Sequence", pretokenizers: [isolated, levelled] })],
  ["byte-level, without cuts", false, () => folderOf(levelled)],
  [
    "byte-level, cut at digits alone",
    false,
    () => folderOf({ type: "Sequence", pretokenizers: [{ type: "Digits" }, levelled] }),
  ],
  ["without a pre-tokenizer", false, () => folderOf(null, { plain: true })],
  ["cut at white space", true, () => folderOf({ type: "WhitespaceSplit" }, { plain: true })],
  [
    "cut at white space, with an added token of two words",
    false,
    () => folderOf({ type: "WhitespaceSplit" }, { plain: true, added: [twoWords] }),
  ],
];

describe("a tokenizer", () => {
  it.each(kinds)(
    "%s: says whether it cuts at spaces, and a long file has the tokens of its text",
    async (_, cuts, make) => {
      const folder = make();
      ownCache();
      const tokenizer = loadTokenizer(folder);
      expect(tokenizer.cutsAtSpaces).toBe(cuts);
      // At every place that reading could cut at stands "e w", or the two words.
      const text = "one word".padEnd(9, " ").repeat(60_000);
      const data = await openText(
        { datasetPath: join(temporaryFolder({ "a.txt": text }), "a.txt"), tokenizerPath: folder },
        { vocabSize: tokenizer.vocabSize },
      );
      expect(data.size!.train.tokens).toBe(tokenizer.encode(text).length + 1);
    },
  );

  it("cuts at spaces where each token is a byte", () => {
    expect(loadTokenizer("byte").cutsAtSpaces).toBe(true);
  });

  it("that does not is given no text that is too long to be encoded whole", async () => {
    const path = join(temporaryFolder({ "a.txt": "ab ".repeat(6_000_000) }), "a.txt");
    const file = { path, bytes: 18e6, key: "a.txt", form: "text" as const };
    const read = readDocuments([file], { kind: "text", columns: [], wholeTexts: true });
    await expect(read.next()).rejects.toThrow(/a\.txt: longer than 16,777,216 characters/);
  });
});
