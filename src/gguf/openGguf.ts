/** A GGUF file, whole or split into parts, which lie beside each other and are told apart by their names. */
import { existsSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { type GgufFile, openOneGguf } from "./ggufFile.ts";
import { fail, readGgufHeader } from "./head.ts";
import type { GgufHeader } from "./header.ts";

/**
 * Opens a GGUF file (version 2 or 3, little-endian) and checks its whole head. Any part of a split file stands for all of them:
 * their tensors together, and the first part's metadata.
 * @throws UserError (E_GGUF) where a file is missing, cut off or malformed, or has tensors of a type that is not read
 */
export async function openGguf(path: string): Promise<GgufFile> {
  const file = await openOneGguf(path);
  const count = numberAt(file, "split.count") ?? 1;
  if (count <= 1) return file;
  await file.close();
  const paths = partPaths(path, count);
  const parts: GgufFile[] = [];
  const close = async () => {
    await Promise.all(parts.map((part) => part.close()));
  };
  try {
    for (const part of paths) parts.push(await openOneGguf(part));
    return { ...joined(parts), close };
  } catch (error) {
    await close();
    throw error;
  }
}

/**
 * The metadata of a GGUF file; of any part of a split file, that of the first part, which alone has the model's and the tokenizer's.
 * @throws UserError (E_GGUF) where the file or the first part is missing or malformed
 */
export function readGgufMetadata(path: string): GgufHeader["metadata"] {
  const header = readGgufHeader(path);
  const count = numberAt(header, "split.count") ?? 1;
  if (count <= 1 || numberAt(header, "split.no") === 0) return header.metadata;
  return readGgufHeader(partPaths(path, count)[0]!).metadata;
}

function numberAt({ metadata }: GgufHeader, key: string): number | undefined {
  const value = metadata.get(key);
  return typeof value === "number" ? value : undefined;
}

/** Most parts whose absence is told by name. */
const namedParts = 4;

function partPaths(path: string, count: number): string[] {
  const number = (n: number) => String(n).padStart(5, "0");
  const ending = (n: number) => `-${number(n)}-of-${number(count)}.gguf`;
  const [, stem, of] = /^(.*)-\d{5}-of-(\d{5})\.gguf$/.exec(basename(path)) ?? [];
  if (stem === undefined || Number(of) !== count) {
    fail(
      path,
      `it is one of the ${count} parts of a split file, which are found by their names: they must end in ${ending(1)} to ${ending(count)}`,
    );
  }
  const paths = Array.from({ length: count }, (_, i) => join(dirname(path), `${stem}${ending(i + 1)}`));
  const missing = paths.filter((part) => !existsSync(part)).map((part) => basename(part));
  if (missing.length > 0) {
    const more = missing.length > namedParts ? ` and ${missing.length - namedParts} more` : "";
    const list = `${missing.slice(0, namedParts).join(", ")}${more}`;
    fail(
      path,
      `of the ${count} parts of this split file, ${list} ${missing.length === 1 ? "is" : "are"} not beside it`,
    );
  }
  return paths;
}

/** The parts as one file. @throws UserError where one is of another split file, or its tensors are not all there, or twice */
function joined(parts: readonly GgufFile[]): Omit<GgufFile, "close"> {
  const [first] = parts as [GgufFile, ...GgufFile[]];
  const home = new Map<string, GgufFile>();
  for (const [i, part] of parts.entries()) {
    const [no, count] = [numberAt(part, "split.no"), numberAt(part, "split.count")];
    if (no !== i || count !== parts.length) {
      const said = no === undefined ? "none" : `part ${no + 1} of ${count}`;
      fail(
        part.path,
        `by its name it is part ${i + 1} of ${parts.length}, and by its split.no and split.count ${said}`,
      );
    }
    for (const name of part.tensors.keys()) {
      const other = home.get(name);
      if (other !== undefined) fail(part.path, `the tensor "${name}" is in ${basename(other.path)} too`);
      home.set(name, part);
    }
  }
  const wanted = numberAt(first, "split.tensors.count") ?? home.size;
  if (home.size !== wanted) {
    fail(first.path, `split.tensors.count is ${wanted}, and the ${parts.length} parts have ${home.size} tensors`);
  }
  return {
    path: first.path,
    version: first.version,
    metadata: first.metadata,
    tensors: new Map([...home].map(([name, part]) => [name, part.tensors.get(name)!])),
    read: (name) => (home.get(name) ?? first).read(name),
    readPart: (name, begin, count) => (home.get(name) ?? first).readPart(name, begin, count),
  };
}
