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
import { battery, crossBattery, limit, rejected, worst } from "./randomBattery.ts";

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

/** For each of 32 bits, how often it is set, in standard deviations from a half. */
function bitZ(values: Uint32Array): number[] {
  const ones = new Float64Array(32);
  for (const value of values) for (let bit = 0; bit < 32; bit++) ones[bit]! += (value >>> bit) & 1;
  return Array.from(ones, (count) => (2 * count - values.length) / Math.sqrt(values.length));
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

const keys: Key[] = [[0, 0], [0xffffffff, 0xffffffff], deriveKey([1, 2, 3]), deriveKey([1, 2, 4])];

describe.each([
  ["hash", hash, 2 ** 20],
  ["Threefry-2x32-20", threefry, 2 ** 20],
] as const)("%s", (_, generator, count) => {
  it("is uniform and neighbours are independent, along rows, blocks and columns, for several keys", () => {
    const lags = [1, 2, 3, 4, 8, 16, 32, 128, 512, 1408, 2048, 4096];
    for (const key of keys) {
      expect(rejected(battery(draws(generator(key), count), { population: 2 ** 32, lags }))).toEqual([]);
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
      expect({ index, rejected: rejected(crossBattery(values, otherValues)) }).toEqual({ index, rejected: [] });
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
    expect(Math.abs(worst(battery(values)).z)).toBeGreaterThan(100);
    expect(avalancheZ((i, mask) => weak([1, 2])((i ^ mask) >>> 0), 2 ** 12)).toBeGreaterThan(50);
    const neighbour = draws(weak([1, 3]), 2 ** 18);
    expect(Math.abs(worst(crossBattery(values, neighbour)).z)).toBeGreaterThan(100);
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
