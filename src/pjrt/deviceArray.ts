/** Arrays in device memory: the owner of PJRT buffers, one per device. */
import { HalfbyteError, invariant, UserError } from "../base/errors.ts";
import { type DType, dtypeInfo, type TypedArray } from "../core/dtype.ts";
import { byteLength, type HostArray, type Shape, type Spec, sameShape, showSpec, sizeOf } from "../core/hostArray.ts";
import { holders, pieceShape, placePiece, type Sharding } from "../sharding/index.ts";
import { encodeStruct } from "./api.ts";
import type { Client } from "./client.ts";
import { structLayout } from "./layouts.ts";
import type { Pointer } from "./native.ts";

/** What the finaliser of an array may know: no reference to the array itself. */
interface Holding {
  readonly client: Client;
  /** Of one device's piece. */
  readonly spec: Spec;
  readonly buffers: readonly Pointer[];
  /** Why the memory is gone; undefined while it is live. */
  gone: string | undefined;
}

/**
 * Values on one device or spread over several. With a sharding `shape` is that of the whole array; an array of several
 * devices without one is a list of pieces, and `shape` is that of a piece.
 *
 * The garbage collector does not free device memory: `dispose()` (or `using`) does, or a program the array is donated to.
 */
export class DeviceArray implements Spec {
  readonly shape: Shape;
  readonly dtype: DType;
  readonly client: Client;
  /** How the array lies on a mesh of devices; undefined on one device and for mere pieces. */
  readonly sharding: Sharding | undefined;
  readonly #holding: Holding;

  /** Takes ownership of `buffers`, one per device, each of `shape` or its piece. Made by `put` and by executions. */
  constructor(client: Client, { shape, dtype }: Spec, buffers: readonly Pointer[], sharding?: Sharding) {
    this.client = client;
    this.shape = shape;
    this.dtype = dtype;
    this.sharding = sharding;
    const piece = sharding === undefined ? shape : pieceShape({ shape, dtype }, sharding);
    this.#holding = { client, spec: { shape: piece, dtype }, buffers, gone: undefined };
    client.holdings.add(this.#holding);
    leaks.register(this, this.#holding, this.#holding);
  }

  /** The native buffers. @throws HalfbyteError (E_DELETED) where they were freed or donated, naming by what. */
  get buffers(): readonly Pointer[] {
    const { gone, buffers } = this.#holding;
    if (gone !== undefined) throw new HalfbyteError("E_DELETED", `${showSpec(this)} can't be used: it was ${gone}`);
    return buffers;
  }

  get isLive(): boolean {
    return this.#holding.gone === undefined;
  }

  /** Bytes on all its devices. */
  get deviceBytes(): number {
    return bytesOf(this.#holding);
  }

  /**
   * Copies the values to host memory: all of them, or one device's piece. Without a sharding the default is the first
   * device's piece. Waits for the program that computes them. @throws its failure.
   */
  async toHost(device?: number): Promise<HostArray> {
    const { sharding } = this;
    if (device !== undefined || sharding === undefined) return this.#pieceToHost(device ?? 0);
    const from = holders(sharding, this, this.buffers.length);
    const pieces = await Promise.all(from.map((device) => this.#pieceToHost(device)));
    if (sameShape(pieces[0]!.shape, this.shape)) return pieces[0]!;
    const { shape, dtype } = this;
    const whole: HostArray = { shape, dtype, data: new (dtypeInfo(dtype).array)(sizeOf(shape)) };
    pieces.forEach((piece, i) => {
      placePiece(whole, piece, sharding, from[i]!);
    });
    return whole;
  }

  /** As `toHost()`, into host memory that is there already: as many elements of the dtype as the array has. */
  async toHostMemory(data: TypedArray): Promise<HostArray> {
    const { shape, dtype, sharding } = this;
    invariant(data.length === sizeOf(shape) && data instanceof dtypeInfo(dtype).array, "host memory for another array");
    if (sharding === undefined) return this.#pieceToHost(0, data);
    const host = await this.toHost();
    (data as Uint8Array).set(host.data as Uint8Array);
    return { shape, dtype, data };
  }

  async #pieceToHost(device: number, memory?: TypedArray): Promise<HostArray> {
    const buffers = this.buffers;
    const buffer = buffers[device];
    if (buffer === undefined) {
      throw new UserError("E_DEVICE", `${showSpec(this)} has ${buffers.length} pieces; there is no piece ${device}`);
    }
    const { client } = this;
    const { shape, dtype } = this.#holding.spec;
    const data = memory ?? new (dtypeInfo(dtype).array)(sizeOf(shape));
    if (data.length > 0) {
      const minorToMajor = BigInt64Array.from(shape, (_, i) => BigInt(shape.length - 1 - i));
      const layout = encodeStruct("PJRT_Buffer_MemoryLayout", {
        tiled_struct_size: tiledStructSize,
        minor_to_major: minorToMajor,
        minor_to_major_size: minorToMajor.length,
      });
      const destination = { src: buffer, host_layout: layout, dst: data, dst_size: data.byteLength };
      const { event } = client.api.call("Buffer_ToHostBuffer", destination, minorToMajor);
      await client.track(client.transfers.wait(event, data));
      // The plugin fills the low four bits only; negative values need their sign.
      if (dtype === "int4")
        data.forEach((code, i) => {
          data[i] = (Number(code) << 28) >> 28;
        });
    }
    return { shape, dtype, data };
  }

  /** The pieces of all devices, in device order. */
  toHostPieces(): Promise<HostArray[]> {
    return Promise.all(this.buffers.map((_, device) => this.#pieceToHost(device)));
  }

  /** Frees the device memory; work in flight keeps what it needs. Again, or after donation, it does nothing. */
  dispose(): void {
    this.release("disposed");
  }

  /** Frees the memory, at the end of a `using` block. */
  [Symbol.dispose](): void {
    this.dispose();
  }

  /** Frees the native buffers, keeping for later errors what ended them. @internal */
  release(cause: string): void {
    release(this.#holding, cause);
    leaks.unregister(this.#holding);
  }
}

/** Up to the end of num_tiles, counted from the tiled member's own start. */
const tiledStructSize =
  structLayout("PJRT_Buffer_MemoryLayout").fields.find(({ name }) => name === "num_tiles")!.offset - 8;

function bytesOf({ spec, buffers }: Holding): number {
  const { bits } = dtypeInfo(spec.dtype);
  return (bits < 8 ? Math.ceil((sizeOf(spec.shape) * bits) / 8) : byteLength(spec)) * buffers.length;
}

/** Frees what a live array holds. @internal */
export function release(holding: Holding, cause: string): void {
  if (holding.gone !== undefined) return;
  holding.gone = cause;
  holding.client.holdings.delete(holding);
  for (const buffer of holding.buffers) holding.client.api.call("Buffer_Destroy", { buffer });
}

/** Live arrays of a client and their bytes. @internal */
export function measure(holdings: ReadonlySet<Holding>): { arrays: number; bytes: number } {
  let bytes = 0;
  for (const holding of holdings) bytes += bytesOf(holding);
  return { arrays: holdings.size, bytes };
}

export type { Holding };

let warned = false;
/** Reports memory that nobody can free any more; it does not free it, for the collector runs too late to rely on. */
const leaks = new FinalizationRegistry<Holding>((holding) => {
  if (holding.gone !== undefined) return;
  holding.client.leaked.arrays++;
  holding.client.leaked.bytes += bytesOf(holding);
  if (warned) return;
  warned = true;
  process.emitWarning(
    `a DeviceArray ${showSpec(holding.spec)} was dropped without dispose(): its device memory is lost until the client is destroyed`,
    "HalfbyteLeakWarning",
  );
});
