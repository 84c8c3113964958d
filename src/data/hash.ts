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

/** One 32-bit hash of a text's UTF-16 code units: of the parts that were added, however the text is cut. */
export function textHash(): { add(part: string): void; value(): number } {
  let [hash, length] = [0x811c9dc5, 0];
  return {
    add(part) {
      let h = hash;
      for (let i = 0; i < part.length; i++) h = Math.imul(h ^ part.charCodeAt(i), 0x01000193);
      hash = h;
      length += part.length;
    },
    value: () => mix32(hash ^ length),
  };
}

/** The same of a text that is there whole. */
export function hashString(text: string): number {
  const hash = textHash();
  hash.add(text);
  return hash.value();
}
