import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { UserError } from "../../src/base/errors.ts";
import { openSafetensors, writeSafetensors } from "../../src/checkpoint/safetensors.ts";
import { dtypeInfo, dtypes } from "../../src/core/dtype.ts";
import { type HostArray, hostArray, sizeOf } from "../../src/core/hostArray.ts";
import { goldenPath } from "../golden.ts";

const folder = mkdtempSync(join(tmpdir(), "halfbyte-safetensors-"));
afterAll(() => rmSync(folder, { recursive: true }));

let files = 0;
const freshPath = () => join(folder, `${files++}.safetensors`);

function lengthPrefix(length: bigint): Buffer {
  const prefix = Buffer.alloc(8);
  prefix.writeBigUInt64LE(length);
  return prefix;
}

/** A file with this header text (and this claimed length) and `dataBytes` bytes of data. */
function rawFile(header: string | Uint8Array, dataBytes = 0, claimedLength?: bigint): string {
  const json = Buffer.from(header as string);
  const path = freshPath();
  const prefix = lengthPrefix(claimedLength ?? BigInt(json.length));
  writeFileSync(path, Buffer.concat([prefix, json, Buffer.alloc(dataBytes, 1)]));
  return path;
}

const entry = (dtype: unknown, shape: unknown, offsets: unknown) => ({ dtype, shape, data_offsets: offsets });

async function openError(path: string): Promise<string> {
  const error = await openSafetensors(path).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(UserError);
  expect((error as UserError).code).toBe("E_SAFETENSORS");
  return (error as UserError).message.replace(path, "FILE");
}

async function roundTrip(arrays: Map<string, HostArray>, metadata: Record<string, string>) {
  const path = freshPath();
  await writeSafetensors(path, arrays, metadata);
  const file = await openSafetensors(path);
  const read = new Map<string, HostArray>();
  for (const name of file.tensors.keys()) read.set(name, await file.read(name));
  await file.close();
  return { path, metadata: file.metadata, read };
}

const storable = dtypes.filter((dtype) => dtypeInfo(dtype).safetensors !== undefined);
const anyArray = fc
  .record({
    dtype: fc.constantFrom(...storable),
    shape: fc.array(fc.nat({ max: 4 }), { maxLength: 3 }),
    seed: fc.nat({ max: 255 }),
  })
  .map(({ dtype, shape, seed }) => {
    const data = new (dtypeInfo(dtype).array)(sizeOf(shape));
    new Uint8Array(data.buffer).forEach((_, i, bytes) => {
      bytes[i] = (seed + i * 37) % 251; // any bit pattern is a value, NaN included
    });
    return hostArray(shape, dtype, data);
  });

const bytesOf = ({ data }: HostArray) => Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("hex");

describe("writing and reading", () => {
  it("returns every dtype, shape and bit that was written, and the metadata", async () => {
    const names = fc.oneof(fc.string(), fc.constantFrom("__proto__", "constructor", "0", 'a"b\\', "é\u0000{}"));
    const contents = fc.uniqueArray(fc.tuple(names, anyArray), { selector: ([name]) => name, maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(contents, fc.dictionary(fc.string(), fc.string()), async (arrays, metadata) => {
        const written = new Map(arrays.filter(([name]) => name !== "__metadata__"));
        const { read, metadata: readMetadata, path } = await roundTrip(written, metadata);
        expect(Object.entries(readMetadata).sort()).toEqual(Object.entries(metadata).sort());
        expect([...read.keys()].sort()).toEqual([...written.keys()].sort());
        for (const [name, array] of written) {
          expect(read.get(name)).toMatchObject({ dtype: array.dtype, shape: array.shape });
          expect(bytesOf(read.get(name)!)).toBe(bytesOf(array));
        }
        expect(readFileSync(path).readBigUInt64LE(0) % 8n).toBe(0n);
      }),
      { numRuns: 60 },
    );
  });

  it("writes the same file for the same contents in another order, aligned, with its size and hash", async () => {
    const a = hostArray([3], "uint8", Uint8Array.of(1, 2, 3));
    const b = hostArray([2], "float32", Float32Array.of(1, 2));
    const [first, second] = [freshPath(), freshPath()];
    const sums = await writeSafetensors(first, [["a", a] as const, ["b", b] as const]);
    await writeSafetensors(second, new Map([["b", b] as const, ["a", a] as const]));
    const content = readFileSync(first);
    expect(readFileSync(second).equals(content)).toBe(true);
    expect(sums).toEqual({ bytes: content.length, sha256: createHash("sha256").update(content).digest("hex") });
    expect(content.subarray(-11)).toEqual(Buffer.from([0, 0, 128, 63, 0, 0, 0, 64, 1, 2, 3]));
  });

  it("loads lazy arrays one at a time, in file order", async () => {
    const log: string[] = [];
    const lazy = (name: string, dtype: "uint8" | "float32") => {
      const load = async () => {
        log.push(name);
        return hostArray([1], dtype, new (dtypeInfo(dtype).array)(1));
      };
      return [name, { shape: [1], dtype, load }] as const;
    };
    await writeSafetensors(freshPath(), [lazy("narrow", "uint8"), lazy("wide", "float32")]);
    expect(log).toEqual(["wide", "narrow"]);
  });

  it("writes a view of a larger buffer as the view", async () => {
    const array = hostArray([2], "int16", Int16Array.of(7, 8, 9, 10).subarray(1, 3));
    const { read } = await roundTrip(new Map([["x", array]]), {});
    expect(read.get("x")!.data).toEqual(Int16Array.of(8, 9));
  });

  it("leaves nothing behind where writing fails, and keeps the file that was there", async () => {
    const path = freshPath();
    const good = hostArray([1], "float32", Float32Array.of(3));
    await writeSafetensors(path, [["x", good]]);
    const load = async () => Promise.reject(new Error("the device is gone"));
    await expect(writeSafetensors(path, [["x", { shape: [1], dtype: "float32", load }]])).rejects.toThrow(/is gone/);
    const liar = { shape: [2], dtype: "float32", load: async () => good } as const;
    await expect(writeSafetensors(path, [["x", liar]])).rejects.toThrow(/announced as float32\[2\].* float32\[1\]/);
    const file = await openSafetensors(path);
    expect((await file.read("x")).data).toEqual(Float32Array.of(3));
    await file.close();
    expect(readdirSync(folder).filter((name) => name.endsWith(".partial"))).toEqual([]);
  });

  it("refuses repeated and reserved names and dtypes without a name in the format", async () => {
    const x = hostArray([1], "uint8", Uint8Array.of(1));
    const f4 = hostArray([1], "float4_e2m1fn", Uint8Array.of(1));
    const path = freshPath();
    await expect(writeSafetensors(path, [["x", x] as const, ["x", x] as const])).rejects.toThrow(/given twice/);
    await expect(writeSafetensors(path, [["__metadata__", x]])).rejects.toThrow(/reserved/);
    await expect(writeSafetensors(path, [["x", f4]])).rejects.toThrow(/no float4_e2m1fn; pack it/);
  });

  it("reads a file that another library wrote", async () => {
    const file = await openSafetensors(goldenPath("06_models/llama_a_untied_llama3rope/model.safetensors"));
    expect(file.metadata).toEqual({ format: "pt" });
    expect(file.tensors.get("model.layers.0.mlp.up_proj.weight")).toMatchObject({
      dtype: "bfloat16",
      shape: [160, 64],
    });
    await expect(file.read("model.layers.0.mlp.up_proj.weigth")).rejects.toThrow(
      /Did you mean "model.layers.0.mlp.up_proj.weight"/,
    );
    await file.close();
  });

  it("reads a tensor beyond 4 GiB of a (sparse) file", async () => {
    const path = freshPath();
    const far = 5 * 2 ** 30;
    const header = JSON.stringify({ hole: entry("U8", [far], [0, far]), far: entry("U16", [2], [far, far + 4]) });
    writeFileSync(path, Buffer.concat([lengthPrefix(BigInt(header.length)), Buffer.from(header)]));
    truncateSync(path, 8 + header.length + far);
    const handle = await open(path, "a");
    await handle.write(Uint8Array.of(1, 0, 2, 0));
    await handle.close();
    const file = await openSafetensors(path);
    expect((await file.read("far")).data).toEqual(Uint16Array.of(1, 2));
    await file.close();
  });
});

describe("hostile files", () => {
  const one = entry("F32", [1], [0, 4]);

  it("refuses what is missing or no safetensors file", async () => {
    expect(await openError(join(folder, "nothing"))).toBe("FILE: no such file");
    const empty = freshPath();
    writeFileSync(empty, "1234567");
    expect(await openError(empty)).toBe("FILE: 7 bytes are too few for a safetensors file");
    expect(await openError(rawFile("hello"))).toMatch(/no JSON/);
    expect(await openError(rawFile(Uint8Array.of(0x7b, 0xff, 0x7d)))).toMatch(/no JSON/);
    expect(await openError(rawFile("[1]"))).toMatch(/no JSON object/);
    expect(await openError(rawFile("null"))).toMatch(/no JSON object/);
  });

  it("refuses header lengths beyond the file or all reason, without reserving memory for them", async () => {
    expect(await openError(rawFile("{}", 0, 2n ** 60n))).toMatch(/a header of 1152921504606847000 bytes; at most/);
    expect(await openError(rawFile("{}", 0, 2n ** 64n - 1n))).toMatch(/at most 100000000 are read/);
    expect(await openError(rawFile("{}", 0, 3n))).toBe(
      "FILE: a header of 3 bytes in a file of 10: it is cut off or no safetensors",
    );
  });

  it.each<[string, Record<string, unknown>, number, RegExp]>([
    ["truncated data", { a: one }, 3, /need 4 bytes, the file has 3: it is cut off/],
    ["trailing data", { a: one }, 5, /1 bytes at the end of the file belong to no tensor/],
    ["overlap", { a: one, b: entry("F32", [1], [2, 6]) }, 6, /"b" overlaps/],
    ["the same place twice", { a: one, b: one }, 4, /overlaps/],
    ["a gap", { a: one, b: entry("F32", [1], [8, 12]) }, 12, /4 bytes before tensor "b"/],
    ["a gap at the start", { a: entry("F32", [1], [4, 8]) }, 8, /4 bytes before tensor "a"/],
    ["unknown dtype", { a: entry("F7", [1], [0, 4]) }, 4, /"a" has the dtype "F7"/],
    ["dtype of Object.prototype", { a: entry("constructor", [1], [0, 4]) }, 4, /has the dtype/],
    ["no dtype", { a: { shape: [1], data_offsets: [0, 4] } }, 4, /has the dtype undefined/],
    ["wrong size", { a: entry("F32", [2], [0, 4]) }, 4, /float32\[2\], but data_offsets give it 4 bytes/],
    ["a huge shape", { a: entry("U8", [2 ** 40, 2 ** 40], [0, 4]) }, 4, /but data_offsets give it 4 bytes/],
    ["a shape whose size wraps to 0", { a: entry("U8", [2 ** 32, 2 ** 32], [0, 0]) }, 0, /give it 0 bytes/],
    ["a negative dimension", { a: entry("F32", [-1, -1], [0, 4]) }, 4, /no valid shape/],
    ["a fractional dimension", { a: entry("F32", [0.5, 2], [0, 4]) }, 4, /no valid shape/],
    ["a shape that is no list", { a: entry("F32", { length: 1 }, [0, 4]) }, 4, /no valid shape/],
    ["negative offsets", { a: entry("F32", [1], [-4, 0]) }, 4, /no valid data_offsets/],
    ["offsets in reverse", { a: entry("F32", [1], [4, 0]) }, 4, /no valid data_offsets/],
    ["offsets beyond exact numbers", { a: entry("U8", [4], [2 ** 60, 2 ** 60 + 4]) }, 4, /no valid data_offsets/],
    ["three offsets", { a: entry("F32", [1], [0, 4, 4]) }, 4, /no valid data_offsets/],
    ["offsets as text", { a: entry("F32", [1], ["0", "4"]) }, 4, /no valid data_offsets/],
    ["no description", { a: null }, 0, /"a" has no description/],
    ["metadata that is no text", { __metadata__: { a: 1 } }, 0, /__metadata__ must map names to strings/],
    ["metadata that is a list", { __metadata__: ["a"] }, 0, /__metadata__ must map names to strings/],
  ])("refuses %s", async (_, header, dataBytes, message) => {
    expect(await openError(rawFile(JSON.stringify(header), dataBytes))).toMatch(message);
  });

  it("refuses names that stand twice, however they are spelled", async () => {
    const text = JSON.stringify(one);
    expect(await openError(rawFile(`{"a":${text},"b":${text},"a":${text}}`, 4))).toMatch(/"a" appears twice/);
    expect(await openError(rawFile(`{"a":${text},"\\u0061" :${text}}`, 4))).toMatch(/"a" appears twice/);
    expect(await openError(rawFile(`{"a":{"dtype":"U8","dtype":"F32"}}`, 4))).toMatch(/"dtype" appears twice/);
    expect(await openError(rawFile('{"__metadata__":{"x":"1","x":"2"}}'))).toMatch(/"x" appears twice/);
  });

  it("takes a name that recurs in another object or as a value, and empty tensors between others", async () => {
    const header = {
      __metadata__: { dtype: "a", a: "dtype" },
      a: one,
      dtype: entry("F32", [0, 2 ** 50], [4, 4]),
      b: entry("U8", [], [4, 5]),
    };
    const file = await openSafetensors(rawFile(JSON.stringify(header), 5));
    expect((await file.read("dtype")).shape).toEqual([0, 2 ** 50]);
    expect((await file.read("b")).data).toEqual(Uint8Array.of(1));
    await file.close();
  });

  it("notices a file that shrinks after it was opened", async () => {
    const path = rawFile(JSON.stringify({ a: one }), 4);
    const file = await openSafetensors(path);
    truncateSync(path, readFileSync(path).length - 2);
    await expect(file.read("a")).rejects.toThrow(/cut off/);
    await file.close();
  });
});
