/** The documents of several files as those of one. */
import { gather, joined } from "./gather.ts";
import type { SourceTokens } from "./textTokens.ts";
import type { TokenArray } from "./tokenStream.ts";

/** In the order given, of files that store ids alike. What is closed closes all. */
export function joinedTokens(parts: readonly SourceTokens[]): SourceTokens {
  const [only] = parts;
  if (parts.length === 1) return only!;
  const streams = parts.map(({ stream }) => stream);
  const begins = sums(streams.map(({ length }) => length));
  const documentBegins = sums(streams.map(({ documents }) => documents));
  return {
    stream: {
      length: begins.at(-1)!,
      documents: documentBegins.at(-1)!,
      read(start, count) {
        const read: TokenArray[] = [];
        gather(begins, { start, count }, (i, place, length) => read.push(streams[i]!.read(place, length)));
        return joined(read, count, () => streams[0]!.read(0, 0));
      },
      readEnds(first, count) {
        const ends = new Float64Array(count);
        gather(documentBegins, { start: first, count }, (i, place, length, done) => {
          const own = streams[i]!.readEnds(place, length);
          ends.set(
            own.map((end) => end + begins[i]!),
            done,
          );
        });
        return ends;
      },
      close() {
        for (const stream of streams) stream.close();
      },
    },
    readDraws(first, count) {
      const draws = new Uint32Array(count);
      gather(documentBegins, { start: first, count }, (i, place, length, done) =>
        draws.set(parts[i]!.readDraws(place, length), done),
      );
      return draws;
    },
    smallestDraw: parts.reduce((least, { smallestDraw }) => Math.min(least, smallestDraw), Number.POSITIVE_INFINITY),
    hash: parts.map(({ hash }) => hash).join(" "),
    badRecords: { count: 0 },
    fileHashes: parts.flatMap(({ fileHashes }) => fileHashes),
    textDraws: [],
  };
}

function sums(lengths: readonly number[]): Float64Array {
  const begins = new Float64Array(lengths.length + 1);
  lengths.forEach((length, i) => {
    begins[i + 1] = begins[i]! + length;
  });
  return begins;
}
