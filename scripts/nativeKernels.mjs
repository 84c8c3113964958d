/**
 * The native CPU kernels of `native/`: compiled by the machine's C++ compiler, into `native/HASH OF THE SOURCES` of the cache, with
 * `halfbyte.json`: {library, sha256, compiler}. They are optional: without a compiler everything runs, some of it slower.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { hashOf, publish } from "./cache.mjs";
import { compile } from "./compiler.mjs";

const library = "libhalfbyte_kernels.so";

// Sources say themselves where a product and a sum are to be rounded as one.
const flags = ["-std=c++17", "-O3", "-ffp-contract=off", "-fPIC", "-fvisibility=hidden", "-fno-math-errno"];
flags.push("-Wno-maybe-uninitialized");
const avx512 = ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma"];

/** The processor decides between these when a program is compiled; names are those of the namespaces. */
const instructionSets = {
  avx2: ["-mavx2", "-mfma"],
  avx512,
  avx512bf16: [...avx512, "-mavx512bf16"],
};

/** Files that are the same for every processor; all others are compiled for each instruction set. */
const common = /(handlers|frame|parallel)\.cpp$/i;

/** @param {string} root @returns {string[]} names of the sources, in a fixed order */
function sourcesIn(root) {
  const folder = join(root, "native");
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((name) => /\.(cpp|h)$/.test(name))
    .sort();
}

/** As src/pjrt/nativeKernels.ts finds it again. @param {string} cache @param {string} root */
export function kernelFolder(cache, root) {
  const hash = createHash("sha256");
  for (const name of sourcesIn(root)) hash.update(`${name}\n`).update(readFileSync(join(root, "native", name)));
  return join(cache, "native", hash.digest("hex").slice(0, 24));
}

/** Whether the library is there, and what its record says. @param {string} cache @param {string} root */
export function kernelsAreBuilt(cache, root) {
  const folder = kernelFolder(cache, root);
  try {
    const record = JSON.parse(readFileSync(join(folder, "halfbyte.json"), "utf8"));
    return record.library === library && record.sha256 === hashOf(join(folder, library));
  } catch {
    return false;
  }
}

/**
 * Builds the library. Throws a `SetupError` with the compiler's own words.
 * @param {string} cache
 * @param {string} root
 * @param {import("./compiler.mjs").Compiler} found
 * @param {(text: string) => void} [note] told how far it is
 */
export async function buildKernels(cache, root, { compiler, version }, note = () => {}) {
  await publish(kernelFolder(cache, root), {
    isWhole: () => kernelsAreBuilt(cache, root),
    fill: async (work) => {
      const files = sourcesIn(root).filter((name) => name.endsWith(".cpp"));
      const jobs = files.flatMap((file) =>
        common.test(file)
          ? [{ file, object: `${file}.o`, extra: /** @type {string[]} */ ([]) }]
          : Object.entries(instructionSets).map(([name, options]) => ({
              file,
              object: `${file}.${name}.o`,
              extra: [...options, `-DHALFBYTE_ISA=${name}`],
            })),
      );
      const objects = jobs.map(({ object }) => join(work, object));
      let next = 0;
      const worker = async () => {
        for (let i = next++; i < jobs.length; i = next++) {
          const { file, object, extra } = /** @type {typeof jobs[number]} */ (jobs[i]);
          note(`${i + 1} of ${jobs.length}: ${file}`);
          await compile(compiler, [...flags, ...extra, "-c", join(root, "native", file), "-o", join(work, object)]);
        }
      };
      await Promise.all(Array.from({ length: availableParallelism() }, worker));
      const out = join(work, "out");
      mkdirSync(out);
      await compile(compiler, ["-shared", "-pthread", "-o", join(out, library), ...objects]);
      const sha256 = hashOf(join(out, library));
      writeFileSync(join(out, "halfbyte.json"), `${JSON.stringify({ library, sha256, compiler: version }, null, 2)}\n`);
      return out;
    },
  });
}
