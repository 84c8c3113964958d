/**
 * The .idx beside a .bin of Megatron's indexed data sets. Little-endian: "MMIDIDX" and two zero bytes, version (uint64, 1), a
 * code of the ids' type (uint8), the numbers of sequences and of document marks (uint64 each); then the sequences' lengths (int32),
 * their places in the .bin (int64 bytes), and the documents' first sequences (int64), the last mark being the number of sequences.
 */
import { existsSync, statSync } from "node:fs";
import { UserError } from "../base/errors.ts";
import { PlacedFile, type TokenWidth } from "./tokenFiles.ts";

const magic = Buffer.from("MMIDIDX\0\0", "latin1");
const headerBytes = 34;
/** Entries of a table that are read in one go. */
const blockEntries = 1 << 16;

/** Types by their codes. Ids are never negative, so signed ones read as unsigned are the same or refused by the vocabulary. */
const typeNames = ["", "uint8", "int8", "int16", "int32", "int64", "float64", "float32", "uint16"] as const;
const widths: Readonly<Record<string, TokenWidth>> = { int16: "uint16", uint16: "uint16", int32: "uint32" };

export interface MegatronIndex {
  readonly path: string;
  readonly width: TokenWidth;
  /** Of all sequences. */
  readonly tokens: number;
  /** Where each document ends, in tokens; documents without a token are left out. */
  documentEnds(): Generator<number, undefined>;
}

/** @param bin the .bin's path. @throws UserError where its .idx is missing or not what it should be */
export function openMegatronIndex(bin: string): MegatronIndex {
  const path = bin.replace(/\.bin$/i, ".idx");
  const fail = (problem: string): never => {
    throw new UserError("E_DATASET_TOKENS", `${path}: ${problem}`);
  };
  if (path === bin || !existsSync(path))
    fail("no such file: Megatron's .bin needs the .idx of the same name beside it");
  const bytes = statSync(path).size;
  if (bytes < headerBytes) fail(`${bytes} bytes are no Megatron index`);
  const file = new PlacedFile(path);
  try {
    const header = Buffer.alloc(headerBytes);
    file.read(header, 0);
    if (!header.subarray(0, 9).equals(magic)) fail("no Megatron index: it does not begin with MMIDIDX");
    const version = header.readBigUInt64LE(9);
    if (version !== 1n) fail(`index version ${version}; 1 is read`);
    const code = header[17]!;
    const type = typeNames[code] || `code ${code}`;
    const width = widths[type] ?? fail(`ids are stored as ${type}; uint16, int16 and int32 are read`);
    const [sequences, marks] = [Number(header.readBigUInt64LE(18)), Number(header.readBigUInt64LE(26))];
    const expected = headerBytes + 12 * sequences + 8 * marks;
    // A multimodal index has a byte more for each sequence.
    if (bytes !== expected && bytes !== expected + sequences) {
      fail(
        `${bytes} bytes, and ${sequences} sequences in ${marks - 1} documents take ${expected}: it was cut off, or is damaged`,
      );
    }
    const tokens = checkPlaces(file, sequences, width === "uint16" ? 2 : 4, fail);
    const documentEnds = () => endsOfDocuments(path, { sequences, marks }, fail);
    return { path, width, tokens, documentEnds };
  } finally {
    file.close();
  }
}

/** Sequences must follow each other in the .bin without gaps, as Megatron's tools write them. Gives the number of tokens. */
function checkPlaces(file: PlacedFile, sequences: number, size: number, fail: (problem: string) => never): number {
  let tokens = 0;
  for (let first = 0; first < sequences; first += blockEntries) {
    const count = Math.min(blockEntries, sequences - first);
    const [lengths, places] = [new Int32Array(count), new BigInt64Array(count)];
    file.read(lengths, headerBytes + 4 * first);
    file.read(places, headerBytes + 4 * sequences + 8 * first);
    for (let i = 0; i < count; i++) {
      if (lengths[i]! < 0) fail(`sequence ${first + i} has ${lengths[i]} tokens`);
      if (places[i] !== BigInt(tokens * size)) {
        fail(
          `sequence ${first + i} lies at byte ${places[i]}, and those before it end at ${tokens * size}: sequences must follow each other`,
        );
      }
      tokens += lengths[i]!;
    }
  }
  return tokens;
}

function* endsOfDocuments(
  path: string,
  { sequences, marks }: { readonly sequences: number; readonly marks: number },
  fail: (problem: string) => never,
): Generator<number, undefined> {
  const file = new PlacedFile(path);
  try {
    const lengths = tableReader(file, headerBytes, sequences, (count) => new Int32Array(count));
    const documents = tableReader(file, headerBytes + 12 * sequences, marks, (count) => new BigInt64Array(count));
    let [sequence, tokens, ended] = [0, 0, 0];
    for (let mark = 0; mark < marks; mark++) {
      const until = Number(documents(mark));
      if (!(until >= sequence && until <= sequences) || (mark === 0 && until !== 0)) {
        fail(`document ${mark} begins with sequence ${until} of ${sequences}`);
      }
      while (sequence < until) tokens += Number(lengths(sequence++));
      if (tokens > ended) yield tokens;
      ended = tokens;
    }
    if (sequence !== sequences) fail(`its documents have ${sequence} of ${sequences} sequences`);
    return undefined;
  } finally {
    file.close();
  }
}

/** Entry by entry, in order, a block in memory at a time. */
function tableReader<A extends Int32Array | BigInt64Array>(
  file: PlacedFile,
  offset: number,
  entries: number,
  make: (count: number) => A,
): (index: number) => A[number] {
  let [block, first] = [make(0), 0];
  return (index) => {
    if (index < first || index >= first + block.length) {
      first = index;
      block = make(Math.min(blockEntries, entries - index));
      file.read(block, offset + index * block.BYTES_PER_ELEMENT);
    }
    return block[index - first]!;
  };
}
