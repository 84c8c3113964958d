/** The cache of tokens: what it is keyed by, and what is left whatever happens while it is written. */
import { spawn, spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { unfinishedName } from "../../src/base/unfinishedFiles.ts";
import { fileHashes } from "../../src/data/fileHashes.ts";
import { clearTokens, tokenCache } from "../../src/data/index.ts";
import { cachedTokens, evictTokens, listTokens, openTokenCache } from "../../src/data/tokenCache.ts";
import { saveTokenizer, trainBpe } from "../../src/tokenizers/index.ts";
import { openText, ownCache } from "./openText.ts";
import { temporaryFolder } from "./temporaryFiles.ts";

const text = (word: string) => `${word} sat on the mat, and that was that. `.repeat(20);
const entries = (folder: string) => readdirSync(folder).filter((name) => name !== "files.json");
/** A process that is gone. */
const dead = spawnSync("true");
/** As if the file was older: only hashes of files that have settled are remembered. */
const settle = (path: string, seconds = 100) =>
  utimesSync(path, Date.now() / 1000 - seconds, Date.now() / 1000 - seconds);

describe("the cache of tokens", () => {
  it("A7: has another entry for another tokenizer, text or order of columns, and the same for the same", async () => {
    const cache = ownCache();
    const folder = temporaryFolder({ "a.txt": text("the cat") });
    const first = await openText({ datasetPath: folder });
    const written = entries(cache);
    expect(written.length).toBe(1);
    const again = await openText({ datasetPath: folder, maxTargetLength: 16 });
    expect(entries(cache)).toEqual(written); // the window is no part of it
    expect(again.hashes!.tokens).toBe(first.hashes!.tokens);
    expect(again.train.batchAt(1).tokens.shape).toEqual([1, 16]);

    const tokenizerPath = join(temporaryFolder(), "tokenizer");
    saveTokenizer(await trainBpe([text("the cat")], 270), tokenizerPath);
    const other = await openText({ datasetPath: folder, tokenizerPath }, { vocabSize: 270 });
    expect(entries(cache).length).toBe(2);
    expect(other.size!.train.tokens).toBeLessThan(first.size!.train.tokens);
    // The same path, another vocabulary.
    saveTokenizer(await trainBpe([text("and that")], 270), tokenizerPath);
    const changed = await openText({ datasetPath: folder, tokenizerPath }, { vocabSize: 270 });
    expect(changed.hashes!.tokens).not.toBe(other.hashes!.tokens);
    expect(entries(cache).length).toBe(3);
  });

  it("A7: sees an edit that keeps the size, and one whose modification time is set back", async () => {
    ownCache();
    const folder = temporaryFolder({ "a.txt": text("the cat") });
    const path = join(folder, "a.txt");
    settle(path);
    const before = await openText({ datasetPath: folder });
    const { atime, mtime } = statSync(path);
    writeFileSync(path, text("the dog"));
    utimesSync(path, atime, mtime);
    expect(Math.abs(statSync(path).mtimeMs - mtime.getTime())).toBeLessThan(1);
    const after = await openText({ datasetPath: folder });
    expect(after.size!.bytes).toBe(before.size!.bytes);
    expect(after.hashes!.tokens).not.toBe(before.hashes!.tokens);
    writeFileSync(path, text("the cat"));
    expect((await openText({ datasetPath: folder })).hashes!.tokens).toBe(before.hashes!.tokens);
  });

  it("finds the tokens again wherever the data set lies, and by its content alone", async () => {
    const cache = ownCache();
    const [here, there] = [0, 1].map(() => temporaryFolder({ "x/a.txt": text("the cat"), "b.txt": "more text" }));
    await openText({ datasetPath: here! });
    await openText({ datasetPath: there! });
    expect(entries(cache).length).toBe(1);
    writeFileSync(join(there!, "c.txt"), "and more");
    await openText({ datasetPath: there! });
    expect(entries(cache).length).toBe(2);
  });

  it.each([
    ["tokens.bin", (path: string) => truncateSync(path, statSync(path).size - 2)],
    ["ends.bin", (path: string) => writeFileSync(path, Buffer.alloc(statSync(path).size))],
    ["manifest.json", (path: string) => writeFileSync(path, "{")],
    ["draws.bin", (path: string) => rmSync(path)],
  ])("makes an entry anew, and says so, where its %s is damaged", async (name, damage) => {
    const cache = ownCache();
    const folder = temporaryFolder({ "a.txt": text("the cat") });
    const whole = await openText({ datasetPath: folder });
    const entry = join(cache, entries(cache)[0]!);
    damage(join(entry, name));
    const said: string[] = [];
    const data = await openText({ datasetPath: folder }, { say: (line) => said.push(line) });
    expect(said).toEqual([expect.stringContaining("is not whole and is made anew")]);
    expect(data.hashes!.tokens).toBe(whole.hashes!.tokens);
    expect(data.train.batchAt(3)).toEqual(whole.train.batchAt(3));
    expect(existsSync(join(entry, "manifest.json"))).toBe(true);
  });

  it("leaves nothing of a tokenising that fails, and the next one begins anew", async () => {
    const cache = ownCache();
    const folder = temporaryFolder({ "a.jsonl": `{"text":"${text("the cat")}"}\n{"text":7}\n` });
    await expect(openText({ datasetPath: folder })).rejects.toThrow(/a\.jsonl:2: "text" is 7/);
    expect(entries(cache)).toEqual([]);
    writeFileSync(join(folder, "a.jsonl"), `{"text":"${text("the cat")}"}\n`);
    expect((await openText({ datasetPath: folder })).size!.train.documents).toBe(1);
    expect(entries(cache).length).toBe(1);
  });

  it("what another machine's process left is no entry, is counted, and goes when it is old", async () => {
    const cache = ownCache();
    const folder = temporaryFolder({ "a.txt": text("the cat") });
    const first = await openText({ datasetPath: folder });
    const [name] = entries(cache);
    const left = join(cache, `${name}-00000000-${dead.pid}-00000000.tmp`);
    mkdirSync(left);
    writeFileSync(join(left, "tokens.bin"), "half");
    expect((await openText({ datasetPath: folder })).hashes!.tokens).toBe(first.hashes!.tokens);
    expect(tokenCache()).toMatchObject({ entries: 1, unfinished: { entries: 1, bytes: 4 } });
    evictTokens(cache, 1e9);
    expect(existsSync(left)).toBe(true);
    for (const path of [join(left, "tokens.bin"), left]) settle(path, 7200);
    evictTokens(cache, 1e9);
    expect(existsSync(left)).toBe(false);
  });

  it("what a killed process of this machine left goes at once: at the next opening, by the limit, and by clearing", async () => {
    const cache = ownCache();
    const folder = temporaryFolder({ "a.txt": text("the cat") });
    vi.stubEnv("TMPDIR", temporaryFolder());
    const named = (path: string, pid: number | undefined) =>
      unfinishedName(path).replace(`-${process.pid}-`, `-${pid}-`);
    const leave = (pid: number | undefined) => {
      const paths = [join(cache, "0".repeat(32)), join(tmpdir(), "halfbyte-tokens")].map((path) => named(path, pid));
      for (const path of paths) mkdirSync(path, { recursive: true });
      for (const path of paths) writeFileSync(join(path, "tokens.bin"), "half");
      return { kept: paths[0]!, passing: paths[1]! };
    };
    const living = leave(process.pid);
    let left = leave(dead.pid);
    writeFileSync(named(join(cache, "files.json"), dead.pid), "{");
    expect(tokenCache().unfinished).toEqual({ entries: 2, bytes: 8 });
    await openText({ datasetPath: folder });
    expect(entries(cache).filter((name) => name.endsWith(".tmp"))).toEqual([basename(living.kept)]);
    expect([left.passing, living.passing].map((path) => existsSync(path))).toEqual([false, true]);
    left = leave(dead.pid);
    evictTokens(cache, 1e9);
    expect(existsSync(left.kept)).toBe(false);
    left = leave(dead.pid);
    expect(clearTokens()).toMatchObject({ entries: 1, unfinished: { entries: 1, bytes: 4 } });
    expect(entries(cache)).toEqual([basename(living.kept)]);
  });

  it("is whole after a process was killed while it tokenised", async () => {
    const cache = ownCache();
    const line = (i: number) => `{"text":"${i} ${text("the cat")}"}\n`;
    const folder = temporaryFolder({ "a.jsonl": Array.from({ length: 40_000 }, (_, i) => line(i)).join("") });
    const index = new URL("../../src/data/index.ts", import.meta.url).href;
    const program = `
      const { openDataset } = await import(${JSON.stringify(index)});
      const settings = { datasetType: "text", datasetPath: ${JSON.stringify(folder)}, evalDatasetPath: "", validationFraction: 0,
        tokenizerPath: "byte", maxTargetLength: 8, perDeviceBatchSize: 1 };
      const onProgress = ({ doing }) => doing === "tokenising" && process.stdout.write("now");
      await openDataset(settings, { vocabSize: 257, shuffleSeed: 0, onProgress });`;
    const child = spawn(process.execPath, ["--import", "tsx", "--input-type=module", "-e", program]);
    await new Promise((resolve) => child.stdout.once("data", resolve));
    child.kill("SIGKILL");
    await new Promise((resolve) => child.once("close", resolve));
    expect(entries(cache)).toEqual([expect.stringMatching(/\.tmp$/)]);
    expect(tokenCache()).toMatchObject({ entries: 0, unfinished: { entries: 1 } });
    const data = await openText({ datasetPath: folder });
    expect(data.size!.train.documents).toBe(40_000);
    expect(tokenCache()).toMatchObject({ entries: 1, unfinished: { entries: 0 } });
  });

  it("two processes that make the same at once end with one entry, whole", async () => {
    const cache = openTokenCache();
    const folder = ownCache();
    const made = { ...cache, folder };
    const make = () =>
      cachedTokens(made, {
        ...{ madeOf: { name: "same" }, width: "uint16" as const, masked: false },
        async fill(writer) {
          await new Promise((resolve) => setTimeout(resolve, 5));
          const draws = Uint32Array.of(1);
          writer.append({ tokens: Uint16Array.of(1, 2, 3), ends: Float64Array.of(3), draws, problems: [] });
          return { badRecords: { count: 0 } };
        },
      });
    const [a, b] = await Promise.all([make(), make()]);
    expect(a.folder).toBe(b.folder);
    expect((await make()).wasCached).toBe(true);
    expect(entries(folder).length).toBe(1);
  });

  it("removes what is unused for longest where its limit is passed, but not what was just made", async () => {
    const cache = ownCache();
    vi.stubEnv("HALFBYTE_TOKEN_CACHE", "3000");
    const folders = ["a", "b", "c"].map((word) => temporaryFolder({ "a.txt": text(word) }));
    await openText({ datasetPath: folders[0]! });
    const [oldest] = entries(cache);
    for (const name of readdirSync(join(cache, oldest!))) settle(join(cache, oldest!, name), 500);
    settle(join(cache, oldest!), 500);
    await openText({ datasetPath: folders[1]! });
    expect(entries(cache)).not.toContain(oldest);
    vi.stubEnv("HALFBYTE_TOKEN_CACHE", "10");
    const data = await openText({ datasetPath: folders[2]! });
    expect(listTokens(cache).length).toBe(1);
    expect(data.train.batchAt(1).validTokens).toBe(8);
    expect(clearTokens().entries).toBe(1);
    expect(data.train.batchAt(2).validTokens).toBe(8); // what is open stays readable
  });

  it("switched off, or where it can't be written, keeps nothing and reads all the same", async () => {
    const cache = ownCache();
    const folder = temporaryFolder({ "a.txt": text("the cat") });
    const kept = await openText({ datasetPath: folder });
    clearTokens();
    vi.stubEnv("HALFBYTE_TOKEN_CACHE", "off");
    const off = await openText({ datasetPath: folder, validationFraction: 0.2 });
    expect(existsSync(cache) ? entries(cache) : []).toEqual([]);
    expect(off.validation!.batchAt(0).validTokens).toBeGreaterThan(0);
    vi.stubEnv("TMPDIR", join(folder, "none"));
    await expect(openText({ datasetPath: folder })).rejects.toThrow(
      /none \(ENOENT.*set TMPDIR to a folder that is there/,
    );
    vi.stubEnv("TMPDIR", undefined);

    vi.stubEnv("HALFBYTE_TOKEN_CACHE", "");
    vi.stubEnv("HALFBYTE_CACHE", join(folder, "a.txt"));
    const said: string[] = [];
    const unwritable = await openText({ datasetPath: folder }, { say: (line) => said.push(line) });
    expect(said).toEqual([
      expect.stringMatching(/^note: tokens are not kept: .*HALFBYTE_CACHE chooses another folder$/),
    ]);
    expect(unwritable.hashes!.tokens).toBe(kept.hashes!.tokens);
    expect(unwritable.train.batchAt(1)).toEqual(kept.train.batchAt(1));

    vi.stubEnv("HALFBYTE_TOKEN_CACHE", "much");
    await expect(openText({ datasetPath: folder })).rejects.toThrow('HALFBYTE_TOKEN_CACHE must be "off" or a size');
  });
});

describe("hashes of files", () => {
  it("are remembered while the file is as it was, also by another process", async () => {
    const folder = temporaryFolder({ "a.txt": "content" });
    const [store, path] = [join(folder, "files.json"), join(folder, "a.txt")];
    // Times of a file that changed just now could be those of another change.
    let read = 0;
    const hash = () => fileHashes(store);
    const young = hash();
    await young.hashOf(path, (bytes) => (read += bytes));
    await young.hashOf(path, (bytes) => (read += bytes));
    expect(read).toBe(14);
    young.save();
    expect(existsSync(store)).toBe(false);

    const told = hash();
    told.remember(path, "known");
    told.save();
    expect(await hash().hashOf(path)).toBe("known");
    expect(Object.keys(JSON.parse(readFileSync(store, "utf8")))).toEqual([path]);
    writeFileSync(path, "CONTENT");
    expect(await hash().hashOf(path)).toMatch(/^[0-9a-f]{64}$/);
    writeFileSync(store, "damaged");
    expect(await hash().hashOf(path)).toMatch(/^[0-9a-f]{64}$/);
  });
});
