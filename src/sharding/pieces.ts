/** Arrays in host memory cut into the pieces of devices, and put together again. */
import { type Shape, type Spec, sameShape, sizeOf, type TypedArray } from "../core/index.ts";
import { offsets, stridesOf } from "../core/values.ts";
import { meshSize } from "./mesh.ts";
import { pieceIndex, pieceShape, type Sharding } from "./partition.ts";

/** A host array, or the interpreter's values. */
interface Stored extends Spec {
  readonly data: TypedArray;
}

/** Where the runs of neighbouring elements of a device's piece begin in the whole array, and how long they are. */
function runsOf(whole: Shape, piece: Shape, index: readonly number[]): { starts: Int32Array; length: number } {
  const strides = stridesOf(whole);
  const base = index.reduce((sum, at, dim) => sum + at * piece[dim]! * strides[dim]!, 0);
  const last = piece.findLastIndex((size, dim) => size !== whole[dim]);
  return {
    starts: offsets(piece.slice(0, last), strides.slice(0, last), base),
    length: sizeOf(piece.slice(last)),
  };
}

/** One piece for each device, in the order of devices. Pieces may share memory with `host`. @throws UserError */
export function splitArray<A extends Stored>(host: A, sharding: Sharding): A[] {
  const { shape: whole, dtype } = host;
  const shape = pieceShape(host, sharding);
  const devices = Array.from({ length: meshSize(sharding.mesh) }, (_, device) => device);
  if (sameShape(shape, whole)) return devices.map(() => host);
  return devices.map((device): A => {
    const { starts, length } = runsOf(whole, shape, pieceIndex(sharding, whole.length, device));
    const cut = (start: number) => host.data.subarray(start, start + length) as TypedArray;
    if (starts.length === 1) return { shape, dtype, data: cut(starts[0]!) } as A;
    const data = host.data.slice(0, sizeOf(shape)) as Uint8Array;
    starts.forEach((start, i) => data.set(cut(start) as Uint8Array, i * length));
    return { shape, dtype, data } as Stored as A;
  });
}

/** Writes a device's piece where it belongs in the whole array. */
export function placePiece(whole: Stored, piece: Stored, sharding: Sharding, device: number): void {
  const { starts, length } = runsOf(whole.shape, piece.shape, pieceIndex(sharding, whole.shape.length, device));
  const [to, from] = [whole.data as Uint8Array, piece.data as Uint8Array];
  starts.forEach((start, i) => {
    to.set(from.subarray(i * length, (i + 1) * length), start);
  });
}
