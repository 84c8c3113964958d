/** Host arrays cut into the pieces of devices, and put together again. */
import { type HostArray, type Shape, sameShape, sizeOf, type TypedArray } from "../core/index.ts";
import { offsets, stridesOf } from "../core/values.ts";
import { meshSize } from "./mesh.ts";
import { pieceIndex, pieceShape, type Sharding } from "./partition.ts";

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
export function splitArray(host: HostArray, sharding: Sharding): HostArray[] {
  const { shape: whole, dtype } = host;
  const shape = pieceShape(host, sharding);
  const devices = Array.from({ length: meshSize(sharding.mesh) }, (_, device) => device);
  if (sameShape(shape, whole)) return devices.map(() => host);
  return devices.map((device) => {
    const { starts, length } = runsOf(whole, shape, pieceIndex(sharding, whole.length, device));
    const cut = (start: number) => host.data.subarray(start, start + length) as TypedArray;
    if (starts.length === 1) return { shape, dtype, data: cut(starts[0]!) };
    const data = host.data.slice(0, sizeOf(shape)) as Uint8Array;
    starts.forEach((start, i) => data.set(cut(start) as Uint8Array, i * length));
    return { shape, dtype, data: data as TypedArray };
  });
}

/** Writes a device's piece where it belongs in the whole array. */
export function placePiece(whole: HostArray, piece: HostArray, sharding: Sharding, device: number): void {
  const { starts, length } = runsOf(whole.shape, piece.shape, pieceIndex(sharding, whole.shape.length, device));
  const [to, from] = [whole.data as Uint8Array, piece.data as Uint8Array];
  starts.forEach((start, i) => {
    to.set(from.subarray(i * length, (i + 1) * length), start);
  });
}
