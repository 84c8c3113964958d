/** Part of a stream's documents as a stream of its own, without copying: what training and validation each read. */
import { createHash } from "node:crypto";
import { invariant } from "../base/errors.ts";
import { emptyLike, gather, joined } from "./gather.ts";
import type { TokenArray, TokenStream } from "./tokenStream.ts";

/** Documents looked at in one go. */
const blockSize = 1 << 16;

/** Runs of neighbouring documents that were chosen. */
interface Runs {
  /** Where run i begins in the whole stream, in tokens. */
  readonly from: Float64Array;
  /** Where it begins in the selection; one more says where the last ends. */
  readonly to: Float64Array;
  /** Its first document in the whole stream. */
  readonly documentFrom: Float64Array;
  /** Its first document in the selection, and one more. */
  readonly documentTo: Float64Array;
}

/** Both splits of a stream. */
export interface SplitStreams {
  readonly train: TokenStream;
  readonly validation: TokenStream;
  /** Tells which documents, or what part of a single one, are held out: equal ones have equal words. */
  readonly heldOut: string;
}

/**
 * Splits documents in two by a number of each, its draw.
 * @param readDraws those of documents first .. first + count - 1
 */
export function splitStream(
  stream: TokenStream,
  readDraws: (first: number, count: number) => Uint32Array,
  isHeldOut: (draw: number) => boolean,
): SplitStreams {
  const collectors = [runCollector(), runCollector()] as const;
  let start = 0;
  for (let first = 0; first < stream.documents; first += blockSize) {
    const count = Math.min(blockSize, stream.documents - first);
    const [ends, draws] = [stream.readEnds(first, count), readDraws(first, count)];
    for (let i = 0; i < count; i++) {
      collectors[isHeldOut(draws[i]!) ? 1 : 0].add(first + i, start, ends[i]!);
      start = ends[i]!;
    }
  }
  const [kept, held] = collectors.map((collector) => collector.finish()) as [Runs, Runs];
  const heldOut = createHash("sha256").update(held.documentFrom).update(held.documentTo).digest("hex");
  return { train: selection(stream, kept), validation: selection(stream, held), heldOut };
}

function runCollector() {
  const [from, to, documentFrom, documentTo]: [number[], number[], number[], number[]] = [[], [0], [], [0]];
  let previous = -2;
  return {
    add(document: number, start: number, end: number): void {
      if (document === previous + 1) {
        to[to.length - 1]! += end - start;
        documentTo[documentTo.length - 1]! += 1;
      } else {
        from.push(start);
        to.push(to.at(-1)! + end - start);
        documentFrom.push(document);
        documentTo.push(documentTo.at(-1)! + 1);
      }
      previous = document;
    },
    finish: (): Runs => ({
      from: Float64Array.from(from),
      to: Float64Array.from(to),
      documentFrom: Float64Array.from(documentFrom),
      documentTo: Float64Array.from(documentTo),
    }),
  };
}

function selection(stream: TokenStream, runs: Runs): TokenStream {
  const { readMask } = stream;
  return {
    length: runs.to.at(-1)!,
    documents: runs.documentTo.at(-1)!,
    read(start, count) {
      const parts: TokenArray[] = [];
      gather(runs.to, { start, count }, (run, place, length) =>
        parts.push(stream.read(runs.from[run]! + place, length)),
      );
      return joined(parts, count, () => stream.read(0, 0));
    },
    readEnds(first, count) {
      const ends = new Float64Array(count);
      gather(runs.documentTo, { start: first, count }, (run, place, length, done) => {
        const shift = runs.to[run]! - runs.from[run]!;
        const own = stream.readEnds(runs.documentFrom[run]! + place, length);
        ends.set(
          own.map((end) => end + shift),
          done,
        );
      });
      return ends;
    },
    ...(readMask && {
      readMask(start: number, count: number) {
        const mask = new Uint8Array(count);
        gather(runs.to, { start, count }, (run, place, length, done) =>
          mask.set(readMask(runs.from[run]! + place, length), done),
        );
        return mask;
      },
    }),
  };
}

/**
 * Holds out the last `fraction` of a stream that is a single document, and so can't be split by document. Both parts get an end
 * token; a stream of stored tokens may have none of its own.
 */
export function holdOutTail(stream: TokenStream, fraction: number, eosId: number): SplitStreams {
  const body = stream.read(stream.length - 1, 1)[0] === eosId ? stream.length - 1 : stream.length;
  const kept = body - Math.round(body * fraction);
  return {
    train: oneDocument(stream, 0, kept, eosId),
    validation: oneDocument(stream, kept, body, eosId),
    heldOut: `tokens ${kept} to ${body}`,
  };
}

/** Tokens from .. to - 1 as one document, and its end. */
function oneDocument(stream: TokenStream, from: number, to: number, eosId: number): TokenStream {
  const length = to - from + 1;
  const { readMask } = stream;
  /** `read`, and the end token's value where the place asked for is it. */
  const withEnd = <A extends TokenArray | Uint8Array>(
    start: number,
    count: number,
    read: (start: number, count: number) => A,
    end: number,
  ): A => {
    invariant(start >= 0 && count >= 0 && start + count <= length, `tokens ${start} + ${count} of ${length}`);
    if (start + count < length || count === 0) return read(from + start, count);
    const body = read(from + start, count - 1);
    const values = emptyLike(body, count);
    values.set(body);
    values[count - 1] = end;
    return values;
  };
  return {
    length,
    documents: 1,
    read: (start, count) => withEnd(start, count, stream.read, eosId),
    readEnds: (first, count) => Float64Array.of(length).slice(first, first + count),
    ...(readMask && { readMask: (start: number, count: number) => withEnd(start, count, readMask, 1) }),
  };
}
