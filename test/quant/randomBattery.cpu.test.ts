/**
 * The random generator under the battery of randomBattery.ts: 10^7 draws, compiled, of one stream, of pairs of streams that
 * differ in one coordinate, and of one element at 10^7 places; weak generators under the same battery.
 */
import { describe, expect, it } from "vitest";
import { hostArray, type Key, randomBits, type Tensor } from "../../src/core/index.ts";
import {
  deriveKey,
  drawBits,
  hashConstants,
  hashName,
  type Key as NumberKey,
  type RandomStream,
  streamOfKey,
} from "../../src/core/randomBits.ts";
import { jit } from "../../src/jit/index.ts";
import { siteKey } from "../../src/quant/random.ts";
import { mesh, partition } from "../../src/sharding/index.ts";
import { battery, crossBattery, rejected, repeats, worst } from "../core/randomBattery.ts";
import { fetchAndFree } from "../fetchAndFree.ts";
import { clientOf } from "../sharding/devices.ts";
import { compiledFunction } from "./bothWays.ts";

const numDraws = 10_000_000;
/** Draws of one key are all 2^32 words in some order. */
const ofOneKey = 2 ** 32;

interface Place {
  readonly seed: number;
  readonly step: number;
  readonly microBatch: number;
  readonly module: string;
  readonly layer: number;
  readonly gemm: number;
  readonly operand: number;
}
const home: Place = { seed: 1, step: 100, microBatch: 0, module: "mlp.up", layer: 3, gemm: 1, operand: 0 };

const keyAt = ({ seed, step, microBatch, module, ...site }: Place): NumberKey =>
  siteKey(deriveKey([seed, step, microBatch]), { name: hashName(module), ...site });

const scalar = (value: number) => hostArray([], "uint32", Uint32Array.of(value));
const compiled = compiledFunction((...key: Tensor[]) => randomBits(key as unknown as Key, [numDraws]));

/** The compiled draws of elements 0, 1, 2, … at a place. */
async function drawsAt(place: Place): Promise<Uint32Array> {
  const [words] = await compiled(...keyAt(place).map(scalar));
  return words!.data as Uint32Array;
}

const atHome = await drawsAt(home);

describe("10^7 draws of a stream", () => {
  it("are those of the plain generator, compiled", () => {
    const stream = streamOfKey(keyAt(home));
    let wrong = 0;
    for (let i = 0; i < numDraws; i++) if (atHome[i] !== drawBits(stream, i)) wrong++;
    expect(wrong).toBe(0);
  });

  it("are uniform in both halves, each bit balanced, elements 1, 2, 16 and 128 apart independent", () => {
    const statistics = battery(atHome, { population: ofOneKey });
    expect(statistics.length).toBeGreaterThan(200);
    expect(rejected(statistics)).toEqual([]);
  });

  it("also of a seed, layer and step of all ones", async () => {
    const words = await drawsAt({ ...home, seed: 2 ** 32 - 1, step: 2 ** 32 - 1, layer: 2 ** 24 - 1 });
    expect(rejected(battery(words, { population: ofOneKey }))).toEqual([]);
  });

  it("are the same bits on 1, 2 and 4 devices", async () => {
    const f = (...key: Tensor[]) => randomBits(key as unknown as Key, [2 ** 16]);
    for (const devices of [1, 2, 4]) {
      const on = { client: clientOf(devices), mesh: mesh({ data: devices }), outShardings: partition("data") };
      const program = jit(f, on);
      const words = await fetchAndFree<{ data: Uint32Array }>(program(...keyAt(home).map(scalar)));
      expect(words.data).toEqual(atHome.subarray(0, 2 ** 16));
      program.dispose();
    }
  });
});

describe("10^7 draws of two streams are independent", () => {
  it.each<[string, Partial<Place>]>([
    ["the two copies of a gradient", { gemm: 2 }],
    ["the two operands of a GEMM", { operand: 1 }],
    ["neighbouring layers", { layer: 4 }],
    ["neighbouring steps", { step: 101 }],
    ["micro-batches", { microBatch: 1 }],
    ["modules", { module: "mlp.gate" }],
    ["seeds", { seed: 2 }],
    ["step and micro-batch exchanged", { step: 0, microBatch: 100 }],
    ["step and layer exchanged", { step: 3, layer: 100 }],
  ])("%s", async (_, change) => {
    const other = await drawsAt({ ...home, ...change });
    expect(rejected(crossBattery(atHome, other))).toEqual([]);
  });
});

const modules = ["attn.q", "attn.k", "attn.v", "attn.o", "mlp.gate", "mlp.up", "mlp.down"].map(hashName);

/** The first `count` places of a training run, in its order, by their keys. */
function* keysOfRun(count: number, seed: number, numLayers: number): Generator<NumberKey> {
  for (let step = 0, found = 0; ; step++) {
    for (const microBatch of [0, 1]) {
      const key = deriveKey([seed, step, microBatch]);
      for (let layer = 0; layer < numLayers; layer++) {
        for (const name of modules) {
          for (const [gemm, operand] of drawnOperands) {
            if (found++ === count) return;
            yield siteKey(key, { name, layer, gemm, operand });
          }
        }
      }
    }
  }
}
/** [GEMM, operand] of all six operands and of the signs of three rotations. */
const drawnOperands = [0, 1, 2].flatMap((gemm) => [0, 1, 2].map((operand) => [gemm, operand] as const));

describe("one element at 10^7 places", () => {
  it("in the order of a run: operands, GEMMs, modules, layers, micro-batches, steps", () => {
    const words = new Uint32Array(numDraws);
    let at = 0;
    for (const key of keysOfRun(numDraws, 1, 36)) words[at++] = drawBits(streamOfKey(key), 0);
    expect(rejected(battery(words))).toEqual([]);
  });

  it("in 10^7 layers of one step", () => {
    const step = deriveKey([1, 100, 0]);
    const name = hashName("mlp.up");
    const words = new Uint32Array(numDraws);
    for (let layer = 0; layer < numDraws; layer++) {
      words[layer] = drawBits(streamOfKey(siteKey(step, { name, layer, gemm: 1, operand: 0 })), 0);
    }
    expect(rejected(battery(words))).toEqual([]);
  });

  it("has a key and a stream of its own at each of two million, whose offsets and first draws meet as often as by chance", () => {
    const perSeed = 2 ** 20;
    const seeds = [1, 2];
    const count = perSeed * seeds.length;
    const [keys, streams] = [new BigUint64Array(count), new BigUint64Array(count)];
    const [offsets, draws] = [new Uint32Array(count), new Uint32Array(count)];
    let at = 0;
    for (const seed of seeds) {
      for (const key of keysOfRun(perSeed, seed, 64)) {
        const { offset, linear } = streamOfKey(key);
        keys[at] = (BigInt(key[0]) << 32n) | BigInt(key[1]);
        streams[at] = (BigInt(offset) << 32n) | BigInt(linear);
        offsets[at] = offset;
        draws[at++] = drawBits({ offset, linear }, 0);
      }
    }
    expect([repeats(keys), repeats(streams)]).toEqual([0, 0]);
    const wanted = count ** 2 / 2 / 2 ** 32;
    const statistics = Object.entries({ offsets, draws }).map(([name, words]) => ({
      name,
      z: (repeats(words) - wanted) / Math.sqrt(wanted),
    }));
    expect(rejected(statistics)).toEqual([]);
  });
});

describe("the battery rejects", () => {
  const { weyl, quadratic, multiplier } = hashConstants;
  const xorShift = (x: number, bits: number) => x ^ (x >>> bits);
  const weak: Record<string, (stream: RandomStream, counter: number) => number> = {
    "a linear congruence of the counter": ({ offset }, counter) => Math.imul(counter, weyl) + offset,
    "the hash without its last product": ({ offset, linear }, counter) => {
      const x = xorShift(Math.imul(counter, weyl) + offset, 16);
      return xorShift(Math.imul(x, Math.imul(x, quadratic) + linear), 15);
    },
    "the hash without its last shift": ({ offset, linear }, counter) => {
      const x = xorShift(Math.imul(counter, weyl) + offset, 16);
      return Math.imul(xorShift(Math.imul(x, Math.imul(x, quadratic) + linear), 15), multiplier);
    },
    "the hash with a plain product in place of the square": ({ offset, linear }, counter) => {
      const x = xorShift(Math.imul(counter, weyl) + offset, 16);
      return xorShift(Math.imul(xorShift(Math.imul(x, linear), 15), multiplier), 16);
    },
  };

  it.each(Object.entries(weak))("%s", (_, generator) => {
    const stream = streamOfKey(keyAt(home));
    const words = new Uint32Array(numDraws);
    for (let i = 0; i < numDraws; i++) words[i] = generator(stream, i);
    expect(Math.abs(worst(battery(words, { population: ofOneKey })).z)).toBeGreaterThan(6);
  });

  it("keys that are used as streams without mixing", () => {
    const drawsOf = ([offset, linear]: NumberKey): Uint32Array => {
      const words = new Uint32Array(2 ** 20);
      for (let i = 0; i < words.length; i++) words[i] = drawBits({ offset, linear: linear | 1 }, i);
      return words;
    };
    const cross = crossBattery(drawsOf(keyAt(home)), drawsOf(keyAt({ ...home, operand: 1 })));
    expect(Math.abs(worst(cross).z)).toBeGreaterThan(100);
  });

  it("a bit that is set too often, and values that are not uniform", () => {
    const words = atHome.subarray(0, 2 ** 18);
    expect(rejected(battery(words.map((word, i) => (i % 60 === 0 ? word | 4 : word))))).not.toEqual([]);
    expect(rejected(battery(words.map((word) => (word < 2 ** 25 ? word + 2 ** 25 : word))))).not.toEqual([]);
  });
});
