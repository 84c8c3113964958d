import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  deriveKey,
  drawBits,
  hashConstants,
  hashName,
  hashNumber,
  type Key,
  streamOfKey,
  threefry2x32,
} from "../../src/core/randomBits.ts";
import { siteKey } from "../../src/quant/random.ts";

/** A generator under test: draw `counter` of the stream of `key`. */
type Generator = (key: Key) => (counter: number) => number;

const hash: Generator = (key) => {
  const stream = streamOfKey(key);
  return (counter) => drawBits(stream, counter);
};
const threefry: Generator = (key) => (counter) => threefry2x32(key, [counter, 0])[0];

/** What the contract warns of: a counter, stirred too little. */
const weak: Generator = (key) => (counter) => {
  const x = Math.imul(counter ^ key[0], hashConstants.weyl) + key[1];
  return Math.imul(x ^ (x >>> 16), hashConstants.multiplier) >>> 0;
};

function draws(draw: (counter: number) => number, count: number): Uint32Array {
  const values = new Uint32Array(count);
  for (let i = 0; i < count; i++) values[i] = draw(i);
  return values;
}

/** Chi-square of counts that should be equal, as standard deviations from its mean. */
function chiSquareZ(counts: Uint32Array, total: number): number {
  const wanted = total / counts.length;
  const chiSquare = counts.reduce((sum, count) => sum + (count - wanted) ** 2 / wanted, 0);
  return (chiSquare - (counts.length - 1)) / Math.sqrt(2 * (counts.length - 1));
}

/** For each of 32 bits, how often it is set, in standard deviations from a half. */
function bitZ(values: Uint32Array): number[] {
  const ones = new Float64Array(32);
  for (const value of values) for (let bit = 0; bit < 32; bit++) ones[bit]! += (value >>> bit) & 1;
  return Array.from(ones, (count) => (2 * count - values.length) / Math.sqrt(values.length));
}

/** Chi-square over the 65,536 values of 16 bits from bit `shift` on. */
function halfZ(values: Uint32Array, shift: 0 | 16): number {
  const counts = new Uint32Array(65536);
  for (const value of values) counts[(value >>> shift) & 0xffff]!++;
  return chiSquareZ(counts, values.length);
}

/**
 * How draws of `a` and the ones `lag` later in `b` go together, in standard deviations: the correlation of the upper
 * halves, and chi-square over pairs of bytes, of the top ones and of those that end in the last bit rounding looks at.
 */
function pairZ(a: Uint32Array, b: Uint32Array, lag: number): { correlation: number; top: number; low: number } {
  const count = a.length - lag;
  const top = new Uint32Array(65536);
  const low = new Uint32Array(65536);
  let product = 0;
  for (let i = 0; i < count; i++) {
    const x = a[i]!;
    const y = b[i + lag]!;
    product += ((x >>> 16) - 32767.5) * ((y >>> 16) - 32767.5);
    top[((x >>> 24) << 8) | (y >>> 24)]!++;
    low[((x >>> 8) & 0xff00) | ((y >>> 16) & 0xff)]!++;
  }
  const variance = (65536 ** 2 - 1) / 12;
  const correlation = product / (variance * Math.sqrt(count));
  return { correlation, top: chiSquareZ(top, count), low: chiSquareZ(low, count) };
}

/**
 * The share of output bits that flip with a bit of the input, `f(sample, mask)` being the hash of a sample with the bits
 * of `mask` flipped: the largest distance from a half over 32 × 32 pairs of bits, in standard deviations.
 */
function avalancheZ(f: (sample: number, mask: number) => number, samples: number): number {
  let worst = 0;
  for (let bit = 0; bit < 32; bit++) {
    const flips = new Uint32Array(samples);
    for (let i = 0; i < samples; i++) flips[i] = f(i, 0) ^ f(i, (1 << bit) >>> 0);
    for (const z of bitZ(flips)) worst = Math.max(worst, Math.abs(z));
  }
  return worst;
}

const largest = (values: number[]) => Math.max(...values.map(Math.abs));
const keys: Key[] = [[0, 0], [0xffffffff, 0xffffffff], deriveKey([1, 2, 3]), deriveKey([1, 2, 4])];

// With about 10^3 numbers below, 5 standard deviations come about once in a thousand honest generators. Keys are fixed,
// so a result is the same on every run.
const limit = 5;

describe.each([
  ["hash", hash, 2 ** 22],
  ["Threefry-2x32-20", threefry, 2 ** 20],
] as const)("%s", (_, generator, count) => {
  it("each bit and both halves are uniform, over millions of draws and several keys", () => {
    for (const key of keys) {
      const values = draws(generator(key), count);
      expect(largest(bitZ(values.subarray(0, 2 ** 20)))).toBeLessThan(limit);
      expect(largest([halfZ(values, 16), halfZ(values, 0)])).toBeLessThan(limit);
    }
  });

  it("neighbours are independent, along rows, blocks and columns", () => {
    const values = draws(generator(keys[2]!), count);
    for (const lag of [1, 2, 3, 4, 8, 16, 32, 128, 512, 1408, 2048, 4096]) {
      const { correlation, top, low } = pairZ(values, values, lag);
      expect({ lag, ok: largest([correlation, top, low]) < limit, correlation, top, low }).toMatchObject({ ok: true });
    }
  });

  it("streams of neighbouring keys, sites, layers and steps are independent", () => {
    const step = deriveKey([7, 100, 0]);
    const site = { name: hashName("mlp.down"), layer: 3, gemm: 1, operand: 0 };
    const base = siteKey(step, site);
    const [key0, key1] = base;
    const bit = (i: number) => (1 << i) >>> 0;
    const others: Key[] = [
      siteKey(step, { ...site, operand: 1 }),
      siteKey(step, { ...site, gemm: 2 }),
      siteKey(step, { ...site, layer: 4 }),
      siteKey(step, { ...site, name: hashName("mlp.up") }),
      siteKey(deriveKey([7, 101, 0]), site),
      siteKey(deriveKey([7, 100, 1]), site),
      siteKey(deriveKey([8, 100, 0]), site),
      [(key0 + 1) >>> 0, key1],
      [key0, (key1 + 1) >>> 0],
      [key1, key0],
      ...[0, 1, 15, 16, 31].flatMap((i): Key[] => [
        [(key0 ^ bit(i)) >>> 0, key1],
        [key0, (key1 ^ bit(i)) >>> 0],
      ]),
    ];
    const values = draws(generator(base), 2 ** 18);
    for (const [index, other] of others.entries()) {
      const otherValues = draws(generator(other), 2 ** 18);
      for (const lag of [0, 1, 16]) {
        const { correlation, top, low } = pairZ(values, otherValues, lag);
        expect({ index, lag, ok: largest([correlation, top, low]) < limit }).toMatchObject({ ok: true });
      }
    }
  });

  it("flipping any bit of counter or key flips every bit of the draw half of the time", () => {
    const samples = 2 ** 12;
    const spread = (i: number) => Math.imul(i, 0x9e3779b1) >>> 0;
    const flippedCounter = (i: number, mask: number) => generator(keys[2]!)((spread(i) ^ mask) >>> 0);
    const flippedKey0 = (i: number, mask: number) => generator([(spread(i) ^ mask) >>> 0, 5])(i);
    const flippedKey1 = (i: number, mask: number) => generator([5, (spread(i) ^ mask) >>> 0])(i);
    for (const f of [flippedCounter, flippedKey0, flippedKey1]) expect(avalancheZ(f, samples)).toBeLessThan(limit);
  });
});

describe("the tests themselves", () => {
  it("reject a counter that is stirred too little", () => {
    const values = draws(weak([1, 2]), 2 ** 18);
    const lags = [1, 2, 16, 512].map((lag) => pairZ(values, values, lag));
    expect(largest(lags.flatMap(({ top, low }) => [top, low]))).toBeGreaterThan(100);
    expect(avalancheZ((i, mask) => weak([1, 2])((i ^ mask) >>> 0), 2 ** 12)).toBeGreaterThan(50);
    const neighbour = draws(weak([1, 3]), 2 ** 18);
    expect(largest(Object.values(pairZ(values, neighbour, 0)))).toBeGreaterThan(100);
  });

  it("reject a bit that is set too often and values that are not uniform", () => {
    const values = draws(hash([1, 2]), 2 ** 18).map((value, i) => (i % 100 === 0 ? value | 4 : value));
    expect(largest(bitZ(values))).toBeGreaterThan(limit);
    expect(
      halfZ(
        values.map((value) => (value < 2 ** 26 ? value + 2 ** 26 : value)),
        16,
      ),
    ).toBeGreaterThan(limit);
  });
});

describe("fixed values", () => {
  it("the hash", () => {
    const got = [
      [0, 0],
      [1, 0],
      [0, 1],
      [0x12345678, 0x9abcdef0],
    ].map(([key0, key1]) =>
      [0, 1, 0xffffffff].map((counter) => hashNumber(key0!, key1!, counter).toString(16).padStart(8, "0")),
    );
    expect(got).toEqual([
      ["4f336880", "66cc443d", "481146bc"],
      ["fb9f3f17", "727bc138", "f04cf623"],
      ["04b4e9eb", "6128cf74", "679440ba"],
      ["09dc0062", "cf6799a6", "f31f01d7"],
    ]);
  });

  it("is the sequence of operations that its file states, in exact arithmetic", () => {
    const word = fc.integer({ min: 0, max: 0xffffffff });
    const u32 = (x: bigint) => BigInt.asUintN(32, x);
    const [weyl, quadratic, multiplier] = Object.values(hashConstants).map(BigInt) as [bigint, bigint, bigint];
    fc.assert(
      fc.property(word, word, word, (offset, odd, counter) => {
        const linear = (odd | 1) >>> 0;
        let x = u32(BigInt(counter) * weyl + BigInt(offset));
        x ^= x >> 16n;
        x = u32(x * u32(u32(x * quadratic) + BigInt(linear)));
        x ^= x >> 15n;
        x = u32(x * multiplier);
        expect(drawBits({ offset, linear }, counter) >>> 16).toBe(Number(x >> 16n));
        expect(drawBits({ offset, linear }, counter)).toBe(Number(x ^ (x >> 16n)));
      }),
    );
  });

  it("Threefry-2x32-20: the published vectors", () => {
    expect(threefry2x32([0, 0], [0, 0])).toEqual([0x6b200159, 0x99ba4efe]);
    const ones = 0xffffffff;
    expect(threefry2x32([ones, ones], [ones, ones])).toEqual([0x1cb996fc, 0xbb002be7]);
    expect(threefry2x32([0x13198a2e, 0x03707344], [0x243f6a88, 0x85a308d3])).toEqual([0xc4923a9c, 0x483df7a0]);
  });

  it("FNV-1a: the published vectors, over UTF-8", () => {
    expect(["", "a", "foobar"].map(hashName)).toEqual([0x811c9dc5, 0xe40c292c, 0xbf9cf968]);
    expect(hashName("é")).not.toBe(hashName("e"));
  });

  it("keys: every word and their number count", () => {
    const words = [[], [0], [0, 0], [1], [0, 1], [1, 0], [1, 2, 3], [1, 2, 3, 0], [3, 2, 1]];
    expect(new Set(words.map((list) => deriveKey(list).join())).size).toBe(words.length);
    expect(() => deriveKey([-1])).toThrow(/uint32/);
    expect(() => deriveKey([2 ** 32])).toThrow(/uint32/);
    expect(() => deriveKey([0.5])).toThrow(/uint32/);
  });

  it("sites: each has a key of its own, and it takes no part in the step's other sites", () => {
    const step = deriveKey([1, 2, 3]);
    const sites = ["q", "k"].flatMap((name) =>
      [0, 1, 255].flatMap((layer) =>
        [0, 1, 2].flatMap((gemm) => [0, 1].map((operand) => ({ name: hashName(name), layer, gemm, operand }))),
      ),
    );
    expect(new Set(sites.map((site) => siteKey(step, site).join())).size).toBe(sites.length);
  });
});
