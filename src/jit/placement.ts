/** Where the arguments and results of a function compiled for a mesh lie, checked before anything is traced or compiled. */
import { UserError } from "../base/errors.ts";
import { type Mesh, type Spec, showSpec, treePaths } from "../core/index.ts";
import { type Client, checkMeshOf, DeviceArray } from "../pjrt/index.ts";
import {
  type PartitionTree,
  partitionsFor,
  pieceShape,
  type Sharding,
  sameSharding,
  showMesh,
  showPartition,
} from "../sharding/index.ts";

/** Of every leaf of the arguments and of the result. */
export interface Placed {
  readonly inputs: readonly Sharding[];
  readonly outputs: readonly Sharding[];
}

interface PlacementOptions {
  readonly mesh?: Mesh;
  readonly inShardings?: readonly PartitionTree[];
  readonly outShardings?: PartitionTree;
}

interface PlaceContext {
  /** Of the function, for errors. */
  readonly name: string;
  readonly options: PlacementOptions;
}

/** Undefined for a function on one device. @throws UserError with the arithmetic of what does not fit. */
export function placeArguments(
  args: readonly unknown[],
  { name, options, client }: PlaceContext & { readonly client: Client },
): readonly Sharding[] | undefined {
  const { mesh, inShardings, outShardings } = options;
  if (mesh === undefined) {
    if (inShardings === undefined && outShardings === undefined) return undefined;
    throw new UserError("E_MESH", `${name}: inShardings and outShardings need a mesh: jit(f, { mesh, inShardings })`);
  }
  checkMeshOf(client, { mesh });
  const inputs = place(inShardings, args, mesh, { tree: `${name}: inShardings`, leaf: `${name}: argument` });
  treePaths(args).forEach(({ path, leaf }, i) => {
    if (leaf instanceof DeviceArray) checkPlace(leaf, inputs[i], `${name}: argument ${path}`);
  });
  return inputs;
}

/** @throws UserError */
export function placeResults(result: unknown, { name, options }: PlaceContext): readonly Sharding[] {
  return place(options.outShardings, result, options.mesh!, {
    tree: `${name}: outShardings`,
    leaf: `${name}: result`,
  });
}

function place(
  prefix: PartitionTree,
  tree: unknown,
  mesh: Mesh,
  what: { readonly tree: string; readonly leaf: string },
): readonly Sharding[] {
  const partitions = partitionsFor(prefix, tree, what.tree);
  return treePaths(tree).map(({ path, leaf }, i) => {
    const sharding: Sharding = { mesh, partition: partitions[i]! };
    pieceShape(leaf as Spec, sharding, path === "" ? what.leaf : `${what.leaf} ${path}`);
    return sharding;
  });
}

/** @throws UserError where a device array does not lie as the compiled function takes it. */
export function checkPlace(array: DeviceArray, wanted: Sharding | undefined, what: string): void {
  if (wanted === undefined || (array.sharding !== undefined && sameSharding(array.sharding, wanted))) return;
  const show = ({ mesh, partition }: Sharding) =>
    `${showPartition(partition, array.shape.length)} over ${showMesh(mesh)}`;
  const got =
    array.sharding === undefined ? `on ${array.buffers.length} device(s) without a sharding` : show(array.sharding);
  throw new UserError(
    "E_SHARDING",
    `${what}, ${showSpec(array)}, is ${got}; the function takes it ${show(wanted)}. Move it by reshard, or give a host array`,
  );
}
