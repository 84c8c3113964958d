/** Trees of arrays: to the device, to the host, and freed. */
import { type HostArray, type MapTree, treeLeaves, treeUnflatten } from "../core/index.ts";
import { type Client, type DeviceArray, put } from "../pjrt/index.ts";

/** Uploads every array of a tree. The caller owns the result. */
export async function putTree<T>(tree: T, client?: Client): Promise<MapTree<T, HostArray, DeviceArray>> {
  const arrays: DeviceArray[] = [];
  for (const leaf of treeLeaves<HostArray>(tree)) arrays.push(await put(leaf, client));
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
