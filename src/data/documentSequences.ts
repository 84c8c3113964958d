/**
 * Sequences of whole documents: as many side by side as fit, or one. A document of n tokens takes n - 1 places: its end token is
 * predicted and never read, and its first token is read and never predicted. Only one that is longer than a sequence is cut, into
 * full sequences and a rest, and then every token but the first is still predicted once.
 *
 * Documents are packed in groups of neighbours, so that neither memory nor the time to find a sequence grows with their number:
 * what is kept is where each group begins; a group's packing is computed again when a sequence of it is read.
 */
import type { BatchRows, Sequences } from "./batches.ts";
import { type Bins, bestFitDecreasing } from "./bestFit.ts";
import type { PackingReport } from "./packingReport.ts";
import type { TokenStream } from "./tokenStream.ts";
import { writePiece } from "./writePiece.ts";

export interface DocumentSequencesOptions {
  /** Documents in a sequence, at most; absent: as many as fit. */
  readonly maxSegments?: number;
  /** Whether batches say which tokens are of which document. */
  readonly segmented: boolean;
}

/** A group ends when its documents would fill so many sequences, or are so many. */
const groupSize = { sequences: 256, documents: 8192 } as const;
/** Packings that are remembered. */
const recentGroups = 64;

interface Group {
  readonly first: number;
  readonly documents: number;
  /** Position of its first token. */
  readonly start: number;
  /** Sequences of the groups before it. */
  readonly before: number;
}

export function documentSequences(
  stream: TokenStream,
  windowLength: number,
  { maxSegments, segmented }: DocumentSequencesOptions,
): Sequences & { readonly report: PackingReport } {
  const packed = ({ first, documents, start }: Omit<Group, "before">) =>
    packGroup(stream.readEnds(first, documents), start, windowLength, maxSegments);
  const groups: Group[] = [];
  const sums = { sequences: 0, targets: 0, pieces: 0, cut: 0 };
  for (const group of groupsOf(stream, windowLength)) {
    const { sequences, targets, pieces, cut } = packed(group);
    if (sequences === 0) continue;
    groups.push({ ...group, before: sums.sequences });
    sums.sequences += sequences;
    sums.targets += targets;
    sums.pieces += pieces;
    sums.cut += cut;
  }

  const recent = new Map<Group, PackedGroup>();
  const remembered = (group: Group): PackedGroup => {
    const known = recent.get(group) ?? packed(group);
    recent.delete(group);
    recent.set(group, known);
    if (recent.size > recentGroups) recent.delete(recent.keys().next().value!);
    return known;
  };
  return {
    count: sums.sequences,
    masked: true,
    segmented,
    report: { ...sums, documents: stream.documents, windowLength },
    write(index, batch, row) {
      const group = groups[lastAtMost(groups.length, index, (i) => groups[i]!.before)]!;
      writeSequence(stream, remembered(group), index - group.before, batch, row);
    },
  };
}

/** Neighbouring documents, the whole stream in order. */
function* groupsOf(stream: TokenStream, windowLength: number): Generator<Omit<Group, "before">> {
  const enough = groupSize.sequences * windowLength;
  let [first, start] = [0, 0];
  while (first < stream.documents) {
    const ends = stream.readEnds(first, Math.min(groupSize.documents, stream.documents - first));
    let documents = 1;
    while (documents < ends.length && ends[documents - 1]! - start < enough) documents++;
    yield { first, documents, start };
    first += documents;
    start = ends[documents - 1]!;
  }
}

interface PackedGroup {
  /** Position of each document's first token. */
  readonly starts: Float64Array;
  /** Full sequences of the documents before each; of all, at the end. */
  readonly fullBefore: Float64Array;
  /** Documents that have a rest, by number in the group, and the length of it. */
  readonly restOf: Int32Array;
  readonly rests: Int32Array;
  /** Of the rests. */
  readonly bins: Bins;
  readonly sequences: number;
  readonly targets: number;
  readonly pieces: number;
  /** Documents longer than a sequence. */
  readonly cut: number;
}

function packGroup(ends: Float64Array, start: number, windowLength: number, maxSegments?: number): PackedGroup {
  const starts = new Float64Array(ends.length);
  const fullBefore = new Float64Array(ends.length + 1);
  const restOf = new Int32Array(ends.length);
  const rests = new Int32Array(ends.length);
  let [withRest, targets, cut] = [0, 0, 0];
  for (let i = 0; i < ends.length; i++) {
    starts[i] = i === 0 ? start : ends[i - 1]!;
    const length = Math.max(0, ends[i]! - starts[i]! - 1);
    const full = Math.floor(length / windowLength);
    fullBefore[i + 1] = fullBefore[i]! + full;
    targets += length;
    if (length > windowLength) cut++;
    const rest = length - full * windowLength;
    if (rest === 0) continue;
    restOf[withRest] = i;
    rests[withRest++] = rest;
  }
  const lengths = rests.subarray(0, withRest);
  const bins = bestFitDecreasing(lengths, windowLength, maxSegments);
  const full = fullBefore[ends.length]!;
  const sizes = { sequences: full + bins.count, targets, pieces: full + withRest, cut };
  return { starts, fullBefore, restOf, rests: lengths, bins, ...sizes };
}

function writeSequence(stream: TokenStream, packed: PackedGroup, index: number, batch: BatchRows, row: number): void {
  const { windowLength } = batch;
  const { starts, fullBefore, restOf, rests, bins } = packed;
  const full = fullBefore.at(-1)!;
  if (index < full) {
    const document = lastAtMost(starts.length, index, (i) => fullBefore[i]!);
    const start = starts[document]! + (index - fullBefore[document]!) * windowLength;
    writePiece(stream, { start, count: windowLength }, batch, { row, at: 0, segment: 1 });
    return;
  }
  const bin = index - full;
  let at = 0;
  for (let i = bins.starts[bin]!; i < bins.starts[bin + 1]!; i++) {
    const item = bins.items[i]!;
    const document = restOf[item]!;
    const count = rests[item]!;
    const start = starts[document]! + (fullBefore[document + 1]! - fullBefore[document]!) * windowLength;
    writePiece(stream, { start, count }, batch, { row, at, segment: i - bins.starts[bin]! + 1 });
    at += count;
  }
}

/** The last i below `count` with valueAt(i) ≤ x, of values that don't fall and begin at or below x. */
function lastAtMost(count: number, x: number, valueAt: (i: number) => number): number {
  let [low, high] = [0, count];
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (valueAt(middle) <= x) low = middle;
    else high = middle;
  }
  return low;
}
