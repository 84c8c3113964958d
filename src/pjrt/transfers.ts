/** Host arrays onto devices. */
import { UserError } from "../base/errors.ts";
import { dtypeInfo } from "../core/dtype.ts";
import { checkHostArray, type HostArray, sameShape, showSpec } from "../core/hostArray.ts";
import { meshSize, type Sharding, showMesh, splitArray } from "../sharding/index.ts";
import { type Client, type Device, defaultClient } from "./client.ts";
import { DeviceArray } from "./deviceArray.ts";
import type { Pointer } from "./native.ts";

/** The plugin copies during the call: the host array is free to change afterwards. */
const copyDuringCall = 0;

/**
 * Copies a host array to one device (the client's first, unless named), or to all of them as a sharding says.
 * @throws UserError where data, shape and dtype don't fit or can't be split; PjrtError where the device refuses.
 */
export function put(host: HostArray, client: Client = defaultClient(), place?: Device | Sharding): DeviceArray {
  if (place === undefined || !("mesh" in place))
    return new DeviceArray(client, host, [upload(host, client, place ?? client.devices[0]!)]);
  checkMeshOf(client, place);
  return new DeviceArray(client, host, uploadPieces(splitArray(host, place), client), place);
}

/** @throws UserError where a mesh has another number of devices than the client. */
export function checkMeshOf(client: Client, { mesh }: Pick<Sharding, "mesh">): void {
  const [wanted, got] = [meshSize(mesh), client.devices.length];
  if (wanted === got) return;
  throw new UserError(
    "E_MESH",
    `the mesh has ${showMesh(mesh)}, the client ${got}: they must be equal; new Client({ devices: ${wanted} }) or configureDefaultClient({ devices: ${wanted} }) makes virtual ones on a CPU`,
  );
}

/** One piece per device of the client, in device order, equal in shape and dtype, which the result has. */
export function putSharded(pieces: readonly HostArray[], client: Client = defaultClient()): DeviceArray {
  const first = pieces[0];
  if (first === undefined || pieces.length > client.devices.length) {
    throw new UserError("E_DEVICE", `the client has ${client.devices.length} devices; got ${pieces.length} pieces`);
  }
  for (const piece of pieces) {
    if (piece.dtype !== first.dtype || !sameShape(piece.shape, first.shape)) {
      throw new UserError(
        "E_DEVICE",
        `pieces must have one shape and dtype; got ${showSpec(first)} and ${showSpec(piece)}`,
      );
    }
  }
  return new DeviceArray(client, first, uploadPieces(pieces, client));
}

function uploadPieces(pieces: readonly HostArray[], client: Client): Pointer[] {
  const buffers: Pointer[] = [];
  try {
    pieces.forEach((piece, i) => {
      buffers.push(upload(piece, client, client.devices[i]!));
    });
  } catch (error) {
    for (const buffer of buffers) client.api.call("Buffer_Destroy", { buffer });
    throw error;
  }
  return buffers;
}

/** The same values on the client's first `devices` devices (all, unless given). */
export function putReplicated(
  host: HostArray,
  client: Client = defaultClient(),
  devices = client.devices.length,
): DeviceArray {
  return putSharded(
    Array.from({ length: devices }, () => host),
    client,
  );
}

function upload(host: HostArray, client: Client, device: Device): Pointer {
  client.assertOpen();
  // The plugin reads as many bytes as the shape says, whatever the array holds.
  checkHostArray(host);
  const { data, shape, dtype } = host;
  const { buffer, done_with_host_buffer: event } = client.api.call("Client_BufferFromHostBuffer", {
    client: client.handle,
    // Arrays without elements still need an address.
    data: data.length === 0 ? new Uint8Array(8) : data,
    type: dtypeInfo(dtype).pjrt,
    dims: BigInt64Array.from(shape, BigInt),
    num_dims: shape.length,
    host_buffer_semantics: copyDuringCall,
    device: device.handle,
  });
  client.api.call("Event_Destroy", { event });
  return buffer;
}
