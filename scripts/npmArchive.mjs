/** Files of an npm package that is pinned by its hash: the archive alone, without what it depends on, and no script of it runs. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { npmFailure, runNpm } from "./dependencies.mjs";
import { SetupError } from "./process.mjs";

/** @typedef {{ package: string, version: string, integrity: string }} NpmPackage */

/**
 * Fetches the archive with npm, checks its hash and yields its files. Throws a `SetupError` of one sentence.
 * @param {string} work a folder for the archive
 * @param {NpmPackage} pinned
 * @param {string} what it is, at the start of a sentence
 */
export async function fetchNpmArchive(work, pinned, what) {
  const wanted = `${pinned.package}@${pinned.version}`;
  const { exitCode, stderr } = await runNpm(
    ["pack", wanted, "--pack-destination", work, "--ignore-scripts", "--loglevel=error"],
    work,
  );
  if (exitCode !== 0) throw npmFailure(`${what} (${wanted}) could not be fetched`, stderr);
  const file = readdirSync(work).find((name) => name.endsWith(".tgz"));
  const archive = readFileSync(join(work, file ?? ""));
  const integrity = `sha512-${createHash("sha512").update(archive).digest("base64")}`;
  if (integrity !== pinned.integrity) {
    throw new SetupError(
      "E_HASH",
      `The fetched archive of ${wanted} is not the pinned one (its hash differs), so it was not unpacked: try again, and check your npm registry if it persists.`,
    );
  }
  return tarEntries(gunzipSync(archive));
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
