/** How an array lies on a mesh: for each of its dims the mesh axes that it is split over, and its text in Shardy. */
import { ShapeError, UserError } from "../base/errors.ts";
import { type Mesh, type Shape, type Spec, sameShape, showSpec, sizeOf } from "../core/index.ts";
import { axisSize, coordinatesOf, sameMesh } from "./mesh.ts";

/** For each dim the axes that split it, the slowest first; dims beyond the list are whole on every device. */
export interface Partition {
  readonly splits: readonly (readonly string[])[];
}

/** A partition on a mesh: where an array's pieces are. */
export interface Sharding {
  readonly mesh: Mesh;
  readonly partition: Partition;
}

/** One entry a dim: the axis (or axes) that split it, or null: `partition("data", null)`. Missing dims are whole. */
export function partition(...dims: readonly (string | readonly string[] | null)[]): Partition {
  const splits = dims.map((dim) => (dim === null ? [] : typeof dim === "string" ? [dim] : [...dim]));
  const axes = splits.flat();
  const twice = axes.find((axis, i) => axes.indexOf(axis) !== i);
  if (twice !== undefined)
    throw new UserError("E_SHARDING", `a partition can use an axis for one dim only; "${twice}" comes twice`);
  while (splits.at(-1)?.length === 0) splits.pop();
  return { splits };
}

/** Whole on every device. */
export const replicated: Partition = partition();

/** Fully sharded: the largest dim that an axis divides is split over it (the first of equal ones); else replicated. */
export function splitLargestDim({ shape }: Pick<Spec, "shape">, mesh: Mesh, axis: string): Partition {
  const devices = axisSize(mesh, axis);
  const fitting = shape.map((size) => (size > 0 && size % devices === 0 ? size : 0));
  const dim = fitting.indexOf(Math.max(1, ...fitting));
  return dim < 0 ? replicated : partition(...fitting.slice(0, dim).map(() => null), axis);
}

/** "[data, -]" for an array of so many dims. */
export function showPartition({ splits }: Partition, rank = splits.length): string {
  const dims = Array.from({ length: Math.max(rank, splits.length) }, (_, i) => splits[i]?.join("·") || "-");
  return dims.every((dim) => dim === "-") ? "replicated" : `[${dims.join(", ")}]`;
}

export function samePartition(a: Partition, b: Partition): boolean {
  return a.splits.length === b.splits.length && a.splits.every((axes, i) => axes.join() === b.splits[i]!.join());
}

export const sameSharding = (a: Sharding, b: Sharding): boolean =>
  sameMesh(a.mesh, b.mesh) && samePartition(a.partition, b.partition);

/** Pieces along dim `dim`. */
function piecesAlong({ mesh, partition }: Sharding, dim: number): number {
  return sizeOf((partition.splits[dim] ?? []).map((axis) => axisSize(mesh, axis)));
}

/** What is wrong with an array of this spec under a partition, with the arithmetic; undefined where it fits. */
function fault(spec: Spec, sharding: Sharding): string | undefined {
  const { splits } = sharding.partition;
  if (splits.length > spec.shape.length) {
    return `${showSpec(spec)} has ${spec.shape.length} dims; the partition ${showPartition(sharding.partition)} has ${splits.length}`;
  }
  for (const [dim, axes] of splits.entries()) {
    const [size, pieces] = [spec.shape[dim]!, piecesAlong(sharding, dim)];
    if (size % pieces === 0) continue;
    const over = axes.map((axis) => `${axis}=${axisSize(sharding.mesh, axis)}`).join(" × ");
    return `dim ${dim} of ${showSpec(spec)} can't be split over ${over}: ${size} / ${pieces} = ${Math.floor(size / pieces)} remainder ${size % pieces}; make it a multiple of ${pieces}`;
  }
  return undefined;
}

/** The shape of one device's piece. `what` names the array in errors. @throws UserError where it can't be split. */
export function pieceShape(spec: Spec, sharding: Sharding, what?: string): Shape {
  const wrong = fault(spec, sharding);
  if (wrong !== undefined) throw new UserError("E_SHARDING", `${what === undefined ? "" : `${what}: `}${wrong}`);
  return spec.shape.map((size, dim) => size / piecesAlong(sharding, dim));
}

/** The same while tracing. @throws ShapeError from the user's line */
export function tracedPieceShape(spec: Spec, sharding: Sharding, what: string): Shape {
  try {
    return pieceShape(spec, sharding, what);
  } catch (error) {
    throw error instanceof UserError ? new ShapeError(error.message) : error;
  }
}

/** The whole array's shape, from that of a piece. */
export function wholeShape(piece: Shape, sharding: Sharding): Shape {
  return piece.map((size, dim) => size * piecesAlong(sharding, dim));
}

/** Index of a device's piece along each of `rank` dims. */
export function pieceIndex({ mesh, partition: { splits } }: Sharding, rank: number, device: number): number[] {
  const at = coordinatesOf(mesh, device);
  return Array.from({ length: rank }, (_, dim) =>
    (splits[dim] ?? []).reduce((index, axis) => index * axisSize(mesh, axis) + at.get(axis)!, 0),
  );
}

/** One device for each distinct piece: the first that has it. */
export function holders(sharding: Sharding, spec: Spec, numDevices: number): number[] {
  if (sameShape(pieceShape(spec, sharding), spec.shape)) return [0];
  const seen = new Set<string>();
  return Array.from({ length: numDevices }, (_, device) => device).filter((device) => {
    const key = pieceIndex(sharding, spec.shape.length, device).join();
    return seen.has(key) ? false : seen.add(key);
  });
}

/** `<@mesh, [{"data"}, {}]>` for an array of `rank` dims. */
export function shardyText({ splits }: Partition, rank: number): string {
  const dims = Array.from({ length: rank }, (_, i) => `{${(splits[i] ?? []).map((axis) => `"${axis}"`).join(", ")}}`);
  return `<@mesh, [${dims.join(", ")}]>`;
}

/** The mesh's declaration in a module. */
export function shardyMesh({ axes }: Mesh): string {
  return `sdy.mesh @mesh = <[${axes.map(({ name, size }) => `"${name}"=${size}`).join(", ")}]>`;
}
