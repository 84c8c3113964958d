/** Ids of pieces of text (words, mostly), remembered: a text has far fewer words than it has word places. */

const cachedLength = 64; // UTF-16 units; longer pieces are rare and not worth remembering
const cachedEntries = 1 << 17;

/** `encode` through a cache of bounded size. */
export function pieceCache(encode: (piece: string) => Int32Array): (piece: string) => Int32Array {
  const cache = new Map<string, Int32Array>();
  return (piece) => {
    const known = cache.get(piece);
    if (known !== undefined) return known;
    const ids = encode(piece);
    if (piece.length <= cachedLength) {
      if (cache.size >= cachedEntries) cache.clear();
      cache.set(piece, ids);
    }
    return ids;
  };
}
