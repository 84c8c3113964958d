/** Moving arrays between shardings. */
import { type MapTree, type Tensor, treeLeaves, treeUnflatten } from "../core/index.ts";
import { type DeviceArray, put } from "../pjrt/index.ts";
import { partitionsFor, type Sharding, sameMesh } from "../sharding/index.ts";
import { jit } from "./jit.ts";
import type { Placing } from "./trees.ts";

/**
 * The arrays of a tree, laid out as `shardings` says; the given ones stay as they are. Between shardings of one mesh the
 * devices exchange pieces; anything else goes through host memory. The caller owns the result. @throws UserError
 */
export async function reshard<T>(tree: T, { mesh, shardings }: Placing): Promise<MapTree<T, DeviceArray, DeviceArray>> {
  const arrays = treeLeaves<DeviceArray>(tree);
  const targets = partitionsFor(shardings, tree, "reshard: shardings").map((partition) => ({ mesh, partition }));
  const moved = await Promise.all(arrays.map((array, i) => moveOne(array, targets[i]!)));
  return treeUnflatten(tree, moved);
}

async function moveOne(array: DeviceArray, target: Sharding): Promise<DeviceArray> {
  const { client, sharding } = array;
  if (sharding === undefined || !sameMesh(sharding.mesh, target.mesh)) return put(await array.toHost(), client, target);
  const move = jit((x: Tensor) => x, {
    name: "reshard",
    client,
    mesh: target.mesh,
    inShardings: [sharding.partition],
    outShardings: target.partition,
  });
  try {
    return await move(array);
  } finally {
    move.dispose();
  }
}
