/** Several sources as one: which of them each sequence of a training comes from, as a pure function of its number. */
import { invariant, UserError } from "../base/errors.ts";
import { permutation } from "./permutation.ts";

/** A source of a `dataset_path`. */
export interface NamedPath {
  readonly path: string;
  /** Its share of the training sequences is this by the sum of all. Absent: its own size decides. */
  readonly weight?: number;
}

/**
 * The paths of a setting: one, or several with weights as `books,0.7;code,0.3`, which is how MaxText spells the mixtures of
 * its grain loader. Either all have a weight or none.
 */
export function parseMixture(text: string, setting = "dataset_path"): NamedPath[] {
  const fail = (problem: string): never => {
    throw new UserError(
      "E_DATASET_MIXTURE",
      `${setting}=${text}: ${problem}; write PATH,WEIGHT;PATH,WEIGHT or PATH;PATH`,
    );
  };
  if (!text.includes(";")) return [{ path: text }];
  const parts = text.split(";").filter((part) => part.trim() !== "");
  const sources = parts.map((part): NamedPath => {
    const [, path, number] = part.match(/^(.+),\s*([^,/]+)$/) ?? [];
    // A comma may belong to a pattern such as *.{txt,md}.
    if (path === undefined || number === undefined || number.includes("}")) return { path: part.trim() };
    const weight = Number(number);
    if (!(weight > 0 && Number.isFinite(weight))) fail(`the weight of ${path} is "${number}", and must be above 0`);
    return { path: path.trim(), weight };
  });
  if (sources.length === 0) fail("there is no path");
  const without = sources.find(({ weight }) => weight === undefined);
  if (without !== undefined && sources.some(({ weight }) => weight !== undefined))
    fail(`${without.path} has no weight`);
  const names = sources.map(({ path }) => path);
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined) fail(`${twice} is there twice`);
  return sources;
}

/** The mixture that a path that does not exist may be meant as: Megatron's `0.7 books 0.3 code`, or `books:0.7,code:0.3`. */
export function mixtureMeant(text: string): string | undefined {
  const words = text.trim().split(/\s+/);
  const isWeight = (word: string | undefined) => Number(word) > 0;
  if (words.length >= 4 && words.length % 2 === 0 && words.every((word, i) => i % 2 === 1 || isWeight(word))) {
    return words.flatMap((weight, i) => (i % 2 === 0 ? `${words[i + 1]},${weight}` : [])).join(";");
  }
  const pairs = text.split(",").map((part) => /^(.+):([^:]+)$/.exec(part.trim()));
  if (!pairs.every((pair) => isWeight(pair?.[2]))) return undefined;
  return pairs.map((pair) => `${pair![1]},${pair![2]}`).join(";");
}

/** Whether training reads several sources, by its settings. @throws UserError where they can't be understood */
export const isMixture = (settings: { readonly datasetType: string; readonly datasetPath: string }): boolean =>
  settings.datasetType !== "synthetic" && parseMixture(settings.datasetPath).length > 1;

/** Which sequence of which source. */
export interface Place {
  readonly source: number;
  readonly index: number;
}

/** The order in which sequences are trained on, without end: the place of the sequence at a position from 0 on. */
export interface SequenceOrder {
  placeAt(position: number): Place;
  /** How often each source was gone through before a position. */
  epochsAt(position: number): number[];
}

/**
 * Each source is gone through epoch by epoch, every sequence once an epoch in an order of its own.
 * @param counts sequences of each source
 * @param weights shares of the sources; absent: all sequences of all sources are one set, each once an epoch
 */
export function sequenceOrder(
  counts: readonly number[],
  weights: readonly number[] | undefined,
  seed: number,
): SequenceOrder {
  invariant(counts.length > 0 && counts.every((count) => count > 0), "an order of sources without sequences");
  if (weights !== undefined && counts.length > 1) return mixedOrder(counts, weights, seed);
  const total = counts.reduce((sum, count) => sum + count, 0);
  const shuffled = epochs(total, seed);
  return {
    placeAt(position) {
      let index = shuffled(position);
      let source = 0;
      while (index >= counts[source]!) index -= counts[source++]!;
      return { source, index };
    },
    epochsAt: (position) => counts.map(() => position / total),
  };
}

function mixedOrder(counts: readonly number[], weights: readonly number[], seed: number): SequenceOrder {
  const { pattern, ranks, shares } = mixturePattern(weights);
  const period = pattern.length;
  // The first source's order is that of a data set of its own.
  const orders = counts.map((count, source) => epochs(count, seed, ...(source > 0 ? [source] : [])));
  return {
    placeAt(position) {
      const within = position % period;
      const source = pattern[within]!;
      const turn = Math.floor(position / period) * shares[source]! + ranks[within]!;
      return { source, index: orders[source]!(turn) };
    },
    epochsAt(position) {
      const within = position % period;
      const begun = shares.map((share) => Math.floor(position / period) * share);
      for (let i = 0; i < within; i++) begun[pattern[i]!]! += 1;
      return begun.map((turns, source) => turns / counts[source]!);
    },
  };
}

/** Sequence at a position of the epochs of `count` sequences. */
function epochs(count: number, seed: number, ...key: readonly number[]): (position: number) => number {
  let cached = { epoch: -1, indexAt: (place: number) => place };
  return (position) => {
    const epoch = Math.floor(position / count);
    if (cached.epoch !== epoch) cached = { epoch, indexAt: permutation(count, seed, epoch, ...key) };
    return cached.indexAt(position % count);
  };
}

/** Weights are met exactly by turns of this many sequences at most; a share below half of one is refused. */
const longestPeriod = 10_000;

/**
 * One turn of a mixture: the source of each place, and how many of that source come before it. Every place goes to the source
 * that is furthest behind its share, so that none is ever a whole sequence ahead.
 */
export function mixturePattern(weights: readonly number[]): {
  readonly pattern: Uint16Array;
  readonly ranks: Uint16Array;
  /** Places of each source in a turn. */
  readonly shares: readonly number[];
} {
  const shares = wholeShares(weights);
  const period = shares.reduce((sum, share) => sum + share, 0);
  const [pattern, ranks] = [new Uint16Array(period), new Uint16Array(period)];
  const given = shares.map(() => 0);
  for (let place = 0; place < period; place++) {
    let next = 0;
    let most = Number.NEGATIVE_INFINITY;
    for (const [source, share] of shares.entries()) {
      const behind = (place + 1) * share - given[source]! * period;
      if (behind > most) [next, most] = [source, behind];
    }
    pattern[place] = next;
    ranks[place] = given[next]!++;
  }
  return { pattern, ranks, shares };
}

/** Whether weights, written as "5;3;2", give sources the same shares in the same order; absent: their sizes decide. */
export function sameShares(a: string | undefined, b: string | undefined): boolean {
  if (a === b || a === undefined || b === undefined) return a === b;
  const [one, other] = [a, b].map((text) => wholeShares(text.split(";").map(Number)).join());
  return one === other;
}

/** Whole numbers in proportion to the weights: exactly where a turn of at most 10,000 allows, else as near as one of 10,000 is. */
function wholeShares(weights: readonly number[]): number[] {
  const sum = weights.reduce((a, b) => a + b, 0);
  const parts = weights.map((weight) => weight / sum);
  for (let period = weights.length; period <= longestPeriod; period++) {
    const shares = parts.map((part) => Math.round(part * period));
    if (shares.every((share, i) => share > 0 && Math.abs(share - parts[i]! * period) < 1e-9 * period)) return shares;
  }
  const exact = parts.map((part) => part * longestPeriod);
  const shares = exact.map(Math.floor);
  const byRemainder = exact.map((_, i) => i).sort((a, b) => exact[b]! - shares[b]! - (exact[a]! - shares[a]!) || a - b);
  const missing = longestPeriod - shares.reduce((a, b) => a + b, 0);
  for (const source of byRemainder.slice(0, missing)) shares[source]! += 1;
  const none = shares.indexOf(0);
  if (none < 0) return shares;
  throw new UserError(
    "E_DATASET_MIXTURE",
    `the weight ${weights[none]} of source ${none + 1} is less than one in ${longestPeriod} of all: raise it, or leave the source out`,
  );
}
