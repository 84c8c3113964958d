/** Builds src into dist with the TypeScript compiler, when the sources' content has changed since the last whole build. */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { runProgram, SetupError } from "./process.mjs";

/** Written last and removed first, so a build that was interrupted is not taken for a whole one. */
const STAMP = ".build-stamp";

/** @param {string} folder @returns {string[]} the files below it, in a fixed order */
function filesBelow(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { withFileTypes: true })
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => (entry.isDirectory() ? filesBelow(join(folder, entry.name)) : [join(folder, entry.name)]));
}

/** @param {string} root */
function sourceHash(root) {
  const hash = createHash("sha256");
  const compiler = join("node_modules", "typescript", "package.json");
  const settings = ["tsconfig.json", "tsconfig.build.json", compiler].map((file) => join(root, file));
  for (const file of [...filesBelow(join(root, "src")), ...settings]) {
    hash
      .update(`${relative(root, file)}\0`)
      .update(readFileSync(file))
      .update("\0");
  }
  return hash.digest("hex");
}

/** @param {string} root */
function readStamp(root) {
  try {
    return readFileSync(join(root, "dist", STAMP), "utf8");
  } catch {
    return undefined;
  }
}

/** @param {string} root */
export function buildIsCurrent(root) {
  return existsSync(join(root, "dist", "cli", "main.js")) && readStamp(root) === sourceHash(root);
}

/**
 * Compiles incrementally and removes the output of sources that are gone.
 * @param {string} root
 */
export async function build(root) {
  const dist = join(root, "dist");
  const hash = sourceHash(root);
  // The compiler's record of its last run is trusted only where that run is known to have ended well.
  if (readStamp(root) === undefined || !existsSync(join(dist, "cli", "main.js"))) {
    rmSync(join(dist, ".tsbuildinfo"), { force: true });
  }
  mkdirSync(dist, { recursive: true });
  rmSync(join(dist, STAMP), { force: true });
  const compiler = join(root, "node_modules", "typescript", "bin", "tsc");
  const result = await runProgram(process.execPath, [compiler, "-p", "tsconfig.build.json"], { cwd: root });
  if (result.exitCode !== 0) {
    throw new SetupError("E_BUILD", "The TypeScript build failed: correct the errors above and run it again.", {
      detail: result.stdout + result.stderr,
    });
  }
  removeOrphans(root);
  writeFileSync(join(dist, STAMP), hash);
}

/** @param {string} root */
function removeOrphans(root) {
  const dist = join(root, "dist");
  for (const file of filesBelow(dist)) {
    const stem = relative(dist, file).match(/^(.+?)(\.d\.ts|\.js|\.js\.map|\.d\.ts\.map)$/)?.[1];
    if (stem !== undefined && !existsSync(join(root, "src", `${stem}.ts`))) rmSync(file);
  }
}
