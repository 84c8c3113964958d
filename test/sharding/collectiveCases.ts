/** Uses of every collective on drawn values of every dtype. */
import type fc from "fast-check";
import type { DType, HostArray, Mesh, Tensor } from "../../src/core/index.ts";
import {
  allGather,
  allReduce,
  allToAll,
  axisIndex,
  collectivePermute,
  type PartitionTree,
  partition,
  reduceScatter,
  replicated,
  shardMap,
} from "../../src/sharding/index.ts";
import { bits, exact, sums } from "../core/properties/compare.ts";
import { drawnCasesOf, type OpCase } from "../core/properties/opCase.ts";
import { arrays, ordinaryArrays } from "../core/properties/values.ts";

interface Use {
  readonly label: string;
  readonly f: (x: Tensor) => Tensor;
  readonly out: PartitionTree;
  readonly rule: Parameters<typeof drawnCasesOf>[2];
  /** Which draws of values; sums want those that lose little. */
  readonly values: (dtype: DType, shape: readonly number[]) => fc.Arbitrary<HostArray>;
}

/** Pieces are [2n, 3] on an axis of n devices. */
function uses(axis: string, size: number): Use[] {
  const ring = Array.from({ length: size }, (_, i) => [i, (i + 1) % size] as const);
  const rows = partition(axis);
  return [
    { label: "sum", f: (x) => allReduce(x, axis), out: replicated, rule: sums, values: ordinaryArrays },
    { label: "max", f: (x) => allReduce(x, axis, "max"), out: replicated, rule: () => exact, values: arrays },
    { label: "min", f: (x) => allReduce(x, axis, "min"), out: replicated, rule: () => exact, values: arrays },
    { label: "allGather", f: (x) => allGather(x, axis, 1), out: replicated, rule: () => bits, values: arrays },
    { label: "reduceScatter", f: (x) => reduceScatter(x, axis), out: rows, rule: sums, values: ordinaryArrays },
    {
      label: "allToAll",
      f: (x) => allToAll(x, axis, { split: 0, concat: 1 }),
      out: rows,
      rule: () => bits,
      values: arrays,
    },
    { label: "permute", f: (x) => collectivePermute(x, axis, ring), out: rows, rule: () => bits, values: arrays },
    {
      label: "permute of some",
      f: (x) => collectivePermute(x, axis, [[0, size - 1]]),
      out: rows,
      rule: () => bits,
      values: arrays,
    },
  ];
}

export function collectiveCases(mesh: Mesh, axis: string): OpCase[] {
  const size = mesh.axes.find(({ name }) => name === axis)!.size;
  return uses(axis, size).flatMap(({ label, f, out, rule, values }) =>
    drawnCasesOf(
      label,
      (dtype) =>
        values(dtype, [2 * size * size, 3]).map((x) => ({
          inputs: [x],
          f: shardMap(f, { mesh, in: [partition(axis)], out }),
        })),
      rule,
      1,
    ),
  );
}

/** The position of each device, where x lies over all axes. */
export const positions = (mesh: Mesh, axis: string) =>
  shardMap((x: Tensor) => x.add(axisIndex(axis).astype("float32")), {
    mesh,
    in: [partition(mesh.axes.map(({ name }) => name))],
    out: partition(mesh.axes.map(({ name }) => name)),
  });
