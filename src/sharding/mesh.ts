/** Meshes: devices in a grid of named axes. Device numbers are the row-major positions in it. */
import { UserError } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";
import { type Mesh, sizeOf } from "../core/index.ts";

/** A mesh by the sizes of its axes, the slowest first: `mesh({ data: 4 })`. @throws UserError */
export function mesh(axes: Readonly<Record<string, number>>): Mesh {
  const entries = Object.entries(axes);
  if (entries.length === 0) throw new UserError("E_MESH", "a mesh needs an axis: mesh({ data: 4 })");
  for (const [name, size] of entries) {
    if (!/^[A-Za-z_]\w*$/.test(name))
      throw new UserError("E_MESH", `"${name}" can't name a mesh axis: take letters, digits and "_", a letter first`);
    if (!(Number.isSafeInteger(size) && size >= 1))
      throw new UserError("E_MESH", `mesh axis "${name}" must be a whole number of devices from 1; got ${size}`);
  }
  return { axes: entries.map(([name, size]) => ({ name, size })) };
}

/** Number of devices. */
export const meshSize = ({ axes }: Mesh): number => sizeOf(axes.map(({ size }) => size));

/** "data=2 × model=4 = 8 devices" */
export function showMesh(mesh: Mesh): string {
  const axes = mesh.axes.map(({ name, size }) => `${name}=${size}`).join(" × ");
  return `${axes}${mesh.axes.length > 1 ? ` = ${meshSize(mesh)}` : ""} device${meshSize(mesh) === 1 ? "" : "s"}`;
}

export const sameMesh = (a: Mesh, b: Mesh): boolean =>
  a === b ||
  (a.axes.length === b.axes.length &&
    a.axes.every(({ name, size }, i) => name === b.axes[i]!.name && size === b.axes[i]!.size));

/** Devices along an axis. @throws UserError where the mesh has no such axis, naming the nearest. */
export function axisSize(mesh: Mesh, axis: string): number {
  const found = mesh.axes.find(({ name }) => name === axis);
  if (found !== undefined) return found.size;
  const names = mesh.axes.map(({ name }) => name);
  const near = nearest(axis, names);
  throw new UserError(
    "E_MESH",
    `the mesh has no axis "${axis}", but ${names.map((name) => `"${name}"`).join(", ")}${near ? `; did you mean "${near}"?` : ""}`,
  );
}

/** Position of a device along each axis. */
export function coordinatesOf({ axes }: Mesh, device: number): ReadonlyMap<string, number> {
  const coordinates = new Map<string, number>();
  let rest = device;
  for (const { name, size } of [...axes].reverse()) {
    coordinates.set(name, rest % size);
    rest = Math.floor(rest / size);
  }
  return coordinates;
}

/** Devices that differ only along `axis`, in the order of their positions on it: the groups of a collective. */
export function groupsAlong(mesh: Mesh, axis: string): number[][] {
  const groups = new Map<string, number[]>();
  for (let device = 0; device < meshSize(mesh); device++) {
    const others = [...coordinatesOf(mesh, device)].filter(([name]) => name !== axis);
    const key = others.map(([name, at]) => `${name}=${at}`).join(",");
    groups.set(key, [...(groups.get(key) ?? []), device]);
  }
  return [...groups.values()];
}
