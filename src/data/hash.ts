/** Counted randomness for data order: small integer hashes, the same on every machine. Not for secrets. */

/** A bijective mix of 32 bits (two rounds of xor-shift-multiply). */
export function mix32(value: number): number {
  let x = value | 0;
  x = Math.imul(x ^ (x >>> 16), 0x7feb352d);
  x = Math.imul(x ^ (x >>> 15), 0x846ca68b);
  return (x ^ (x >>> 16)) >>> 0;
}

/** One 32-bit hash of a sequence of integers (each taken modulo 2^32); order matters. */
export function hashInts(...values: readonly number[]): number {
  let h = 0x2545f491;
  for (const value of values) h = mix32(h + mix32((value | 0) + 0x9e3779b9));
  return h;
}

/** One 32-bit hash of a string's UTF-16 code units. */
export function hashString(text: string): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  return mix32(h ^ text.length);
}
