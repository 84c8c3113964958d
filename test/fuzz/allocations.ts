/**
 * Watches the memory that code asks for outside the JavaScript heap, whether it touches it or not. Loaded before all else: what
 * the readers call `Uint8Array` is then a proxy of it.
 */
const watched = [
  ...["ArrayBuffer", "Uint8Array", "Int8Array", "Uint8ClampedArray", "Uint16Array", "Int16Array", "Uint32Array"],
  ...["Int32Array", "Float32Array", "Float64Array", "BigUint64Array", "BigInt64Array"],
] as const;

let largest = 0;

function count(length: unknown, bytesEach: number): void {
  const bytes =
    typeof length === "number"
      ? length * bytesEach
      : Array.isArray(length) || ArrayBuffer.isView(length)
        ? (length as { length?: number }).length! * bytesEach
        : 0;
  largest = Math.max(largest, bytes);
}

for (const name of watched) {
  const original = globalThis[name] as unknown as new (...args: unknown[]) => object;
  const bytesEach = (original as unknown as { BYTES_PER_ELEMENT?: number }).BYTES_PER_ELEMENT ?? 1;
  Object.defineProperty(globalThis, name, {
    configurable: true,
    writable: true,
    value: new Proxy(original, {
      construct(target, args, newTarget) {
        count(args[0], bytesEach);
        return Reflect.construct(target, args, newTarget) as object;
      },
    }),
  });
}
for (const name of ["alloc", "allocUnsafe", "allocUnsafeSlow"] as const) {
  const original = Buffer[name] as (size: number, ...rest: unknown[]) => Buffer;
  Buffer[name] = ((size: number, ...rest: unknown[]) => {
    count(size, 1);
    return original(size, ...rest);
  }) as never;
}

/** Bytes of the largest request since the last time. */
export function largestAllocation(): number {
  const bytes = largest;
  largest = 0;
  return bytes;
}
