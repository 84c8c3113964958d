/** Files of ids, for the byte tokenizer: a character an id, "|" the end token. */

export const eos = 256;
export const bytesOf = (ids: readonly number[], array: typeof Uint16Array | typeof Uint32Array = Uint16Array) =>
  new Uint8Array(array.from(ids).buffer);
export const idsOf = (text: string) => [...text].map((char) => (char === "|" ? eos : char.charCodeAt(0)));

/** a.bin and a.idx of these documents, the sequences of each. */
export function megatron(documents: readonly (readonly string[])[], { code = 8, version = 1n, ids = 2 } = {}) {
  const sequences = documents.flat();
  const lengths = Int32Array.from(sequences, (text) => text.length);
  let at = 0;
  const places = BigInt64Array.from(sequences, (text) => {
    const place = BigInt(at);
    at += ids * text.length;
    return place;
  });
  const marks = new BigInt64Array(documents.length + 1);
  documents.forEach((texts, i) => {
    marks[i + 1] = marks[i]! + BigInt(texts.length);
  });
  const header = Buffer.alloc(34);
  header.write("MMIDIDX\0\0", "latin1");
  header.writeBigUInt64LE(version, 9);
  header[17] = code;
  header.writeBigUInt64LE(BigInt(sequences.length), 18);
  header.writeBigUInt64LE(BigInt(marks.length), 26);
  const tables = [lengths, places, marks].map((table) => Buffer.from(table.buffer));
  return {
    "a.bin": bytesOf(idsOf(sequences.join("")), ids === 2 ? Uint16Array : Uint32Array),
    "a.idx": new Uint8Array(Buffer.concat([header, ...tables])),
  };
}
