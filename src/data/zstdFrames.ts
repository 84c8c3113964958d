/**
 * Zstandard, frame by frame: fzstd unpacks a block at a time, so that no more than a block is held at once, and what it does not
 * look at is checked here: each frame's window, its size and the checksum of its content (RFC 8878).
 */
import { Decompress } from "fzstd";
import { xxHash64 } from "./xxHash64.ts";

/** What a frame may ask to be remembered of its own past: what the zstd program takes without being asked, too. */
const largestWindow = 1 << 27;
const largestBlock = 1 << 17;
/** Bytes that are passed over at once. */
const skipBytes = 1 << 16;

/** @throws Error where the bytes are not whole frames, or not what was packed */
export async function* unzstd(packed: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const input = byteReader(packed);
  try {
    while (!(await input.ended())) {
      const steps = frame(largestWindow);
      for (let step = steps.next(); !step.done; ) {
        if (typeof step.value === "number") step = steps.next(await input.take(step.value));
        else {
          yield step.value;
          step = steps.next();
        }
      }
    }
  } finally {
    await input.close();
  }
}

/** What streaming packers remember, whatever they pack. */
const usualWindow = 1 << 23;

/**
 * Bytes that are whole frames and unpack to `size` bytes: no more is asked for than that, whatever a frame says of itself.
 * @throws Error where they don't
 */
export function unzstdWhole(packed: Uint8Array, size: number): Uint8Array {
  const wrong = (much: string) => new Error(`${size} bytes are to come of what unpacks to ${much}`);
  const parts: Uint8Array[] = [];
  let [at, length] = [0, 0];
  while (at < packed.length) {
    const steps = frame(Math.max(size, usualWindow), size - length);
    for (let step = steps.next(); !step.done; ) {
      if (typeof step.value === "number") {
        const end = at + step.value;
        if (end > packed.length) throw cutOff();
        step = steps.next(packed.subarray(at, end));
        at = end;
      } else {
        parts.push(step.value);
        length += step.value.length;
        if (length > size) throw wrong("more");
        step = steps.next();
      }
    }
  }
  if (length !== size) throw wrong(String(length));
  return parts.length === 1 ? parts[0]! : Buffer.concat(parts);
}

const cutOff = () => new Error("it was cut off");

/** Asks for so many bytes, or gives some that are unpacked. */
type Steps<T = void> = Generator<number | Uint8Array, T, Uint8Array | undefined>;

function* take(count: number): Steps<Uint8Array> {
  return (yield count)!;
}

/** One frame, or bytes to be passed over. @param most of its content, where it says how much that is */
function* frame(window: number, most = Number.POSITIVE_INFINITY): Steps {
  const magic = numberOf(yield* take(4));
  if ((magic & 0xfffffff0) >>> 0 === 0x184d2a50) {
    for (let left = numberOf(yield* take(4)); left > 0; left -= skipBytes) yield* take(Math.min(left, skipBytes));
    return;
  }
  if (magic !== 0xfd2fb528) throw new Error("what follows is no frame");
  const { bytes: header, contentSize, checked } = yield* readHeader(window);
  if (contentSize !== undefined && contentSize > most)
    throw new Error(`a frame of ${contentSize} bytes where ${most} are left`);
  let unpacked: Uint8Array[] = [];
  const unpacker = new Decompress((chunk) => {
    // The chunk is the library's own memory.
    if (chunk.length > 0) unpacked.push(chunk.slice());
  });
  unpacker.push(header);
  const hash = xxHash64();
  let size = 0;
  for (let last = false; !last; ) {
    const head = yield* take(3);
    const [said, length] = [numberOf(head), numberOf(head) >>> 3];
    last = (said & 1) === 1;
    const kind = (said >> 1) & 3;
    if (length > largestBlock) throw new Error(`a block of ${length} bytes`);
    unpacker.push(head);
    unpacker.push(yield* take(kind === 1 ? 1 : length));
    if (last) unpacker.push(new Uint8Array(), true);
    const done = unpacked;
    unpacked = [];
    for (const chunk of done) {
      size += chunk.length;
      if (checked) hash.update(chunk);
      yield chunk;
    }
  }
  if (contentSize !== undefined && size !== contentSize) {
    throw new Error(`a frame of ${contentSize} bytes unpacks to ${size}`);
  }
  if (checked && numberOf(yield* take(4)) !== hash.digest().low) {
    throw new Error("its content is not what was packed: the checksum differs");
  }
}

interface FrameHeader {
  /** From the magic number on, without the flag that a checksum follows: that is read here. */
  readonly bytes: Uint8Array;
  readonly contentSize?: number;
  readonly checked: boolean;
}

function* readHeader(most: number): Steps<FrameHeader> {
  const [flags] = (yield* take(1)) as unknown as [number];
  const singleSegment = (flags & 0x20) !== 0;
  const idBytes = [0, 1, 2, 4][flags & 3]!;
  const sizeBytes = [singleSegment ? 1 : 0, 2, 4, 8][flags >> 6]!;
  const rest = (yield* take((singleSegment ? 0 : 1) + idBytes + sizeBytes)).slice();
  const sizeAt = rest.length - sizeBytes;
  if (rest.subarray(sizeAt - idBytes, sizeAt).some((byte) => byte !== 0)) throw new Error("it needs a dictionary");
  const contentSize = sizeBytes === 0 ? undefined : numberOf(rest.subarray(sizeAt)) + (sizeBytes === 2 ? 256 : 0);
  const base = 2 ** (10 + (rest[0]! >> 3));
  const window = singleSegment ? contentSize! : base + (base / 8) * (rest[0]! & 7);
  if (window > most) throw new Error(`its window is larger than ${most >> 20} MiB: pack it anew without --long`);
  return {
    bytes: Uint8Array.of(0x28, 0xb5, 0x2f, 0xfd, flags & ~0x04, ...rest),
    ...(contentSize !== undefined && { contentSize }),
    checked: (flags & 0x04) !== 0,
  };
}

/** Little-endian, unsigned. */
const numberOf = (bytes: Uint8Array): number => bytes.reduceRight((sum, byte) => sum * 256 + byte, 0);

interface ByteReader {
  /** The next `count` bytes. @throws Error where there are fewer */
  take(count: number): Promise<Uint8Array>;
  /** Whether nothing is left. */
  ended(): Promise<boolean>;
  /** Nothing more is read. */
  close(): Promise<unknown>;
}

function byteReader(chunks: AsyncIterable<Uint8Array>): ByteReader {
  const iterator = chunks[Symbol.asyncIterator]();
  let pending: Uint8Array = new Uint8Array();
  const more = async (): Promise<boolean> => {
    const { done, value } = await iterator.next();
    if (done) return false;
    pending = pending.length === 0 ? value : Buffer.concat([pending, value]);
    return true;
  };
  return {
    async take(count) {
      while (pending.length < count) if (!(await more())) throw cutOff();
      const taken = pending.subarray(0, count);
      pending = pending.subarray(count);
      return taken;
    },
    async ended() {
      while (pending.length === 0) if (!(await more())) return true;
      return false;
    },
    close: async () => iterator.return?.(),
  };
}
