/** Trees of arrays: to the device, to the host, and freed. */
import { type HostArray, type MapTree, type Mesh, treeLeaves, treeUnflatten } from "../core/index.ts";
import { type Client, type DeviceArray, put } from "../pjrt/index.ts";
import { type PartitionTree, partitionsFor } from "../sharding/index.ts";

/** How a tree of arrays lies on a mesh: a tree of Partitions or a prefix of it. */
export interface Placing {
  readonly mesh: Mesh;
  readonly shardings: PartitionTree;
}

/** Uploads every array of a tree, to one device or as `placing` says. The caller owns the result. @throws UserError */
export async function putTree<T>(
  tree: T,
  client?: Client,
  placing?: Placing,
): Promise<MapTree<T, HostArray, DeviceArray>> {
  const partitions = placing && partitionsFor(placing.shardings, tree, "putTree: shardings");
  const arrays: DeviceArray[] = [];
  try {
    for (const [i, leaf] of treeLeaves<HostArray>(tree).entries()) {
      const place = placing && { mesh: placing.mesh, partition: partitions![i]! };
      arrays.push(put(leaf, client, place));
    }
  } catch (error) {
    for (const array of arrays) array.dispose();
    throw error;
  }
  return treeUnflatten(tree, arrays);
}

/** Copies every array of a tree to the host, when it is computed. */
export async function fetchTree<T>(tree: T): Promise<MapTree<T, DeviceArray, HostArray>> {
  return treeUnflatten(tree, await Promise.all(treeLeaves<DeviceArray>(tree).map((array) => array.toHost())));
}

/** Frees every array of a tree. */
export function disposeTree(tree: unknown): void {
  for (const array of treeLeaves<DeviceArray>(tree)) array.dispose();
}
