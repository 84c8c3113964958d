/**
 * The allocator of large blocks (native/preload/largeBlocks.cpp), which bin/halfbyte preloads where it is: compiled into
 * `native/large-blocks-HASH/large-blocks.so` of the cache, beside its hash, with a link of a fixed name to it. Optional: without it
 * glibc's settings serve.
 */
import { mkdirSync, readFileSync, readlinkSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { hashOf, publish } from "./cache.mjs";
import { compile } from "./compiler.mjs";

/** @param {string} root */
const sourceIn = (root) => join(root, "native", "preload", "largeBlocks.cpp");

/** In the cache's folder `native`: by its source. @param {string} root */
const folderName = (root) => `large-blocks-${hashOf(sourceIn(root)).slice(0, 12)}`;
const library = "large-blocks.so";
const record = "sha256";

/** Where the launcher looks. @param {string} cache */
export const largeBlocksLink = (cache) => join(cache, "native", library);

/** A file that was cut off would end every program that preloads it. @param {string} folder */
function isWhole(folder) {
  try {
    return readFileSync(join(folder, record), "utf8") === hashOf(join(folder, library));
  } catch {
    return false;
  }
}

/** @param {string} cache @param {string} root */
export function largeBlocksAreBuilt(cache, root) {
  const name = folderName(root);
  try {
    return readlinkSync(largeBlocksLink(cache)) === join(name, library) && isWhole(join(cache, "native", name));
  } catch {
    return false;
  }
}

/**
 * Builds it and sets the link. Throws a `SetupError` with the compiler's own words.
 * @param {string} cache @param {string} root @param {import("./compiler.mjs").Compiler} found
 */
export async function buildLargeBlocks(cache, root, { compiler }) {
  const folder = join(cache, "native", folderName(root));
  await publish(folder, {
    isWhole: () => isWhole(folder),
    fill: async (work) => {
      const out = join(work, "out");
      mkdirSync(out);
      const flags = ["-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti"];
      // It goes into any program: nothing of C++'s library may come with it.
      const link = ["-shared", "-pthread", "-Wl,--as-needed", "-ldl"];
      await compile(compiler, [...flags, "-o", join(out, library), sourceIn(root), ...link]);
      writeFileSync(join(out, record), hashOf(join(out, library)));
      return out;
    },
  });
  const fresh = `${largeBlocksLink(cache)}.${process.pid}`;
  rmSync(fresh, { force: true });
  symlinkSync(join(folderName(root), library), fresh);
  renameSync(fresh, largeBlocksLink(cache));
}
