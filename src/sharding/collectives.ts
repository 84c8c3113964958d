/**
 * Collectives: operations in which devices along a mesh axis meet, inside `shardMap`. Each is linear (but for max and min),
 * and its reverse rule is the transposed exchange, where a value that all devices hold counts once for each of them.
 */
import { ShapeError, UserError } from "../base/errors.ts";
import { applyOne, type Mesh, type Op, type Spec, showSpec, type Tensor, type Values } from "../core/index.ts";
import { checkDim } from "../core/ops/shape.ts";
import { allocate } from "../core/values.ts";
import { interpretedDevice, meet, perDeviceMesh } from "./exchange.ts";
import { axisSize, coordinatesOf, groupsAlong, meshSize } from "./mesh.ts";
import { partition } from "./partition.ts";
import { placePiece, splitArray } from "./pieces.ts";
import { checkReducible, emitReducing, type ReduceKind, reduceValues } from "./reducing.ts";

interface Along {
  readonly mesh: Mesh;
  readonly axis: string;
}

/** A mesh of one axis: how the pieces of a group lie in a whole array along a dim. */
function alongDim({ mesh, axis }: Along, dim: number) {
  const size = axisSize(mesh, axis);
  const sharding = {
    mesh: { axes: [{ name: axis, size }] },
    partition: partition(...Array.from({ length: dim }, () => null), axis),
  };
  return {
    size,
    join: (pieces: readonly Values[]): Values => {
      const first = pieces[0]!;
      const shape = first.shape.with(dim, first.shape[dim]! * size);
      const whole: Values = { shape, dtype: first.dtype, data: allocate(first.dtype, first.data.length * size) };
      pieces.forEach((piece, i) => {
        placePiece(whole, piece, sharding, i);
      });
      return whole;
    },
    split: (whole: Values): Values[] => splitArray(whole, sharding),
  };
}

/** A meeting of all devices from one of each group along the axis. */
const inGroups =
  ({ mesh, axis }: Along, f: (members: readonly Values[]) => readonly Values[]) =>
  (all: readonly Values[]): readonly Values[] => {
    const results: Values[] = [];
    for (const group of groupsAlong(mesh, axis)) {
      const taken = f(group.map((device) => all[device]!));
      group.forEach((device, i) => {
        results[device] = taken[i]!;
      });
    }
    return results;
  };

const channel = { channel_handle: "#stablehlo.channel_handle<handle = 1, type = 1>" };

/** Attributes by which StableHLO names the groups. */
function groupAttributes({ mesh, axis }: Along): Record<string, string> {
  const groups = groupsAlong(mesh, axis);
  const type = `tensor<${groups.length}x${groups[0]!.length}xi64>`;
  return { ...channel, replica_groups: `dense<${JSON.stringify(groups)}> : ${type}`, use_global_device_ids: "unit" };
}

const allReduceOp: Op<Along & { readonly kind: ReduceKind }> = {
  name: "all_reduce",
  shape: ([x], { kind }) => {
    checkReducible("allReduce", x!, kind);
    return [x!];
  },
  vjp: ({ inputs: [x], outputs: [y], params, cts: [ct] }) => {
    const sum = (t: Tensor) => allReduceOn(t, { ...params, kind: "sum" });
    if (params.kind === "sum") return [sum(ct!)];
    // The extremum's cotangent goes to the elements that equal it, in equal parts.
    const hit = x!.eq(y!).astype(x!.dtype);
    return [sum(ct!).div(sum(hit)).mul(hit)];
  },
  lower: (e, [x], params, [out]) => {
    const attributes = groupAttributes(params);
    return [emitReducing(e, { name: "stablehlo.all_reduce", x: x!, out: out!, kind: params.kind, attributes })];
  },
  interpret: ([x], params) => [
    meet(
      x!,
      inGroups(params, (members) => {
        const reduced = reduceValues(members, params.kind);
        return members.map(() => reduced);
      }),
    ),
  ],
  show: ({ axis, kind }) => `${axis} ${kind}`,
};

type AlongDim = Along & { readonly dim: number };

/** The shape with dim `dim` divided by the devices of the axis. @throws ShapeError with the arithmetic */
function dividedShape(name: string, x: Spec, { mesh, axis, dim }: AlongDim): readonly number[] {
  const [size, devices] = [x.shape[dim]!, axisSize(mesh, axis)];
  if (size % devices !== 0)
    throw new ShapeError(
      `${name}: dim ${dim} of ${showSpec(x)} can't be split over ${axis}=${devices}: ${size} / ${devices} = ${Math.floor(size / devices)} remainder ${size % devices}`,
    );
  return x.shape.with(dim, size / devices);
}

const allGatherOp: Op<AlongDim> = {
  name: "all_gather",
  shape: ([x], { mesh, axis, dim }) => [
    { shape: x!.shape.with(dim, x!.shape[dim]! * axisSize(mesh, axis)), dtype: x!.dtype },
  ],
  vjp: ({ params, cts: [ct] }) => [applyOne(reduceScatterOp, [ct!], params)],
  lower: (e, [x], params, outputs) =>
    e.op("stablehlo.all_gather", [x!], outputs, { all_gather_dim: `${params.dim} : i64`, ...groupAttributes(params) }),
  interpret: ([x], params) => [
    meet(
      x!,
      inGroups(params, (members) => {
        const whole = alongDim(params, params.dim).join(members);
        return members.map(() => whole);
      }),
    ),
  ],
  show: ({ axis, dim }) => `${axis} dim=${dim}`,
};

const reduceScatterOp: Op<AlongDim> = {
  name: "reduce_scatter",
  shape: ([x], params) => {
    checkReducible("reduceScatter", x!, "sum");
    return [{ shape: dividedShape("reduceScatter", x!, params), dtype: x!.dtype }];
  },
  vjp: ({ params, cts: [ct] }) => [applyOne(allGatherOp, [ct!], params)],
  lower: (e, [x], params, [out]) => {
    const attributes = { scatter_dimension: `${params.dim} : i64`, ...groupAttributes(params) };
    return [emitReducing(e, { name: "stablehlo.reduce_scatter", x: x!, out: out!, kind: "sum", attributes })];
  },
  interpret: ([x], params) => [
    meet(
      x!,
      inGroups(params, (members) => alongDim(params, params.dim).split(reduceValues(members, "sum"))),
    ),
  ],
  show: ({ axis, dim }) => `${axis} dim=${dim}`,
};

const allToAllOp: Op<Along & { readonly split: number; readonly concat: number }> = {
  name: "all_to_all",
  shape: ([x], { split, concat, ...along }) => {
    const parts = dividedShape("allToAll", x!, { ...along, dim: split });
    return [{ shape: parts.with(concat, parts[concat]! * axisSize(along.mesh, along.axis)), dtype: x!.dtype }];
  },
  vjp: ({ params: { split, concat, ...along }, cts: [ct] }) => [
    applyOne(allToAllOp, [ct!], { ...along, split: concat, concat: split }),
  ],
  lower: (e, [x], params, outputs) => {
    const { use_global_device_ids: _, ...groups } = groupAttributes(params);
    return e.op("stablehlo.all_to_all", [x!], outputs, {
      split_dimension: `${params.split} : i64`,
      concat_dimension: `${params.concat} : i64`,
      split_count: `${axisSize(params.mesh, params.axis)} : i64`,
      ...groups,
    });
  },
  interpret: ([x], params) => [
    meet(
      x!,
      inGroups(params, (members) => {
        const parts = members.map(alongDim(params, params.split).split);
        return members.map((_, i) => alongDim(params, params.concat).join(parts.map((list) => list[i]!)));
      }),
    ),
  ],
  show: ({ axis, split, concat }) => `${axis} split=${split} concat=${concat}`,
};

/** Who sends to whom. */
export type Pairs = readonly (readonly [from: number, to: number])[];

const permuteOp: Op<Along & { readonly pairs: Pairs }> = {
  name: "collective_permute",
  shape: ([x], { mesh, axis, pairs }) => {
    const size = axisSize(mesh, axis);
    const list = JSON.stringify(pairs);
    if (!pairs.flat().every((at) => Number.isInteger(at) && at >= 0 && at < size))
      throw new ShapeError(`collectivePermute: positions on ${axis} are 0 to ${size - 1}; got ${list}`);
    for (const side of [0, 1])
      if (new Set(pairs.map((pair) => pair[side])).size !== pairs.length)
        throw new ShapeError(`collectivePermute: each device can send once and receive once; got ${list}`);
    return [x!];
  },
  vjp: ({ params, cts: [ct] }) => [
    applyOne(permuteOp, [ct!], { ...params, pairs: params.pairs.map(([from, to]) => [to, from] as const) }),
  ],
  lower: (e, [x], { pairs, ...along }, [out]) => {
    if (pairs.length === 0) return [e.splat(0, out!)];
    const devices = groupsAlong(along.mesh, along.axis).flatMap((group) =>
      pairs.map(([from, to]) => [group[from]!, group[to]!]),
    );
    const source_target_pairs = `dense<${JSON.stringify(devices)}> : tensor<${devices.length}x2xi64>`;
    return e.op("stablehlo.collective_permute", [x!], [out!], { source_target_pairs, ...channel });
  },
  interpret: ([x], params) => [
    meet(
      x!,
      inGroups(params, (members) =>
        members.map(({ shape, dtype, data }, to) => {
          const pair = params.pairs.find((pair) => pair[1] === to);
          return pair ? members[pair[0]]! : { shape, dtype, data: allocate(dtype, data.length) };
        }),
      ),
    ),
  ],
  show: ({ axis, pairs }) => `${axis} ${JSON.stringify(pairs)}`,
};

const axisIndexOp: Op<Along> = {
  name: "axis_index",
  shape: () => [{ shape: [], dtype: "int32" }],
  vjp: "none",
  lower: (e, _, { mesh, axis }, [out]) => {
    const word: Spec = { shape: [], dtype: "uint32" };
    const at = mesh.axes.findIndex(({ name }) => name === axis);
    const stride = meshSize({ axes: mesh.axes.slice(at + 1) });
    const [device] = e.op("stablehlo.partition_id", [], [word]);
    const [row] = e.op("stablehlo.divide", [device!, e.splat(stride, word)], [word]);
    const [index] = e.op("stablehlo.remainder", [row!, e.splat(axisSize(mesh, axis), word)], [word]);
    return e.op("stablehlo.convert", [index!], [out!]);
  },
  interpret: (_, { mesh, axis }) => [
    { shape: [], dtype: "int32", data: Int32Array.of(coordinatesOf(mesh, interpretedDevice()).get(axis)!) },
  ],
  show: ({ axis }) => axis,
};

/** For reverse rules, which are traced outside of the function: the mesh is given. */
export const allReduceOn = (x: Tensor, params: Along & { readonly kind: ReduceKind }): Tensor =>
  applyOne(allReduceOp, [x], params);
export const axisIndexOn = (mesh: Mesh, axis: string): Tensor => applyOne(axisIndexOp, [], { mesh, axis });

/** The mesh around, and its axis. @throws ShapeError outside `shardMap` or where there is no such axis. */
function around(name: string, axis: string): Along {
  const mesh = perDeviceMesh();
  if (mesh === undefined) throw new ShapeError(`${name}: devices meet only inside shardMap(f, { mesh, in, out })`);
  try {
    axisSize(mesh, axis);
  } catch (error) {
    throw error instanceof UserError ? new ShapeError(`${name}: ${error.message}`) : error;
  }
  return { mesh, axis };
}

/** The sum (maximum, minimum) of x over the devices along an axis, on each of them. @throws ShapeError */
export const allReduce = (x: Tensor, axis: string, kind: ReduceKind = "sum"): Tensor =>
  allReduceOn(x, { ...around("allReduce", axis), kind });

/** The devices' x side by side along `dim`, on each of them. @throws ShapeError */
export const allGather = (x: Tensor, axis: string, dim = 0): Tensor =>
  applyOne(allGatherOp, [x], { ...around("allGather", axis), dim: checkDim("allGather", x, dim) });

/** The sum of x over the devices along an axis, of which each keeps its part of `dim`. @throws ShapeError */
export const reduceScatter = (x: Tensor, axis: string, dim = 0): Tensor =>
  applyOne(reduceScatterOp, [x], { ...around("reduceScatter", axis), dim: checkDim("reduceScatter", x, dim) });

/** Each device sends part i of dim `split` to device i, and puts what it gets side by side along `concat`. @throws ShapeError */
export const allToAll = (
  x: Tensor,
  axis: string,
  { split, concat }: { readonly split: number; readonly concat: number },
): Tensor =>
  applyOne(allToAllOp, [x], {
    ...around("allToAll", axis),
    split: checkDim("allToAll", x, split),
    concat: checkDim("allToAll", x, concat),
  });

/** x of device `from` for device `to`, for each pair of positions on the axis; zeros where nothing comes. @throws ShapeError */
export const collectivePermute = (x: Tensor, axis: string, pairs: Pairs): Tensor =>
  applyOne(permuteOp, [x], { ...around("collectivePermute", axis), pairs });

/** This device's position on an axis, an int32 scalar. @throws ShapeError */
export function axisIndex(axis: string): Tensor {
  const { mesh } = around("axisIndex", axis);
  return axisIndexOn(mesh, axis);
}
