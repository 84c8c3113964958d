/**
 * Meshes of devices and how arrays lie on them. In: axis names and sizes. Out: plain data, its text in Shardy, and
 * operations that speak of it. XLA's partitioner splits the programs and inserts the collectives.
 */
export {
  allGather,
  allReduce,
  allToAll,
  axisIndex,
  collectivePermute,
  reduceScatter,
} from "./collectives.ts";
export { withSharding } from "./constraint.ts";
export { mesh, meshSize, sameMesh, showMesh } from "./mesh.ts";
export {
  holders,
  type Partition,
  partition,
  pieceShape,
  replicated,
  type Sharding,
  samePartition,
  sameSharding,
  shardyMesh,
  shardyText,
  showPartition,
  splitLargestDim,
  wholeShape,
} from "./partition.ts";
export { placePiece, splitArray } from "./pieces.ts";
export { type PartitionTree, partitionsFor } from "./prefix.ts";
export type { ReduceKind } from "./reducing.ts";
export { type ShardMapOptions, shardMap } from "./shardMap.ts";
