/** The random bits of stochastic rounding: reproducible; what they make of rounding. How random they are: randomBattery. */
import { describe, expect, it } from "vitest";
import { hostArray, iota, type Tensor } from "../../src/core/index.ts";
import { randomBits16, type Word } from "../../src/core/random.ts";
import { deriveKey, drawBits, hashName, type RandomStream, streamOfKey } from "../../src/core/randomBits.ts";
import {
  type GemmName,
  gemmNames,
  nvfp4,
  type QuantizedOperand,
  quantize,
  type RandomPlace,
  streamAt,
} from "../../src/quant/index.ts";
import { siteKey } from "../../src/quant/random.ts";
import { compiledFunction, floats, interpreted, normals, numbers } from "./bothWays.ts";

const { fprop, dgrad } = nvfp4();
const [nearestRows, stochasticRows] = [fprop.left, dgrad.left] as [QuantizedOperand, QuantizedOperand];
const scalar = (value: number) => hostArray([], "uint32", Uint32Array.of(value));
const home: RandomPlace & { readonly gemm: GemmName } = { module: "mlp.up", layer: 3, gemm: "dgrad", operand: "left" };

interface Coordinates extends RandomPlace {
  readonly gemm: GemmName;
  readonly seed: number;
  readonly step: Word;
  readonly microBatch: Word;
}
const origin: Coordinates = { ...home, seed: 1, step: 100, microBatch: 0 };
/** The stream in plain numbers; all coordinates are numbers. */
function streamNumbers({ module, layer, gemm, operand, seed, step, microBatch }: Coordinates): RandomStream {
  const site = {
    name: hashName(module),
    layer: layer as number,
    gemm: gemmNames.indexOf(gemm),
    operand: operand === "left" ? 0 : 1,
  };
  return streamOfKey(siteKey(deriveKey([seed, step as number, microBatch as number]), site));
}

const numDraws = 2 ** 20;
const drawsOf = compiledFunction((offset: Tensor, linear: Tensor) =>
  randomBits16({ offset, linear }, iota([numDraws], 0, "uint32")),
);

/** `numDraws` numbers below 2^16, for elements 0, 1, 2, … of a place. */
async function draws(changes: Partial<Coordinates> = {}): Promise<Uint32Array> {
  const { offset, linear } = streamNumbers({ ...origin, ...changes });
  const [u] = await drawsOf(scalar(offset), scalar(linear));
  return u!.data as Uint32Array;
}

describe("random bits", () => {
  it("are the same bits again, whether step, micro-batch and layer are numbers or live in the program", async () => {
    const count = 4096;
    const inProgram = (step: Tensor, microBatch: Tensor, layer: Tensor) =>
      randomBits16(streamAt({ seed: origin.seed, step, microBatch }, { ...home, layer }), iota([count], 0, "uint32"));
    const compiled = compiledFunction(inProgram);
    for (const [step, microBatch, layer] of [
      [100, 0, 3],
      [0, 0, 0],
      [4294967295, 7, 61],
    ] as const) {
      const known = await draws({ step, microBatch, layer });
      const args = [scalar(step), scalar(microBatch), scalar(layer)];
      const runs = [interpreted(inProgram, ...args), await compiled(...args), await compiled(...args)];
      for (const [u] of runs) expect(u!.data).toEqual(known.subarray(0, count));
    }
  });

  it("are those of the plain numbers, at every place", () => {
    for (const changes of [
      {},
      { gemm: "wgrad" },
      { operand: "right" },
      { module: "attn.q", layer: 61, seed: 2 ** 32 - 1 },
    ] as const) {
      const at = { ...origin, ...changes };
      const { offset, linear } = streamNumbers(at);
      const stream = streamAt(at, at);
      const [found] = interpreted(() => [randomBits16(stream, iota([64], 0, "uint32"))]);
      const wanted = Uint32Array.from({ length: 64 }, (_, i) => drawBits({ offset, linear }, i) >>> 16);
      expect(found!.data).toEqual(wanted);
    }
  });

  it("are these bits: changing the generator changes every run that was recorded", () => {
    const [u] = interpreted(() => randomBits16(streamAt(origin, origin), iota([8], 0, "uint32")));
    expect(Array.from(u!.data as Uint32Array)).toMatchInlineSnapshot(`
      [
        20126,
        39039,
        11656,
        122,
        17277,
        50691,
        35888,
        44956,
      ]
    `);
  });
});

describe("stochastic rounding", () => {
  const shape = [64, 128] as const;
  const next = normals(11);
  const x = floats(shape, "bfloat16", next);
  const decoded = (x: Tensor, step: Tensor) => {
    const draws = streamAt({ seed: 1, step, microBatch: 0 }, home);
    const { values, factor } = quantize(x, stochasticRows, { axis: "row", draws });
    return values.astype("float32").mul(factor!);
  };
  const rmse = (values: ArrayLike<number>) => {
    const exact = Array.from(numbers(x));
    return Math.sqrt(exact.reduce((sum, v, i) => sum + (values[i]! - v) ** 2, 0) / exact.length);
  };

  it("averages to x: the mean of 50 draws is nearer to it than rounding to nearest", async () => {
    const nearest = (x: Tensor) => {
      const { values, factor } = quantize(x, nearestRows, { axis: "row" });
      return values.astype("float32").mul(factor!);
    };
    const compiled = compiledFunction(decoded);
    const mean = new Float64Array(shape[0] * shape[1]);
    let single = 0;
    for (let step = 0; step < 50; step++) {
      const [draw] = await compiled(x, scalar(step));
      const values = numbers(draw!);
      single = rmse(values);
      for (let i = 0; i < mean.length; i++) mean[i]! += values[i]! / 50;
    }
    const ofNearest = rmse(numbers((await compiledFunction(nearest)(x))[0]!));
    expect(rmse(mean)).toBeLessThan(ofNearest);
    // One draw is worse than nearest; fifty independent ones are about seven times better than one.
    expect(single).toBeGreaterThan(ofNearest);
    expect(rmse(mean)).toBeLessThan(single / 4);
  });

  it("numbers elements in the unpadded matrix, row by row", async () => {
    const [rows, columns] = [21, 40];
    const y = floats([rows, columns], "float32", () => next());
    const stream = streamAt(origin, origin);
    const bits = await draws();
    for (const axis of ["row", "col"] as const) {
      const f = (x: Tensor) => {
        const { elements } = quantize(x, stochasticRows, { axis, draws: stream });
        return [elements, quantize(x, nearestRows, { axis }).scales];
      };
      const [elements, scales] = interpreted(f, y) as [ReturnType<typeof floats>, ReturnType<typeof floats>];
      const amax = Math.max(...Array.from(numbers(y), Math.abs));
      const S = Math.fround(2688 / amax);
      const found = numbers(elements);
      numbers(y).forEach((value, i) => {
        const [row, column] = [Math.floor(i / columns), i % columns];
        const block = axis === "row" ? row * 3 + Math.floor(column / 16) : Math.floor(row / 16) * columns + column;
        const s = numbers(scales)[block]!;
        const e = Math.fround(1 / Math.fround(s * Math.fround(1 / S)));
        const magnitude = Math.min(Math.abs(Math.fround(value * e)), 6);
        const step = magnitude < 2 ? 0.5 : magnitude < 4 ? 1 : 2;
        const t = magnitude / step;
        const k = Math.floor((t - Math.floor(t)) * 65536);
        const q = (Math.floor(t) + (k + bits[i]! >= 65536 ? 1 : 0)) * step;
        expect(Math.abs(found[i]!)).toBe(q);
      });
    }
  });
});
