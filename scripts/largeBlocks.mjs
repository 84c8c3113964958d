/**
 * The allocator of large blocks (native/preload/largeBlocks.cpp), which bin/halfbyte preloads where it is: compiled into
 * `native/large-blocks-HASH.so` of the cache, with a link of a fixed name to it. Optional: without it glibc's settings serve.
 */
import { createHash } from "node:crypto";
import { existsSync, readFileSync, readlinkSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { publish } from "./cache.mjs";
import { compile } from "./compiler.mjs";

/** @param {string} root */
const sourceIn = (root) => join(root, "native", "preload", "largeBlocks.cpp");

/** @param {string} root */
function libraryName(root) {
  const hash = createHash("sha256").update(readFileSync(sourceIn(root)));
  return `large-blocks-${hash.digest("hex").slice(0, 12)}.so`;
}

/** Where the launcher looks. @param {string} cache */
export const largeBlocksLink = (cache) => join(cache, "native", "large-blocks.so");

/** @param {string} cache @param {string} root */
export function largeBlocksAreBuilt(cache, root) {
  const link = largeBlocksLink(cache);
  try {
    return readlinkSync(link) === libraryName(root) && existsSync(link);
  } catch {
    return false;
  }
}

/**
 * Builds it and sets the link. Throws a `SetupError` with the compiler's own words.
 * @param {string} cache @param {string} root @param {import("./compiler.mjs").Compiler} found
 */
export async function buildLargeBlocks(cache, root, { compiler }) {
  const name = libraryName(root);
  const library = join(cache, "native", name);
  await publish(library, {
    isWhole: () => existsSync(library),
    fill: async (work) => {
      const out = join(work, name);
      const flags = ["-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti"];
      // It goes into any program: nothing of C++'s library may come with it.
      const link = ["-shared", "-pthread", "-Wl,--as-needed", "-ldl"];
      await compile(compiler, [...flags, "-o", out, sourceIn(root), ...link]);
      return out;
    },
  });
  const fresh = `${largeBlocksLink(cache)}.${process.pid}`;
  rmSync(fresh, { force: true });
  symlinkSync(name, fresh);
  renameSync(fresh, largeBlocksLink(cache));
}
