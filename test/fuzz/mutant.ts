/** Inputs by their number: a seed with one of its files mutated. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import type { Files, FuzzFormat } from "./format.ts";
import { mutateBytes } from "./mutateBytes.ts";
import { mutateJson } from "./mutateJson.ts";
import { drawsOf } from "./random.ts";

/** The mutant of a number. The same for the same format, seed and number. */
export function mutantOf(format: FuzzFormat, seeds: readonly Files[], seed: number, number: number): Files {
  const draws = drawsOf(seed, number, ...Buffer.from(format.name));
  const files = draws.pick(seeds);
  const path = draws.pick(Object.keys(files).filter((name) => format.mutated.test(name)));
  const bytes = files[path]!;
  const own = format.mutate?.(path, bytes, draws);
  if (own !== undefined) return { ...files, [path]: own };
  const structured = path.endsWith(".json") && draws.chance(0.75);
  return {
    ...files,
    [path]: structured ? Buffer.from(mutateJson(Buffer.from(bytes).toString(), draws)) : mutateBytes(bytes, draws),
  };
}

export function writeFiles(folder: string, files: Files): void {
  for (const [name, bytes] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), bytes);
  }
}

/** All files below a folder. */
export function filesBelow(folder: string, root = folder): Record<string, Uint8Array> {
  return Object.assign(
    {},
    ...readdirSync(folder)
      .sort()
      .map((name) => {
        const path = join(folder, name);
        return statSync(path).isDirectory() ? filesBelow(path, root) : { [relative(root, path)]: readFileSync(path) };
      }),
  );
}

/** A folder that is there for as long as `use` takes. */
export async function withFolder<T>(use: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), "halfbyte-fuzz-"));
  try {
    return await use(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
