import fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import { type BpeModel, bpeTokenizer } from "../../src/tokenizers/bpeTokenizer.ts";
import { trainBpe } from "../../src/tokenizers/bpeTrainer.ts";
import { bytesInAlphabetOrder, charOfByte, spellBytes, unspellBytes } from "../../src/tokenizers/byteAlphabet.ts";
import { streamDecoder, type Tokenizer, textBytes } from "../../src/tokenizers/tokenizer.ts";

const corpus = [
  "The quick brown fox jumps over the lazy dog; the dog doesn't mind. It's 1234567 o'clock!\r\n\r\n",
  "We hold these truths to be self-evident: that all men are created equal, naïve café 🦙🦙 façade.\n",
  "她说：你好，世界。 Привет, мир — это тест.\t\ttabs   and   spaces\n".repeat(3),
];

/** The definition, word for word: count everything anew before every merge. */
function trainSlowly(texts: readonly string[], vocabSize: number): { left: number; right: number }[] {
  const idOfByte = new Map(bytesInAlphabetOrder.map((byte, id) => [byte, id]));
  const pattern =
    /'(?:[sSſ]|[tTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+/gu;
  let words = texts
    .flatMap((text) => text.match(pattern) ?? [])
    .map((word) => [...Buffer.from(word)].map((byte) => idOfByte.get(byte)!));
  const merges: { left: number; right: number }[] = [];
  while (256 + merges.length < vocabSize - 1) {
    const counts = new Map<string, number>();
    for (const word of words) {
      for (let i = 0; i + 1 < word.length; i++) {
        const pair = `${word[i]} ${word[i + 1]}`;
        counts.set(pair, (counts.get(pair) ?? 0) + 1);
      }
    }
    const ranked = [...counts]
      .map(([pair, count]) => ({ left: Number(pair.split(" ")[0]), right: Number(pair.split(" ")[1]), count }))
      .sort((a, b) => b.count - a.count || a.left - b.left || a.right - b.right);
    const best = ranked[0];
    if (best === undefined || best.count < 2) break;
    const merged = 256 + merges.length;
    merges.push({ left: best.left, right: best.right });
    words = words.map((word) => {
      const out: number[] = [];
      for (let i = 0; i < word.length; i++) {
        if (word[i] === best.left && word[i + 1] === best.right) {
          out.push(merged);
          i++;
        } else out.push(word[i]!);
      }
      return out;
    });
  }
  return merges;
}

describe("the byte-level alphabet", () => {
  it("spells every byte as another printable character and back", () => {
    const bytes = Uint8Array.from({ length: 256 }, (_, i) => i);
    expect(new Set(charOfByte).size).toBe(256);
    expect(spellBytes(Uint8Array.of(0x20, 0x0a, 0x41))).toBe("ĠĊA");
    expect(unspellBytes(spellBytes(bytes))).toEqual(bytes);
    expect(unspellBytes("日")).toBeUndefined();
  });
});

describe("trainBpe", () => {
  it("learns the merges of the definition", async () => {
    const { merges } = await trainBpe(corpus, 340);
    expect(merges.length).toBeGreaterThan(60);
    expect(merges.map(({ left, right }) => ({ left, right }))).toEqual(trainSlowly(corpus, 340));
  });

  it("learns them of any text, runs of one character included", async () => {
    const text = fc.string({ unit: fc.constantFrom("a", "b", "c", " ", "é", "1", "\n"), maxLength: 200 });
    await fc.assert(
      fc.asyncProperty(text, async (piece) => {
        if (piece === "") return;
        const { merges } = await trainBpe([piece], 280);
        expect(merges.map(({ left, right }) => ({ left, right }))).toEqual(trainSlowly([piece], 280));
      }),
    );
  });

  it("stops with fewer tokens where no pair occurs twice", async () => {
    const model = await trainBpe(["ab ab"], 5000);
    expect(model.merges).toHaveLength(1);
    expect(model.tokens).toHaveLength(258);
    expect(model.eosId).toBe(257);
  });

  it("refuses vocabularies without room, and no text", async () => {
    await expect(trainBpe(["x"], 256)).rejects.toThrow(/vocab_size=256: must be an integer from 257/);
    await expect(trainBpe([], 300)).rejects.toThrow("no text");
  });
});

describe("bpeTokenizer", () => {
  let model: BpeModel;
  let tokenizer: Tokenizer;
  beforeAll(async () => {
    model = await trainBpe(corpus, 360);
    tokenizer = bpeTokenizer(model, "test");
  });

  it("gives any text back", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", maxLength: 100 }), (text) => {
        const ids = tokenizer.encode(text);
        expect(tokenizer.decode(ids)).toBe(text);
        expect(ids.every((id) => id >= 0 && id < tokenizer.vocabSize && !tokenizer.isControl(id))).toBe(true);
        const bytes = textBytes(tokenizer);
        expect(ids.reduce((sum, id) => sum + bytes[id]!, 0)).toBe(Buffer.byteLength(text));
      }),
    );
  });

  it("merges the words it was trained on as training did", () => {
    const spell = (text: string) => [...tokenizer.encode(text)].map((id) => tokenizer.decode([id]));
    expect(spell(" the dog; the dog")).toEqual([" the", " dog", ";", " the", " dog"]);
  });

  it("makes no control token of raw text, unless asked to", () => {
    const text = "a<|end_of_text|>b";
    const raw = tokenizer.encode(text);
    expect([...raw]).not.toContain(tokenizer.eosId);
    expect(tokenizer.decode(raw)).toBe(text);
    const parsed = tokenizer.encode(text, { control: true });
    expect([...parsed]).toEqual([...tokenizer.encode("a"), tokenizer.eosId, ...tokenizer.encode("b")]);
    expect(tokenizer.decode(parsed)).toBe(text);
    expect(tokenizer.decode(parsed, { skipControl: true })).toBe("ab");
  });

  it("turns a lone surrogate into U+FFFD", () => {
    expect(tokenizer.decode(tokenizer.encode("a\ud800b"))).toBe("a\ufffdb");
  });

  it("streams what decode gives, whole characters only", () => {
    const text = "naïve 🦙 世界!";
    const ids = [...tokenizer.encode(text)];
    const decoder = streamDecoder(tokenizer);
    const pieces = ids.map((id) => decoder.push(id));
    expect(pieces.join("") + decoder.end()).toBe(text);
    expect(pieces.join("")).not.toContain("\ufffd");

    const ids300 = fc.array(fc.integer({ min: 0, max: tokenizer.vocabSize - 1 }), { maxLength: 40 });
    fc.assert(
      fc.property(ids300, fc.boolean(), (random, skipControl) => {
        const stream = streamDecoder(tokenizer, { skipControl });
        const streamed = random.map((id) => stream.push(id)).join("") + stream.end();
        expect(streamed).toBe(tokenizer.decode(random, { skipControl }));
      }),
    );
  });

  it("takes a million equal characters in its stride", () => {
    const text = "a".repeat(1_000_000);
    const start = performance.now();
    expect(tokenizer.decode(tokenizer.encode(text))).toBe(text);
    expect(performance.now() - start).toBeLessThan(10_000);
  });

  it("encodes English at 2 MB/s and more", () => {
    const text = corpus[0]!.replaceAll("\r\n", " ").repeat(30_000); // 2.7 MB
    tokenizer.encode(text.slice(0, 1000));
    const start = performance.now();
    tokenizer.encode(text);
    expect(text.length / 1e6 / ((performance.now() - start) / 1000)).toBeGreaterThan(2);
  });

  it("has a hash of its content, not of its name", async () => {
    expect(bpeTokenizer(await trainBpe(corpus, 360), "elsewhere").hash).toBe(tokenizer.hash);
    expect(bpeTokenizer(await trainBpe(corpus, 300), "test").hash).not.toBe(tokenizer.hash);
    expect(bpeTokenizer({ ...model, ignoreMerges: true }, "test").hash).not.toBe(tokenizer.hash);
  });
});
