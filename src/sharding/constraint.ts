/** Saying inside a program how a value lies on the mesh. */
import { ShapeError, UserError } from "../base/errors.ts";
import { applyOne, type Emitter, type Mesh, type Op, type Tensor } from "../core/index.ts";
import { perDeviceMesh } from "./exchange.ts";
import { sameMesh, showMesh } from "./mesh.ts";
import { type Partition, type Sharding, shardyText, showPartition, tracedPieceShape } from "./partition.ts";

const constraintOp: Op<Sharding> = {
  name: "with_sharding",
  shape: ([x], sharding) => {
    tracedPieceShape(x!, sharding, "withSharding");
    return [x!];
  },
  vjp: ({ params: { mesh, partition }, cts: [ct] }) => [withSharding(ct!, mesh, partition)],
  lower: (e, [x], { mesh, partition }, outputs) => {
    if (e.mesh === undefined) return [x!];
    checkMesh(e, mesh, "withSharding");
    const sharding = `#sdy.sharding${shardyText(partition, x!.shape.length)}`;
    return e.op("sdy.sharding_constraint", [x!], outputs, { sharding });
  },
  interpret: (inputs) => inputs,
  show: ({ partition }) => showPartition(partition),
};

/** @throws UserError where a program for another mesh (or for one device) is emitted. */
export function checkMesh(e: Emitter, wanted: Mesh, what: string): void {
  if (e.mesh !== undefined && sameMesh(e.mesh, wanted)) return;
  const got = e.mesh === undefined ? "one device; give jit the same mesh" : `${showMesh(e.mesh)}`;
  throw new UserError("E_MESH", `${what} is over a mesh of ${showMesh(wanted)}; the program is compiled for ${got}`);
}

/**
 * x, laid out on the mesh as `partition` says, with the collectives that this needs; its cotangent is laid out likewise.
 * In a program for one device it is x. @throws ShapeError where x can't be split so.
 */
export function withSharding(x: Tensor, mesh: Mesh, partition: Partition): Tensor {
  if (perDeviceMesh() !== undefined)
    throw new ShapeError("withSharding: inside shardMap every value is one device's own; call it outside");
  return applyOne(constraintOp, [x], { mesh, partition });
}
