/**
 * Statistics of random words, each of which is about standard normal for a perfect generator: |z| above `limit` comes once
 * in a million statistics. Uint32 draws in, named statistics out.
 */

/** Two-sided quantile of the normal distribution at 10^-6. */
export const limit = 4.8916;

export interface Statistic {
  readonly name: string;
  readonly z: number;
}

/** The statistic that is farthest from 0. */
export const worst = (statistics: readonly Statistic[]): Statistic =>
  statistics.reduce((a, b) => (Math.abs(b.z) > Math.abs(a.z) ? b : a));

/** Those that a perfect generator would not have. */
export const rejected = (statistics: readonly Statistic[]): readonly Statistic[] =>
  statistics.filter(({ z }) => !(Math.abs(z) < limit));

/**
 * χ² of counts that should be equal, by the cube root of Wilson and Hilferty. `population`: draws without replacement from
 * that many have (1 − n / population) times the variance, as those of one key have, which are all 2^32 words in some order.
 */
function chiSquare(counts: ArrayLike<number>, population = Number.POSITIVE_INFINITY): number {
  const bins = counts.length;
  let total = 0;
  for (let i = 0; i < bins; i++) total += counts[i]!;
  const wanted = total / bins;
  let sum = 0;
  for (let i = 0; i < bins; i++) sum += (counts[i]! - wanted) ** 2;
  const perDegree = sum / wanted / (1 - total / population) / (bins - 1);
  const variance = 2 / (9 * (bins - 1));
  return (Math.cbrt(perDegree) - 1 + variance) / Math.sqrt(variance);
}

/** The histogram of 16-bit values, summed over all but `bits` of them from bit `shift` on. */
function folded(histogram: Uint32Array, shift: number, bits: number): Uint32Array {
  const counts = new Uint32Array(2 ** bits);
  for (let value = 0; value < histogram.length; value++)
    counts[(value >>> shift) & (2 ** bits - 1)]! += histogram[value]!;
  return counts;
}

/** Whether each bit is set half of the time, and the values and their bytes are uniform. */
function ofHistogram(name: string, histogram: Uint32Array, population?: number): Statistic[] {
  const bits = Array.from({ length: 16 }, (_, bit) => {
    const [zeros, ones] = folded(histogram, bit, 1) as unknown as [number, number];
    return { name: `${name}, bit ${bit}`, z: (ones - zeros) / Math.sqrt(ones + zeros) };
  });
  return [
    ...bits,
    { name: `${name}, 2^8 bins by the upper bits`, z: chiSquare(folded(histogram, 8, 8), population) },
    { name: `${name}, 2^8 bins by the lower bits`, z: chiSquare(folded(histogram, 0, 8), population) },
    { name: `${name}, 2^16 bins`, z: chiSquare(histogram, population) },
  ];
}

/** Uniformity of both halves of words. */
export function uniformity(words: Uint32Array, population?: number): Statistic[] {
  const [upper, lower] = [new Uint32Array(65536), new Uint32Array(65536)];
  for (let i = 0; i < words.length; i++) {
    const word = words[i]!;
    upper[word >>> 16]!++;
    lower[word & 0xffff]!++;
  }
  return [...ofHistogram("upper half", upper, population), ...ofHistogram("lower half", lower, population)];
}

/**
 * How words of `a` and those of `b`, `lag` later, go together: correlation of either half, their exclusive or (which shows
 * what any two bits share), and pairs of bytes, the top ones and those that end in the last bit rounding looks at.
 */
export function together(a: Uint32Array, b: Uint32Array, lag: number): Statistic[] {
  const count = Math.min(a.length, b.length - lag);
  const [upper, lower] = [new Uint32Array(65536), new Uint32Array(65536)];
  const [top, low] = [new Uint32Array(65536), new Uint32Array(65536)];
  let [ofUpper, ofLower] = [0, 0];
  for (let i = 0; i < count; i++) {
    const [x, y] = [a[i]!, b[i + lag]!];
    const both = x ^ y;
    upper[both >>> 16]!++;
    lower[both & 0xffff]!++;
    top[((x >>> 16) & 0xff00) | (y >>> 24)]!++;
    low[((x >>> 8) & 0xff00) | ((y >>> 16) & 0xff)]!++;
    ofUpper += ((x >>> 16) - 32767.5) * ((y >>> 16) - 32767.5);
    ofLower += ((x & 0xffff) - 32767.5) * ((y & 0xffff) - 32767.5);
  }
  const standardError = ((65536 ** 2 - 1) / 12) * Math.sqrt(count);
  return [
    { name: `lag ${lag}: correlation of upper halves`, z: ofUpper / standardError },
    { name: `lag ${lag}: correlation of lower halves`, z: ofLower / standardError },
    { name: `lag ${lag}: pairs of top bytes`, z: chiSquare(top) },
    { name: `lag ${lag}: pairs of bytes that end in bit 16`, z: chiSquare(low) },
    ...ofHistogram(`lag ${lag}: xor of upper halves`, upper),
    ...ofHistogram(`lag ${lag}: xor of lower halves`, lower),
  ];
}

/** Distances between the words whose upper half lies in the first sixteenth: geometrically distributed. */
function gaps(words: Uint32Array): Statistic {
  const share = 1 / 16;
  const cells = new Uint32Array(160);
  let [last, found] = [-1, 0];
  for (let i = 0; i < words.length; i++) {
    if (words[i]! >>> 28 !== 0) continue;
    cells[Math.min(cells.length, i - last) - 1]!++;
    last = i;
    found++;
  }
  let sum = 0;
  for (let i = 0; i < cells.length; i++) {
    const beyond = (1 - share) ** i;
    const wanted = found * (i === cells.length - 1 ? beyond : beyond * share);
    sum += (cells[i]! - wanted) ** 2 / wanted;
  }
  const degrees = cells.length - 1;
  const variance = 2 / (9 * degrees);
  return { name: "gaps", z: (Math.cbrt(sum / degrees) - 1 + variance) / Math.sqrt(variance) };
}

/**
 * Birthday spacings: of 2^12 days in a year of 2^32, each made of the upper halves of two draws, the number of equal
 * spacings is Poisson distributed with mean 4; here summed over all years.
 */
function birthdaySpacings(words: Uint32Array): Statistic {
  const days = 2 ** 12;
  const years = Math.floor(words.length / 2 / days);
  let equal = 0;
  const [birthdays, spacings] = [new Uint32Array(days), new Uint32Array(days - 1)];
  for (let year = 0; year < years; year++) {
    for (let i = 0; i < days; i++) {
      const at = 2 * (year * days + i);
      birthdays[i] = (words[at]! & 0xffff0000) | (words[at + 1]! >>> 16);
    }
    birthdays.sort();
    for (let i = 1; i < days; i++) spacings[i - 1] = birthdays[i]! - birthdays[i - 1]!;
    spacings.sort();
    for (let i = 1; i < days - 1; i++) if (spacings[i] === spacings[i - 1]) equal++;
  }
  const wanted = (years * days ** 3) / 2 ** 34;
  return { name: "birthday spacings", z: (equal - wanted) / Math.sqrt(wanted) };
}

/** Distances at which neighbours in rows, blocks and columns lie. */
const neighbours = [1, 2, 16, 128];

export interface BatteryOptions {
  /** See `chiSquare`. */
  readonly population?: number;
  readonly lags?: readonly number[];
}

/** All statistics of one sequence. */
export function battery(words: Uint32Array, { population, lags = neighbours }: BatteryOptions = {}): Statistic[] {
  return [
    ...uniformity(words, population),
    ...lags.flatMap((lag) => together(words, words, lag)),
    gaps(words),
    birthdaySpacings(words),
  ];
}

/** All statistics of two sequences side by side, such as the draws of two streams. */
export function crossBattery(a: Uint32Array, b: Uint32Array): Statistic[] {
  const either = ["a first", "b first"].flatMap((order, i) =>
    [1, 16].flatMap((lag) =>
      together(i === 0 ? a : b, i === 0 ? b : a, lag).map(({ name, z }) => ({ name: `${order}, ${name}`, z })),
    ),
  );
  return [...together(a, b, 0), ...either];
}

/** Values that a list has more than once, counted. */
export function repeats(values: Uint32Array | BigUint64Array): number {
  const sorted = values.slice().sort();
  let count = 0;
  for (let i = 1; i < sorted.length; i++) if (sorted[i] === sorted[i - 1]) count++;
  return count;
}
