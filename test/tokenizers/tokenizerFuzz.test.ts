/** Files that were damaged, or made to do harm: a typed error or a tokenizer, soon, and nothing else. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { UserError } from "../../src/base/errors.ts";
import { compileChatTemplate, loadTokenizer, renderChat } from "../../src/tokenizers/index.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { goldenJson, goldenPath } from "../golden.ts";

describe("a tokenizer.json that was damaged", () => {
  /** The paths of every value in it. */
  const placesIn = (value: unknown, path: readonly string[] = []): (readonly string[])[] =>
    typeof value !== "object" || value === null
      ? [path]
      : [path, ...Object.entries(value).flatMap(([key, inner]) => placesIn(inner, [...path, key]))];
  const others = [null, -1, 1e12, 0.5, "", "x", "[", [], {}, true, [["a", 1]], { type: "Sequence" }, "\ud800"];

  it.each([
    goldenPath("16_chat/tokenizer.json"),
    ...["sentencepiece-bpe", "metaspace-first", "unigram", "wordpiece", "splits"].map((kind) =>
      fileURLToPath(new URL(`files/${kind}.json`, import.meta.url)),
    ),
  ])("ends in a typed error or a tokenizer that encodes: %s", (path) => {
    const read = JSON.parse(readFileSync(path, "utf8"));
    const file = read.tokenizer ?? read;
    const { model, ...rest } = file;
    const { vocab, merges, ...rules } = model;
    // Places of structure, and some of the vocabulary's and the merges'.
    const places = [
      ...placesIn({ ...rest, model: rules }),
      ...[
        ["model", "vocab"],
        ["model", "merges"],
        ["model", "merges", "3"],
      ],
      ...Object.keys(vocab)
        .slice(0, 20)
        .map((key) => ["model", "vocab", key]),
    ];
    const folder = temporaryFolder({ "tokenizer_config.json": JSON.stringify({ eos_token: "<|end|>" }) });
    const target = join(folder, "tokenizer.json");
    fc.assert(
      fc.property(fc.constantFrom(...places), fc.constantFrom(undefined, ...others), (place, value) => {
        const damaged = structuredClone(file);
        let at = damaged;
        for (const key of place.slice(0, -1)) at = at?.[key];
        if (place.length === 0 || at === undefined) return;
        if (value === undefined) delete at[place.at(-1)!];
        else at[place.at(-1)!] = value;
        writeFileSync(target, JSON.stringify(damaged));
        try {
          const tokenizer = loadTokenizer(target);
          tokenizer.decode(tokenizer.encode("the sea, 12 naïve 🦙\n", { control: true, framed: true }));
        } catch (error) {
          if (!(error instanceof UserError))
            throw new Error(`${place.join(".")} = ${JSON.stringify(value)}`, { cause: error });
        }
      }),
      { numRuns: 300 },
    );
  });
});

describe("a chat template that was damaged", () => {
  const templates = Object.entries(goldenJson<{ templates: Record<string, string> }>("16_chat/golden").templates);
  it.each(templates)("ends in a typed error or a text: %s", (_, source) => {
    const place = fc.nat(source.length);
    const pieces = fc.constantFrom(
      "",
      "{{",
      "}}",
      "{%",
      "%}",
      "'",
      "(",
      "|",
      ".",
      "-",
      "messages",
      "[",
      "none",
      "{% generation %}",
    );
    fc.assert(
      fc.property(place, fc.nat(12), pieces, (at, removed, put) => {
        try {
          const damaged = compileChatTemplate(source.slice(0, at) + put + source.slice(at + removed), {
            bos_token: "<s>",
          });
          expect(typeof renderChat(damaged, [{ role: "user", content: "hi" }])).toBe("string");
        } catch (error) {
          if (!(error instanceof UserError)) throw error;
        }
      }),
      { numRuns: 200 },
    );
  });
});
