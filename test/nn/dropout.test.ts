import { expect, it } from "vitest";
import { grad } from "../../src/autodiff/index.ts";
import { full, interpret, randomKey, type Tensor, trace } from "../../src/core/index.ts";
import { dropout } from "../../src/nn/index.ts";

const count = 1 << 14;
const ones = () => full([count], 1, "float32");

it("zeroes its share, keeps the mean, and gives the same places a gradient", () => {
  const drop = (x: Tensor) => dropout(x, randomKey(1), 0.25);
  const { data } = interpret(() => drop(ones()));
  const kept = Array.from(data as Float32Array).filter((x) => x !== 0);
  expect(new Set(kept)).toEqual(new Set([Math.fround(1 / 0.75)]));
  const deviation = Math.sqrt((0.25 * 0.75) / count);
  expect(Math.abs(kept.length / count - 0.75) / deviation).toBeLessThan(4);
  expect(interpret(() => grad((x: Tensor) => drop(x).sum())(ones())).data).toEqual(data);
});

it("is nothing at a rate of 0, and refuses rates beyond", () => {
  expect(trace((x: Tensor) => dropout(x, randomKey(1), 0), { shape: [2], dtype: "float32" }).eqns).toEqual([]);
  expect(() => trace(() => dropout(ones(), randomKey(1), 1))).toThrow("dropout: the rate must be in [0, 1); got 1");
});
