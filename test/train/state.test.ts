import { describe, expect, it } from "vitest";
import type { HostArray } from "../../src/core/index.ts";
import { treePaths } from "../../src/core/index.ts";
import { fillNormal, initialState } from "../../src/train/state.ts";
import { tinyModel } from "./tinyRun.ts";

const valuesOf = (array: HostArray) => array.data as Float32Array;
const deviation = (values: Float32Array) => Math.sqrt(values.reduce((sum, x) => sum + x * x, 0) / values.length);

describe("the initial state", () => {
  const model = { ...tinyModel, vocabSize: 512, tieEmbeddings: false };
  const state = initialState(model, 7);

  it("is a function of the seed", () => {
    expect(initialState(model, 7)).toEqual(state);
    const other = initialState(model, 8);
    for (const { path, leaf } of treePaths(other.params)) {
      const mine = treePaths(state.params).find((entry) => entry.path === path)!.leaf;
      if ((leaf as HostArray).shape.length === 2) expect(leaf, path).not.toEqual(mine);
    }
  });

  it("does not depend on the number of layers, but for the scale of what writes to the residual stream", () => {
    const deeper = initialState({ ...model, numLayers: 8 }, 7);
    expect(deeper.params.layers[1]!.q).toEqual(state.params.layers[1]!.q);
    const [shallow, deep] = [valuesOf(state.params.layers[0]!.down), valuesOf(deeper.params.layers[0]!.down)];
    expect(deep[5]! / shallow[5]!).toBeCloseTo(0.5, 5);
  });

  it("has other values in every matrix, of the right size", () => {
    const { embed, head, layers } = state.params;
    expect(deviation(valuesOf(embed))).toBeCloseTo(0.02, 3);
    expect(deviation(valuesOf(layers[0]!.o))).toBeCloseTo(0.01, 3);
    const firsts = [embed, head!, ...layers.flatMap(({ q, k, v, o, gate, up, down }) => [q, k, v, o, gate, up, down])];
    expect(new Set(firsts.map((array) => valuesOf(array)[0])).size).toBe(firsts.length);
    expect(valuesOf(state.params.norm).every((x) => x === 1)).toBe(true);
    expect(valuesOf(layers[1]!.mlpNorm).every((x) => x === 1)).toBe(true);
  });

  it("has no moments and no updates", () => {
    const { count, mu, nu } = state.optimizer;
    expect([...count.data]).toEqual([0]);
    for (const { leaf } of [...treePaths(mu), ...treePaths(nu)]) {
      expect(valuesOf(leaf as HostArray).every((x) => x === 0)).toBe(true);
    }
  });
});

describe("normal values", () => {
  it("have the moments of a normal distribution and no neighbours that agree", () => {
    const values = new Float32Array(200_001);
    fillNormal(values, 2, 12345);
    const mean = (f: (x: number) => number) => values.reduce((sum, x) => sum + f(x / 2), 0) / values.length;
    expect(mean((x) => x)).toBeCloseTo(0, 2);
    expect(mean((x) => x ** 2)).toBeCloseTo(1, 2);
    expect(Math.abs(mean((x) => x ** 3))).toBeLessThan(0.03);
    expect(Math.abs(mean((x) => x ** 4) - 3)).toBeLessThan(0.1);
    let product = 0;
    for (let i = 1; i < values.length; i++) product += values[i]! * values[i - 1]!;
    expect(Math.abs(product / values.length / 4)).toBeLessThan(0.01);
    expect(values.every(Number.isFinite)).toBe(true);
  });
});
