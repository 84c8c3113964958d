import { spawn } from "node:child_process";
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { clearEntries, evict, listEntries, readEntry, writeEntry } from "../../src/jit/cacheEntries.ts";
import { compileCacheLimit } from "../../src/jit/cacheLimit.ts";
import { ensureBuilt } from "../train/halfbyte.ts";

let folder = "";
beforeEach(() => {
  folder = join(mkdtempSync(join(tmpdir(), "halfbyte-entries-")), "compiled");
});
afterEach(() => rmSync(join(folder, ".."), { recursive: true, force: true }));

const keyOf = (n: number) => n.toString(16).padStart(64, "0");
const content = (n: number, length = 1000) => new Uint8Array(length).fill(n);
const path = (key: string) => join(folder, `${key}.bin`);

describe("an entry", () => {
  it("is read as it was written, and absent ones are not", () => {
    writeEntry(folder, keyOf(1), content(1), 1e6);
    expect(Buffer.from(readEntry(folder, keyOf(1))!)).toEqual(Buffer.from(content(1)));
    expect(readEntry(folder, keyOf(2))).toBeUndefined();
    expect(readdirSync(folder)).toEqual([`${keyOf(1)}.bin`]);
  });

  const damages: [string, (file: Buffer) => Uint8Array][] = [
    ["cut short", (file) => file.subarray(0, file.length - 1)],
    ["cut within its header", (file) => file.subarray(0, 20)],
    ["empty", () => new Uint8Array(0)],
    ["longer", (file) => Buffer.concat([file, Buffer.of(0)])],
    ["changed in one bit", (file) => file.map((byte, i) => (i === file.length - 7 ? byte ^ 4 : byte))],
    ["of another format", (file) => file.map((byte, i) => (i === 26 ? byte + 1 : byte))],
  ];
  it.each(damages)("that is %s is removed", (_, damage) => {
    writeEntry(folder, keyOf(1), content(1), 1e6);
    writeFileSync(path(keyOf(1)), damage(readFileSync(path(keyOf(1)))));
    expect(readEntry(folder, keyOf(1))).toBeUndefined();
    expect(listEntries(folder)).toEqual([]);
  });

  it("of another key is removed", () => {
    writeEntry(folder, keyOf(1), content(1), 1e6);
    copyFileSync(path(keyOf(1)), path(keyOf(2)));
    expect(readEntry(folder, keyOf(2))).toBeUndefined();
    expect(readEntry(folder, keyOf(1))).toBeDefined();
  });
});

describe("a full cache", () => {
  const used = (key: string, seconds: number) => utimesSync(path(key), seconds, seconds);

  it("loses what was unused for longest; reading is use", () => {
    for (let n = 1; n <= 4; n++) {
      writeEntry(folder, keyOf(n), content(n), 1e6);
      used(keyOf(n), 1000 + n);
    }
    readEntry(folder, keyOf(1));
    evict(folder, 3500);
    expect(
      listEntries(folder)
        .map(({ path }) => path.slice(-5, -4))
        .sort(),
    ).toEqual(["1", "4"]);
  });

  it("never takes more than its limit, and no entry above it", () => {
    for (let n = 1; n <= 40; n++) {
      writeEntry(folder, keyOf(n), content(n), 10_000);
      expect(listEntries(folder).reduce((sum, { bytes }) => sum + bytes, 0)).toBeLessThanOrEqual(10_000);
    }
    writeEntry(folder, keyOf(99), content(1, 20_000), 10_000);
    expect(readEntry(folder, keyOf(99))).toBeUndefined();
    expect(readEntry(folder, keyOf(40))).toBeDefined();
  });

  it("loses what a killed process left after an hour", () => {
    mkdirSync(folder);
    for (const name of ["old.tmp", "new.tmp"]) writeFileSync(join(folder, name), "");
    utimesSync(join(folder, "old.tmp"), 1000, 1000);
    evict(folder, 1e6);
    expect(readdirSync(folder)).toEqual(["new.tmp"]);
    writeEntry(folder, keyOf(1), content(1), 1e6);
    expect(clearEntries(folder).entries).toBe(1);
    expect(readdirSync(folder)).toEqual([]);
  });
});

describe("the limit", () => {
  it("is a size or off", () => {
    expect(["", "500MB", "2gb", "1.5 kB", "77"].map(compileCacheLimit)).toEqual([2e9, 5e8, 2e9, 1500, 77]);
    expect(["off", "0", "OFF"].map(compileCacheLimit)).toEqual(["off", "off", "off"]);
    expect(() => compileCacheLimit("lots")).toThrow(/"off" or a size such as 500MB or 2GB; got "lots"/);
  });
});

describe("several processes", () => {
  beforeAll(ensureBuilt);

  it("write, read and remove the same entries at once without an error or a wrong byte", async () => {
    const module = fileURLToPath(new URL("../../dist/jit/cacheEntries.js", import.meta.url));
    const script = `
      import { readEntry, writeEntry } from ${JSON.stringify(module)};
      let hits = 0;
      for (let round = 0; round < 1500; round++) {
        const n = 1 + (round * 7 + Number(process.argv[1])) % 12;
        const key = n.toString(16).padStart(64, "0");
        const found = readEntry(${JSON.stringify(folder)}, key);
        if (found === undefined) writeEntry(${JSON.stringify(folder)}, key, new Uint8Array(1000).fill(n), 6000);
        else if (found.length !== 1000 || found.some((byte) => byte !== n)) throw new Error("wrong bytes");
        else hits++;
      }
      console.log(hits);`;
    const run = (id: number) =>
      new Promise<{ code: number | null; out: string }>((resolve) => {
        const child = spawn(process.execPath, ["--input-type=module", "-e", script, String(id)]);
        let out = "";
        child.stdout.on("data", (chunk) => (out += chunk));
        child.stderr.on("data", (chunk) => (out += chunk));
        child.on("close", (code) => resolve({ code, out }));
      });
    const ended = await Promise.all([1, 2, 3].map(run));
    expect(ended.map(({ code, out }) => (code === 0 ? code : out))).toEqual([0, 0, 0]);
    expect(ended.some(({ out }) => Number(out) > 0)).toBe(true);
    expect(readdirSync(folder).filter((name) => name.endsWith(".tmp"))).toEqual([]);
  });
});
