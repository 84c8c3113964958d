import { renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { openShards, writeSafetensors } from "../../src/checkpoint/index.ts";
import { type Piece, pieceName, piecesToWrite, shardName } from "../../src/checkpoint/processShards.ts";
import { type HostArray, hostArray, sizeOf } from "../../src/core/index.ts";
import { mesh, partition, type Sharding, splitArray } from "../../src/sharding/index.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";

const counted = (shape: readonly number[]): HostArray =>
  hostArray(
    shape,
    "float32",
    Float32Array.from({ length: sizeOf(shape) }, (_, i) => i),
  );

/** Arrays of up to three dims on a mesh of two axes, each axis over a dim, over none, or both over one. */
const placed = fc
  .record({
    sizes: fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 0, maxLength: 3 }),
    axes: fc.tuple(fc.constantFrom(1, 2, 3), fc.constantFrom(1, 2, 4)),
    dims: fc.tuple(fc.integer({ min: -1, max: 2 }), fc.integer({ min: -1, max: 2 })),
  })
  .map(({ sizes, axes: [a, b], dims: [dimOfA, dimOfB] }) => {
    const splits = sizes.map((_, dim) => [...(dim === dimOfA ? ["a"] : []), ...(dim === dimOfB ? ["b"] : [])]);
    const shape = sizes.map((size, dim) => size * (dim === dimOfA ? a : 1) * (dim === dimOfB ? b : 1));
    const sharding: Sharding = { mesh: mesh({ a, b }), partition: partition(...splits) };
    return { array: counted(shape), sharding, devices: a * b };
  });

/** Writes arrays as `count` processes would, each from the devices that are its own. */
async function writeAs(count: number, arrays: readonly (readonly [string, HostArray, Sharding | undefined])[]) {
  const folder = temporaryFolder();
  for (let index = 0; index < count; index++) {
    const entries = arrays.flatMap(([name, array, sharding], turn) => {
      const held = sharding ? splitArray(array, sharding) : [];
      return piecesToWrite(array, sharding, { index, count }, turn).map((piece): [string, HostArray] => [
        pieceName(name, piece),
        piece.device === undefined ? array : held[piece.device]!,
      ]);
    });
    await writeSafetensors(join(folder, shardName("params", { index, count })), entries);
  }
  return folder;
}

describe("the pieces of several processes", () => {
  it("are each written once, by a process that holds it, whatever the mesh", () => {
    fc.assert(
      fc.property(
        placed,
        fc.constantFrom(1, 2, 3, 4, 6, 12),
        fc.nat(5),
        ({ array, sharding, devices }, count, turn) => {
          fc.pre(devices % count === 0);
          const writers = Array.from({ length: count }, (_, index) => ({ index, count }));
          const pieces = writers.map((writer) => piecesToWrite(array, sharding, writer, turn));
          const all: Piece[] = pieces.flat();
          expect(all.reduce((sum, { shape }) => sum + sizeOf(shape), 0)).toBe(sizeOf(array.shape));
          expect(new Set(all.map(({ at }) => at.join())).size).toBe(all.length);
          for (const [index, list] of pieces.entries()) {
            for (const { device } of list) {
              if (device !== undefined) expect(Math.floor((device * count) / devices)).toBe(index);
            }
          }
        },
      ),
    );
  });

  it("are the whole arrays again, whatever number of processes wrote them, and in parts", async () => {
    await fc.assert(
      fc.asyncProperty(placed, fc.constantFrom(1, 2, 4), fc.nat(100), fc.nat(100), async (one, count, from, length) => {
        fc.pre(one.devices % count === 0);
        const { array, sharding } = one;
        const folder = await writeAs(count, [
          ["x.weight", array, sharding],
          ["y", counted([2, 3]), undefined],
        ]);
        const file = await openShards(folder, "params");
        expect([...file.tensors.keys()].sort()).toEqual(["x.weight", "y"]);
        expect(await file.read("x.weight")).toEqual(array);
        expect(await file.read("y")).toEqual(counted([2, 3]));
        const begin = Math.min(from, sizeOf(array.shape) - 1);
        const part = await file.readPart("x.weight", begin, Math.min(length, sizeOf(array.shape) - begin));
        expect(part.data).toEqual(array.data.slice(begin, begin + length));
        await file.close();
      }),
      { numRuns: 60 },
    );
  });

  it("share out what every process holds", () => {
    const writes = (index: number) =>
      Array.from({ length: 6 }, (_, turn) => piecesToWrite(counted([4]), undefined, { index, count: 3 }, turn).length);
    expect([0, 1, 2].map(writes)).toEqual([
      [1, 0, 0, 1, 0, 0],
      [0, 1, 0, 0, 1, 0],
      [0, 0, 1, 0, 0, 1],
    ]);
  });
});

describe("the files of several processes", () => {
  const sharding: Sharding = { mesh: mesh({ data: 4 }), partition: partition("data") };
  const written = () => writeAs(4, [["x", counted([8, 3]), sharding]]);
  const opened = (folder: string) => openShards(folder, "params").then((file) => file.close());

  it("are named by their process, and hold pieces by their place", async () => {
    const folder = await written();
    const file = await openShards(folder, "params");
    expect(file.tensors.get("x")).toMatchObject({ shape: [8, 3], dtype: "float32" });
    await expect(file.read("y")).rejects.toThrow(/: no "y" in its params/);
    await file.close();
    const names = [0, 1, 2, 3].map((index) => shardName("params", { index, count: 4 }));
    expect(names[1]).toBe("params-00002-of-00004.safetensors");
    expect(shardName("params", { index: 0, count: 1 })).toBe("params.safetensors");
  });

  it("are refused where one is missing, is of another writing, or where pieces don't make an array", async () => {
    const names = [0, 1, 2, 3].map((index) => shardName("params", { index, count: 4 }));
    let folder = await written();
    rmSync(join(folder, names[2]!));
    await expect(opened(folder)).rejects.toThrow(/: params-00003-of-00004\.safetensors is missing$/);
    folder = await written();
    await writeSafetensors(join(folder, "params.safetensors"), []);
    await expect(opened(folder)).rejects.toThrow(
      /: params-00001-of-00004\.safetensors does not belong to params\.safetensors$/,
    );
    folder = await written();
    await writeSafetensors(join(folder, names[2]!), [["x@2,0", counted([2, 3])]]);
    await expect(opened(folder)).rejects.toThrow(/: "x@2,0" and "x@2,0" hold the same elements$/);
    folder = await written();
    await writeSafetensors(join(folder, names[2]!), []);
    await expect(opened(folder)).rejects.toThrow(/: of "x", float32\[8,3\], 6 elements are missing$/);
    folder = await written();
    await writeSafetensors(join(folder, names[2]!), [["x@4,0", hostArray([2, 3], "int32", new Int32Array(6))]]);
    await expect(opened(folder)).rejects.toThrow(/: "x@4,0" is int32\[2,3\], another piece float32\[2,3\]$/);
    folder = await written();
    for (const [i, name] of names.slice(0, 2).entries()) {
      renameSync(join(folder, name), join(folder, shardName("params", { index: i, count: 2 })));
    }
    await expect(opened(folder)).rejects.toThrow(/ is missing$/);
  });
});
