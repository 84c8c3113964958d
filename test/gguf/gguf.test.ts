/** GGUF files: the Python package's values to the bit, and files that lie in every count, length and offset. */
import { mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { UserError } from "../../src/base/errors.ts";
import { openSafetensors } from "../../src/checkpoint/safetensors.ts";
import { decodeArray } from "../../src/core/codecs.ts";
import { MoreBytes, openGguf, parseGgufHeader } from "../../src/gguf/index.ts";
import { ggufBytes, writeGguf } from "./writeGguf.ts";

const scratch = mkdtempSync(join(tmpdir(), "halfbyte-gguf-"));
afterAll(() => rmSync(scratch, { recursive: true }));
const goldenFile = fileURLToPath(new URL("./golden.gguf", import.meta.url));
const golden = readFileSync(goldenFile);

const scratchFile = join(scratch, "file.gguf");
const refusal = async (bytes: Uint8Array): Promise<string> => {
  writeFileSync(scratchFile, bytes);
  const error = await openGguf(scratchFile).catch((error: unknown) => error);
  expect(error).toBeInstanceOf(UserError);
  expect((error as UserError).code).toBe("E_GGUF");
  return (error as UserError).message.replace(`${scratchFile}: `, "");
};

const f32 = (...values: number[]) => new Uint8Array(Float32Array.from(values).buffer);
const vector = { shape: [4], type: 0, bytes: f32(1, 2, 3, 4) };

describe("openGguf", () => {
  it("reads metadata of every type", async () => {
    const file = await openGguf(goldenFile);
    await file.close();
    const { "general.architecture": architecture, ...values } = Object.fromEntries(file.metadata);
    expect([architecture, file.version]).toEqual(["llama", 3]);
    expect(values).toEqual({
      "test.u8": 200,
      "test.i8": -100,
      "test.u16": 60000,
      "test.i16": -30000,
      "test.u32": 4000000000,
      "test.i32": -2000000000,
      "test.f32": Math.fround(1e-5),
      "test.f64": 0.1,
      "test.u64": 2n ** 63n,
      "test.i64": -(2n ** 53n),
      "test.bool": true,
      "test.text": "naïve 🦙\n",
      "test.words": ["a", "", "ß"],
      "test.counts": Int32Array.of(1, -2, 3),
      "test.scores": Float32Array.of(0.5, -1.5),
      "test.flags": Uint8Array.of(1, 0),
      "test.nested": [Int32Array.of(1, 2), Int32Array.of(3)],
    });
  });

  it("decodes every type that it reads to the package's bits, whole and in parts", async () => {
    const [file, wanted] = [
      await openGguf(goldenFile),
      await openSafetensors(goldenFile.replace(".gguf", ".safetensors")),
    ];
    expect([...file.tensors.keys()].sort()).toEqual([...wanted.tensors.keys()].sort());
    const types = [...file.tensors.values()].map(({ type }) => type.name);
    expect(types).toEqual([
      "F32",
      "F16",
      "BF16",
      "Q8_0",
      "Q4_0",
      "Q4_1",
      "Q4_K",
      "Q6_K",
      "Q5_0",
      "Q5_1",
      "Q2_K",
      "Q3_K",
      "Q5_K",
    ]);
    for (const name of wanted.tensors.keys()) {
      const { shape, data } = await wanted.read(name);
      const found = await file.read(name);
      expect(found.shape).toEqual(shape);
      expect([...decodeArray(found.dtype, found.data)], name).toEqual([...(data as Float32Array)]);
      const part = await file.readPart(name, 256, 512);
      expect([...part.data]).toEqual([...found.data].slice(256, 768));
    }
    await expect(file.readPart("q4_k", 32, 256)).rejects.toThrow("no blocks of Q4_K");
    await expect(file.read("q4_00")).rejects.toThrow('no tensor "q4_00" among 13. Did you mean "q4_0"?');
    await Promise.all([file.close(), wanted.close()]);
  });

  it("reads heads of many megabytes, and version 2", async () => {
    const words = Array.from({ length: 120_000 }, (_, i) => `token ${i}`.padEnd(16, "·"));
    const path = writeGguf(scratchFile, { version: 2, alignment: 64, metadata: { words }, tensors: { vector } });
    const file = await openGguf(path);
    expect(file.metadata.get("words")).toEqual(words);
    expect((await file.read("vector")).data).toEqual(Float32Array.of(1, 2, 3, 4));
    expect(file.tensors.get("vector")!.begin % 64).toBe(0);
    await file.close();
  });

  it("refuses what is no GGUF file, and what it does not read, by name", async () => {
    await expect(openGguf(join(scratch, "nothing.gguf"))).rejects.toThrow("nothing.gguf: no such file");
    await expect(openGguf(scratch)).rejects.toThrow(/it is no file|cannot be opened/);
    expect(await refusal(Buffer.from("PK\u0003\u0004 an archive"))).toBe(
      'it does not begin with "GGUF": this is no GGUF file',
    );
    expect(await refusal(Buffer.of())).toMatch("the magic needs 4 bytes at byte 0, where 0 are left");
    const version = (bytes: number[]) =>
      refusal(Buffer.concat([Buffer.from("GGUF"), Buffer.from(bytes), Buffer.alloc(16)]));
    expect(await version([1, 0, 0, 0])).toBe("it has version 1 of the format; versions 2 and 3 are read");
    expect(await version([0, 0, 0, 3])).toMatch("big-endian");
    for (const [type, name] of [
      [15, "Q8_K"],
      [20, "IQ4_NL"],
      [34, "TQ1_0"],
    ] as const) {
      const other = ggufBytes({ metadata: {}, tensors: { a: { shape: [256], type, bytes: new Uint8Array(400) } } });
      expect(await refusal(other)).toMatch(
        new RegExp(`^tensor "a" is of the type ${name}; F32, F16, .* are read; take a file of another type, such as `),
      );
    }
    const unknown = ggufBytes({ metadata: {}, tensors: { a: { ...vector, type: 200 } } });
    expect(await refusal(unknown)).toMatch('tensor "a" is of the type number 200');
    const ragged = ggufBytes({ metadata: {}, tensors: { a: { shape: [2, 48], type: 8, bytes: new Uint8Array(102) } } });
    expect(await refusal(ragged)).toMatch(`tensor "a" has rows of 48 values, which Q8_0's blocks of 32 don't divide`);
    const aligned = ggufBytes({ metadata: { "general.alignment": 24 }, tensors: {} });
    expect(await refusal(aligned)).toBe("general.alignment is 24; it must be a power of two");
  });

  it("believes no count, length or offset", async () => {
    const bytes = ggufBytes({
      metadata: { word: "text", list: [1, 2], words: ["a", "b"] },
      tensors: { left: vector, right: vector },
    });
    const changed = (at: number, value: bigint) => {
      const copy = Buffer.from(bytes);
      copy.writeBigUInt64LE(value, at);
      return copy;
    };
    const find = (text: string) => bytes.indexOf(text);
    const huge = 2n ** 60n;
    expect(await refusal(changed(8, huge))).toMatch(
      /the number of tensors is 1152921504606846976, and the file has room for/,
    );
    expect(await refusal(changed(16, huge))).toMatch(/the number of metadata pairs is/);
    expect(await refusal(changed(24, huge))).toMatch(/the length of key 0 of the metadata is/);
    expect(await refusal(changed(find("word") + 8, huge))).toMatch(/the length of "word" is/);
    expect(await refusal(changed(find("list") + 12, huge))).toMatch(/the size of "list" is/);
    expect(await refusal(changed(find("words") + 13, huge))).toMatch(/the size of "words" is/);
    const place = find("right") + 5;
    expect(await refusal(changed(place + 4, huge))).toMatch(/"right" has the dims 1152921504606846976, which no file/);
    expect(await refusal(changed(place + 4, 1n << 40n))).toMatch(/"right" ends at byte .*: it is cut off/);
    expect(await refusal(changed(place + 16, 16n))).toBe('tensor "right" begins at 16, no multiple of 32');
    expect(await refusal(changed(place + 16, 0n))).toBe('tensor "right" shares bytes with "left"');
    expect(await refusal(changed(place + 16, 1n << 62n))).toMatch(/cut off/);
    const twice = Buffer.from(bytes.toString("latin1").replace("word", "list"), "latin1");
    expect(await refusal(twice)).toBe('the key "list" is there twice');
    expect(await refusal(bytes.subarray(0, bytes.length - 33))).toMatch(/cut off/);
  });

  it("refuses a hostile file of a terabyte without reading it", async () => {
    writeFileSync(scratchFile, Buffer.concat([Buffer.from("GGUF"), Buffer.of(3, 0, 0, 0), Buffer.alloc(16, 0)]));
    const handle = readFileSync(scratchFile);
    handle.writeBigUInt64LE(2n ** 34n, 8);
    writeFileSync(scratchFile, handle);
    truncateSync(scratchFile, 2 ** 40);
    await expect(openGguf(scratchFile)).rejects.toThrow(/17179869184 tensors .*; at most 1048576 of each are read/);
    const string = Buffer.concat([handle.subarray(0, 8), Buffer.alloc(24)]);
    string.writeBigUInt64LE(1n, 16);
    string.writeBigUInt64LE(2n ** 39n, 24);
    writeFileSync(scratchFile, string);
    truncateSync(scratchFile, 2 ** 40);
    await expect(openGguf(scratchFile)).rejects.toThrow(/its head takes more than 268435456 bytes/);
  });

  it("ends in a typed error or a right read, whatever bytes are changed", () => {
    const head = golden.subarray(0, 2048);
    const change = fc.tuple(fc.nat({ max: 1600 }), fc.nat({ max: 255 }));
    fc.assert(
      fc.property(fc.array(change, { minLength: 1, maxLength: 6 }), fc.nat({ max: 2048 }), (changes, length) => {
        const bytes = Buffer.from(head.subarray(0, 2048 - (length % 7 === 0 ? length : 0)));
        for (const [at, value] of changes) if (at < bytes.length) bytes[at] = value;
        try {
          const { tensors } = parseGgufHeader(bytes, golden.length);
          for (const { begin, bytes } of tensors.values()) expect(begin + bytes).toBeLessThanOrEqual(golden.length);
        } catch (error) {
          if (!(error instanceof MoreBytes)) expect(error).toBeInstanceOf(UserError);
        }
      }),
      { numRuns: 2000 },
    );
  });
});
