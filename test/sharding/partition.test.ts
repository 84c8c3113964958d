import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type HostArray, hostArray, sizeOf, spec } from "../../src/core/index.ts";
import { mesh, meshSize, showMesh } from "../../src/sharding/index.ts";
import { groupsAlong } from "../../src/sharding/mesh.ts";
import {
  holders,
  partition,
  pieceShape,
  replicated,
  shardyMesh,
  shardyText,
  showPartition,
  splitLargestDim,
  wholeShape,
} from "../../src/sharding/partition.ts";
import { placePiece, splitArray } from "../../src/sharding/pieces.ts";
import { partitionsFor } from "../../src/sharding/prefix.ts";

const grid = mesh({ data: 2, model: 3 });

describe("a mesh", () => {
  it("counts its devices row by row", () => {
    expect(meshSize(grid)).toBe(6);
    expect(showMesh(grid)).toBe("data=2 × model=3 = 6 devices");
    expect(showMesh(mesh({ data: 1 }))).toBe("data=1 device");
    expect(groupsAlong(grid, "model")).toEqual([
      [0, 1, 2],
      [3, 4, 5],
    ]);
    expect(groupsAlong(grid, "data")).toEqual([
      [0, 3],
      [1, 4],
      [2, 5],
    ]);
  });

  it("refuses what is none", () => {
    expect(() => mesh({})).toThrow("a mesh needs an axis");
    expect(() => mesh({ data: 0 })).toThrow('mesh axis "data" must be a whole number of devices from 1; got 0');
    expect(() => mesh({ "my axis": 2 })).toThrow(`"my axis" can't name a mesh axis`);
  });
});

describe("a partition", () => {
  it("reads in Shardy as what it says", () => {
    expect(shardyMesh(grid)).toBe('sdy.mesh @mesh = <["data"=2, "model"=3]>');
    expect(shardyText(partition(["model", "data"], null), 3)).toBe('<@mesh, [{"model", "data"}, {}, {}]>');
    expect(shardyText(replicated, 0)).toBe("<@mesh, []>");
    expect(showPartition(partition(null, "data"), 3)).toBe("[-, data, -]");
    expect(showPartition(partition(null, null))).toBe("replicated");
  });

  it("refuses, with the arithmetic, what can't be split", () => {
    const on = (p: ReturnType<typeof partition>) => ({ mesh: grid, partition: p });
    expect(() => pieceShape(spec([3, 32], "int32"), on(partition("data")), "tokens")).toThrow(
      "tokens: dim 0 of int32[3,32] can't be split over data=2: 3 / 2 = 1 remainder 1; make it a multiple of 2",
    );
    expect(() => pieceShape(spec([8], "int32"), on(partition(["data", "model"])))).toThrow(
      "over data=2 × model=3: 8 / 6 = 1 remainder 2",
    );
    expect(() => pieceShape(spec([4], "int32"), on(partition(null, "data")))).toThrow("has 1 dims; the partition");
    expect(() => pieceShape(spec([4], "int32"), on(partition("date")))).toThrow(
      'the mesh has no axis "date", but "data", "model"; did you mean "data"?',
    );
    expect(() => partition("data", "data")).toThrow('"data" comes twice');
  });

  it("fully sharded, splits the largest dim that fits", () => {
    const split = (...shape: number[]) => splitLargestDim({ shape }, grid, "model");
    expect([split(6, 9), split(6, 6), split(9, 10), split(4), split()]).toEqual([
      partition(null, "model"),
      partition("model"),
      partition("model"),
      replicated,
      replicated,
    ]);
  });

  it("cuts any array into pieces that make it again", () => {
    const axes = fc.constantFrom(null, "data", "model", ["data", "model"], ["model", "data"]);
    const cases = fc
      .array(fc.record({ pieces: fc.integer({ min: 1, max: 2 }), axis: axes }), { maxLength: 3 })
      .filter((dims) => {
        const used = dims.flatMap(({ axis }) => axis ?? []);
        return new Set(used).size === used.length;
      });
    fc.assert(
      fc.property(cases, (dims) => {
        const sharding = { mesh: grid, partition: partition(...dims.map(({ axis }) => axis)) };
        const shape = dims.map(({ pieces }) => pieces * 6);
        const host = hostArray(
          shape,
          "int16",
          Int16Array.from({ length: sizeOf(shape) }, (_, i) => i),
        );
        const parts = splitArray(host, sharding);
        for (const part of parts) expect(wholeShape(part.shape, sharding)).toEqual(shape);
        const from = holders(sharding, host, 6);
        expect(from.reduce((sum, device) => sum + parts[device]!.data.length, 0)).toBe(sizeOf(shape));
        const again: HostArray = { ...host, data: new Int16Array(host.data.length) };
        for (const device of from) placePiece(again, parts[device]!, sharding, device);
        expect(again).toEqual(host);
      }),
    );
  });

  it("gives the first axis of a dim the largest strides", () => {
    const host = hostArray([6], "int8", Int8Array.of(0, 1, 2, 3, 4, 5));
    const pieces = (...axes: string[]) =>
      splitArray(host, { mesh: grid, partition: partition(axes) }).map(({ data }) => [...data]);
    expect(pieces("data", "model")).toEqual([[0], [1], [2], [3], [4], [5]]);
    expect(pieces("model", "data")).toEqual([[0], [2], [4], [1], [3], [5]]);
    expect(pieces("model")).toEqual([0, 1, 2, 0, 1, 2].map((i) => [2 * i, 2 * i + 1]));
  });
});

describe("partitions for a tree", () => {
  const leaf = spec([4], "float32");
  const tree = [
    {
      embed: leaf,
      layers: [
        { q: leaf, k: leaf },
        { q: leaf, k: leaf },
      ],
    },
    undefined,
    leaf,
  ];
  const rows = partition("data");

  it("may stand for whole subtrees", () => {
    const given = [{ embed: null, layers: [rows, { q: rows, k: replicated }] }, null, undefined];
    expect(partitionsFor(given, tree, "in")).toEqual([replicated, rows, rows, rows, replicated, replicated]);
    expect(partitionsFor(rows, tree, "in")).toEqual(Array.from({ length: 6 }, () => rows));
  });

  it("must name every key, and only those", () => {
    expect(() => partitionsFor([{ embed: rows }, null, null], tree, "in")).toThrow(
      'in: no partition for "0.layers"; null there means replicated',
    );
    expect(() => partitionsFor([{ embed: rows, layer: rows }, null, null], tree, "in")).toThrow(
      'in at "0": there is nothing called "layer"; did you mean "layers"?',
    );
    expect(() => partitionsFor([null, null, { w: rows }], tree, "in")).toThrow('in at "2": expected a partition');
  });
});
