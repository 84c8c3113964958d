/** A checkpoint as several processes write it. */
import { copyFileSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileHash } from "../../src/base/fileHash.ts";
import { openSafetensors, writeSafetensors, writeWholeFolder } from "../../src/checkpoint/index.ts";
import { pieceName, type ShardStem, shardName } from "../../src/checkpoint/processShards.ts";
import { type HostArray, hostArray, sizeOf } from "../../src/core/index.ts";

/** Rows of a matrix are shared out over the processes; of the other arrays each has some as they are. */
async function writePieces(from: string, to: string, stem: ShardStem, count: number): Promise<string[]> {
  const file = await openSafetensors(join(from, shardName(stem, { index: 0, count: 1 })));
  const entries: [string, HostArray][][] = Array.from({ length: count }, () => []);
  for (const [turn, [name, { shape, dtype }]] of [...file.tensors].entries()) {
    const [rows = 0, ...inner] = shape;
    if (shape.length !== 2 || rows % count !== 0) {
      entries[turn % count]!.push([name, await file.read(name)]);
      continue;
    }
    for (let index = 0; index < count; index++) {
      const box = [rows / count, ...inner];
      const { data } = await file.readPart(name, index * sizeOf(box), sizeOf(box));
      const at = [index * box[0]!, 0];
      entries[index]!.push([pieceName(name, { at, shape: box, device: index }), hostArray(box, dtype, data)]);
    }
  }
  await file.close();
  const names = entries.map((_, index) => shardName(stem, { index, count }));
  for (const [index, name] of names.entries()) await writeSafetensors(join(to, name), entries[index]!, file.metadata);
  return names;
}

/** Writes `to`, the checkpoint `from` as `count` processes would. */
export function splitCheckpoint(from: string, to: string, count: number): Promise<void> {
  return writeWholeFolder(to, async (folder) => {
    const names = [
      ...(await writePieces(from, folder, "params", count)),
      ...(await writePieces(from, folder, "optimizer", count)),
      ...readdirSync(from).filter((name) => name === "state.json"),
    ];
    copyFileSync(join(from, "state.json"), join(folder, "state.json"));
    const records = names.map(async (name) => {
      const path = join(folder, name);
      return [name, { bytes: statSync(path).size, sha256: await fileHash(path) }] as const;
    });
    return Object.fromEntries(await Promise.all(records));
  });
}
