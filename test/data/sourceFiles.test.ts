import { symlinkSync } from "node:fs";
import { basename, join } from "node:path";
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { nameMatcher } from "../../src/data/glob.ts";
import { readTextParts } from "../../src/data/readText.ts";
import { listSourceFiles } from "../../src/data/sourceFiles.ts";
import { temporaryFolder } from "./temporaryFiles.ts";

const names = (path: string) => listSourceFiles(path).map(({ key }) => key);

describe("listSourceFiles", () => {
  const tree = () =>
    temporaryFolder({
      "b.txt": "b",
      "a.txt": "a",
      "empty.txt": "",
      "notes.MD": "m",
      "table.csv": "1,2",
      ".hidden.txt": "h",
      "deep/c.txt": "c",
      "deep/er/d.md": "d",
    });

  it("takes the .txt and .md files of a folder, sorted, without empty and hidden ones", () => {
    const expected = ["a.txt", "b.txt", "deep/c.txt", "deep/er/d.md", "notes.MD"];
    const folder = tree();
    expect(names(folder)).toEqual(expected);
    // Keys decide what is held out: they do not depend on how the folder is spelled.
    expect(names(`${folder}/./`)).toEqual(expected);
    expect(names(`${folder}/deep/../../${basename(folder)}`)).toEqual(expected);
  });

  it("takes a single file of any ending", () => {
    const folder = temporaryFolder({ corpus: "text" });
    expect(listSourceFiles(join(folder, "corpus"))).toEqual([
      { path: join(folder, "corpus"), bytes: 4, key: "corpus", form: "text" },
    ]);
  });

  it("expands patterns", () => {
    const folder = tree();
    expect(names(`${folder}/*.txt`)).toEqual(["a.txt", "b.txt"]);
    expect(names(`${folder}/**/*.{txt,md}`)).toEqual(["a.txt", "b.txt", "deep/c.txt", "deep/er/d.md"]);
    expect(names(`${folder}/deep/**`)).toEqual(["c.txt", "er/d.md"]);
    expect(names(`${folder}/?.txt`)).toEqual(["a.txt", "b.txt"]);
  });

  it("expands alternatives, also of folders and in each other; other braces and commas are themselves", () => {
    const folder = temporaryFolder({
      "b1.txt": "1",
      "sub/s1.txt": "2",
      "sub/s2.md": "3",
      "{x,y.txt": "4",
      "a,b-1.txt": "5",
    });
    expect(names(`${folder}/{b1,sub/s1}.txt`)).toEqual(["b1.txt", "sub/s1.txt"]);
    expect(names(`${folder}/{b1.txt,sub/{s1.txt,s2.md},b1.txt,none}`)).toEqual(["b1.txt", "sub/s1.txt", "sub/s2.md"]);
    expect(names(`${folder}/{x,y.*`)).toEqual(["{x,y.txt"]);
    expect(names(`${folder}/a,b-*`)).toEqual(["a,b-1.txt"]);
    expect(() => names(`${folder}/{b1.txt`)).toThrow("no file matches this pattern");
  });

  it("refuses braces that stand for too many patterns, at once, and takes many", () => {
    const folder = tree();
    expect(names(`${folder}/${"{a,b,}".repeat(8)}.txt`)).toEqual(["a.txt", "b.txt"]);
    for (const pattern of [`${folder}/${"{a,b}".repeat(40)}`, `${folder}/{${"a,".repeat(10_000)}b}.txt`]) {
      expect(() => names(pattern)).toThrow(/^the braces of .* stand for more than 10,000 patterns: use \*/);
    }
  });

  it("matches in a time that does not grow with the ways to match, passes over broken links and goes into no circle", () => {
    const deep = Array.from({ length: 18 }, (_, i) => `d${i}`).join("/");
    const folder = temporaryFolder({ "a.txt": "a", [`${deep}/b.txt`]: "b" });
    symlinkSync(join(folder, "none"), join(folder, "gone.txt"));
    symlinkSync(join(folder, "itself.txt"), join(folder, "itself.txt"));
    expect(names(folder)).toEqual(["a.txt", `${deep}/b.txt`]);
    expect(() => names(join(folder, "itself.txt"))).toThrow("no such file or folder");
    expect(() => names(join(folder, "a".repeat(300)))).toThrow("no such file or folder");
    expect(names(`${folder}/${"**/*/".repeat(9)}*.txt`)).toEqual([`${deep}/b.txt`]);
    for (const name of ["one", "two"]) symlinkSync(folder, join(folder, deep, name));
    expect(names(`${folder}/${"**/".repeat(12)}*.txt`)).toEqual(["a.txt", `${deep}/b.txt`]);
  });

  it.each([
    ["nowhere", "no such file or folder"],
    ["none-*.txt", "no file matches"],
    ["table.csv", "a format that is not read"],
    ["empty.txt", "every file is empty"],
    ["void", "has no .txt, .md, .jsonl or .parquet file"],
  ])("refuses %s", (name, message) => {
    const folder = temporaryFolder({ "table.csv": "1", "empty.txt": "", "void/x.bin": "1" });
    expect(() => listSourceFiles(join(folder, name))).toThrow(message);
    expect(() => listSourceFiles(join(folder, name), { setting: "eval_dataset_path" })).toThrow(/^eval_dataset_path=/);
  });

  it("matches names literally but for the signs of a pattern", () => {
    const matches = nameMatcher("a.b(1)[x]+*.txt");
    expect(matches("a.b(1)[x]+ yes.txt")).toBe(true);
    expect(matches("aXb(1)[x]+.txt")).toBe(false);
    expect(nameMatcher("*")(".hidden")).toBe(false);
    expect(nameMatcher(".*")(".hidden")).toBe(true);
  });
});

async function read(content: string | Uint8Array, chunkBytes?: number) {
  const path = join(temporaryFolder({ "x.txt": content }), "x.txt");
  const parts = [];
  for await (const part of readTextParts([{ path }], chunkBytes === undefined ? {} : { chunkBytes })) parts.push(part);
  return parts;
}

describe("readTextParts", () => {
  it("gives the text in parts that join to it, cut only between words", async () => {
    const text = "Café au lait, naïve 🦙 and so on; ".repeat(300);
    const parts = await read(text, 97);
    expect(parts.length).toBeGreaterThan(10);
    expect(parts.map((part) => part.text).join("")).toBe(text);
    for (const part of parts.slice(1)) expect(part.text).toMatch(/^ [a-zA-Z]/);
    expect(parts.map((part) => part.last)).toEqual(parts.map((_, i) => i === parts.length - 1));
  });

  it("drops a byte order mark and nothing else", async () => {
    const bytes = Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), Buffer.from("one\ntwo \ufeff three")]);
    expect((await read(bytes)).map((part) => part.text)).toEqual(["one\ntwo \ufeff three"]);
    expect((await read(bytes, 1)).map((part) => part.text).join("")).toBe("one\ntwo \ufeff three");
  });

  it("yields nothing for a file of a byte order mark alone", async () => {
    expect(await read(Uint8Array.of(0xef, 0xbb, 0xbf))).toEqual([]);
  });

  it("refuses what is not UTF-8, and says how to convert it", async () => {
    await expect(read(Uint8Array.of(0x61, 0xe9, 0x62))).rejects.toThrow(
      /x\.txt: not UTF-8 text: byte 1 \(line 1\) begins no character \(e9 62\); .*WINDOWS-1252/,
    );
    await expect(read(Buffer.from("\ufeffhello", "utf16le"))).rejects.toThrow("looks like UTF-16");
    await expect(read(Uint8Array.of(0x61, 0xf0, 0x9f))).rejects.toThrow("not UTF-8 text: byte 1 (line 1)");
  });

  it("names the first byte that is not UTF-8, and its line, however the file is cut into chunks", async () => {
    const text = Buffer.from("\ufeffCafé 🦙\n\ufffd is a character\r\nnaïve ".repeat(20));
    const bad = [
      Buffer.from([0xe9]),
      Buffer.from("🦙").subarray(0, 3),
      Buffer.from([0xed, 0xa0, 0x80]),
      Buffer.of(0x80),
    ];
    const last = Buffer.from(" and\nmore");
    for (const wrong of bad) {
      for (const end of [last, Buffer.alloc(0)]) {
        const content = Buffer.concat([text, wrong, end]);
        for (const size of [1, 2, 3, 5, text.length, text.length + 1, text.length + 2, undefined]) {
          await expect(read(content, size), `${wrong.toString("hex")} in chunks of ${size}`).rejects.toThrow(
            `x.txt: not UTF-8 text: byte ${text.length} (line 41) begins no character (${[...wrong, ...end]
              .slice(0, 4)
              .map((byte) => byte.toString(16).padStart(2, "0"))
              .join(" ")
              .slice(0, size === undefined ? 11 : 2)}`,
          );
        }
      }
    }
    const path = join(temporaryFolder({ "x.txt.gz": gzipSync(Buffer.concat([text, bad[0]!, last])) }), "x.txt.gz");
    await expect(readTextParts([{ path }]).next()).rejects.toThrow(`byte ${text.length} of what is packed (line 41)`);
  });

  it("refuses a file that is gone", async () => {
    const parts = readTextParts([{ path: join(temporaryFolder(), "gone.txt") }]);
    await expect(parts.next()).rejects.toThrow(/gone\.txt: can't be read/);
  });
});
