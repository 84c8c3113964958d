/**
 * No rounding is elided and none is moved: compiled arithmetic equals the interpreter's exactly at every rounding point,
 * alone, after elements were moved, and fused with what follows.
 */
import { describe, expect, it } from "vitest";
import { scan } from "../../src/autodiff/index.ts";
import {
  concat,
  type DType,
  dot,
  type HostArray,
  iota,
  isFloat,
  optimizationBarrier,
  type Tensor,
  where,
} from "../../src/core/index.ts";
import { exact, exactButZeros, sums } from "../core/properties/compare.ts";
import { differencesOf, draw, type OpCase } from "../core/properties/opCase.ts";
import { arrays, ordinaryArrays, withoutDenormals } from "../core/properties/values.ts";

const shape = [12, 33];
const [edges] = draw("rounding", arrays("float32", shape)) as [HostArray];
const ordinary = draw("rounding", ordinaryArrays("float32", shape), 3);

type Round = (x: Tensor) => Tensor;

/** float32 to a narrow dtype and back. */
const through =
  (dtype: DType): Round =>
  (x) =>
    x.astype(dtype).astype("float32");

const rounds: Record<string, Round> = {
  bfloat16: through("bfloat16"),
  float16: through("float16"),
  float8_e4m3fn: through("float8_e4m3fn"),
  float8_e5m2: through("float8_e5m2"),
  float8_e8m0fnu: through("float8_e8m0fnu"),
  float4_e2m1fn: through("float4_e2m1fn"),
  "bfloat16, then float8_e4m3fn": (x) => through("float8_e4m3fn")(through("bfloat16")(x)),
  "float4_e2m1fn of a scaled value": (x) => through("float4_e2m1fn")(x.mul(1.3)).mul(2),
};

/** What stands around a rounding, before and after it. All of it is exact, so that the rounding is all that rounds. */
const settings: Record<string, (x: Tensor, round: Round) => Tensor> = {
  alone: (x, round) => round(x),
  "after reshape and transpose": (x, round) => round(x.transpose().reshape([11, 36])),
  "before reshape and transpose": (x, round) => round(x).reshape([36, 11]).transpose(),
  "between element-wise operations": (x, round) => round(x.neg()).abs().max(1).mul(2),
  "in a difference": (x, round) => round(x).sub(x),
  "twice in a sum": (x, round) => round(x).add(round(x.reverse([1]))),
  "under a selection": (x, round) => where(x.gt(1), round(x), x),
  "of a concatenation": (x, round) => round(concat([x, x.neg()], 0)).narrow(0, 6, 12),
  "behind a barrier": (x, round) => optimizationBarrier([round(optimizationBarrier([x])[0]!)])[0]!,
  "of a row's maximum": (x, round) => round(x.maxOver(1, { keepDims: true })).broadcastTo(shape),
  "in a loop": (x, round) =>
    scan((c: Tensor, row: Tensor) => ({ carry: round(c.max(row)), y: round(row) }), x.at(0, 0), x).ys,
};

describe("a rounding is not elided", () => {
  it.each(Object.entries(rounds))("%s", async (name, round) => {
    // The smallest float8_e8m0fnu is a denormal float32, which sums may flush.
    const inputs = [name === "float8_e8m0fnu" ? withoutDenormals(edges) : edges];
    const cases = Object.entries(settings).map(
      ([setting, f]): OpCase => ({ label: `${name} ${setting}`, inputs, f: (x) => f(x!, round), rule: exact }),
    );
    expect(await differencesOf(cases)).toEqual([]);
  });
});

describe("an operation in a narrow dtype is rounded before it is widened", () => {
  const binary: Record<string, (a: Tensor, b: Tensor) => Tensor> = {
    add: (a, b) => a.add(b),
    sub: (a, b) => a.sub(b),
    mul: (a, b) => a.mul(b),
    div: (a, b) => a.div(b),
    sqrt: (a) => a.abs().sqrt(),
    "product and sum": (a, b) => a.mul(b).add(a),
    "sum of products": (a, b) => a.mul(a).add(b.mul(b)),
    "scaled by numbers": (a) => a.mul(1.1).mul(1.3).div(3),
    "two quotients": (a, b) => a.div(b).div(a),
  };

  it.each(["bfloat16", "float16"] as const)("%s", async (dtype) => {
    const cases = Object.entries(binary).map(
      ([name, f]): OpCase => ({
        label: name,
        inputs: ordinary.slice(0, 2),
        f: (a, b) => f(a!.astype(dtype), b!.astype(dtype)).astype("float32"),
        rule: exact,
      }),
    );
    // float16 has a fused multiply-add of its own.
    const tested = dtype === "float16" ? cases.filter(({ label }) => !/sum/.test(label)) : cases;
    expect(await differencesOf(tested)).toEqual([]);
  });

  it("sums and contractions", async () => {
    const byRows = { contract: [[1], [1]] } as const;
    const narrow = (x: Tensor) => x.astype("bfloat16");
    const results: Record<string, (a: Tensor, b: Tensor) => Tensor> = {
      sum: (a) => narrow(a).sum(1),
      mean: (a) => narrow(a).mean(0),
      dot: (a, b) => dot(narrow(a), narrow(b), byRows),
      "dot and conversion": (a, b) => narrow(dot(narrow(a), narrow(b), { ...byRows, out: "float32" })),
      "dot of columns": (a, b) => dot(narrow(a), narrow(b), { contract: [[0], [0]] }),
    };
    const inputs = ordinary.slice(0, 2);
    const cases = Object.entries(results).flatMap(([label, f]): OpCase[] => [
      { label, inputs, f: (a, b) => f(a!, b!), rule: sums("bfloat16") },
      { label: `${label}, widened`, inputs, f: (a, b) => lowBits(f(a!, b!).astype("float32")), rule: exact },
    ]);
    expect(await differencesOf(cases)).toEqual([]);
  });
});

/** The 16 bits of a float32 that a bfloat16 does not have: all zero, where the value was rounded. */
const lowBits = (x: Tensor): Tensor => x.bitcast("uint32").and(0xffff);

describe("arithmetic is not rewritten", () => {
  const programs: Record<string, (x: Tensor, y: Tensor, z: Tensor) => Tensor> = {
    "x / 3": (x) => x.div(3),
    "x / 8": (x) => x.div(8),
    "x / row": (x, y) => x.div(y.narrow(0, 0, 1)),
    "x / column": (x, y) => x.div(y.narrow(1, 0, 1)),
    "x / scalar": (x, y) => x.div(y.at(0, 0).at(0, 0)),
    "x / (scalar + 1)": (x, y) => x.div(y.at(0, 0).at(0, 0).broadcastTo(shape).abs().add(1)),
    "count / 3": (x) => iota(shape, 1, x.dtype).div(3).add(x.mul(0)),
    "column / 3": (x) => x.narrow(1, 0, 1).broadcastTo(shape).div(3),
    "x / count": (x) => x.div(iota(shape, 1, x.dtype).add(1)),
    "3 / column": (x) =>
      x
        .mul(0)
        .add(3)
        .div(x.narrow(1, 0, 1).abs().add(1)),
    "1 / x": (x) => x.mul(0).add(1).div(x),
    "1 / (1 / x)": (x) => x.mul(0).add(1).div(x.mul(0).add(1).div(x)),
    "x / y / z": (x, y, z) => x.div(y).div(z),
    "x / y / z, moved between": (x, y, z) =>
      x
        .div(y)
        .transpose()
        .reshape([11, 36])
        .div(z.reshape([11, 36])),
    "x / (y / z)": (x, y, z) => x.div(y.div(z)),
    "(x / y) / (z / x)": (x, y, z) => x.div(y).div(z.div(x)),
    "x / √y": (x, y) => x.div(y.abs().sqrt()),
    "x · 1.1 · 1.3": (x) => x.mul(1.1).mul(1.3),
    "x · 1.1 · 1.3, moved between": (x) => x.mul(1.1).transpose().reshape(shape).mul(1.3),
    "x · 1.1 · row": (x, y) => x.mul(1.1).mul(y.narrow(0, 0, 1)),
    "(x · 1.1) · (y · 1.3)": (x, y) => x.mul(1.1).mul(y.mul(1.3)),
    "x + 1.1 + 1.3": (x) => x.add(1.1).add(1.3),
    "x − 1.1 + 1.3": (x) => x.sub(1.1).add(1.3),
    "(1.1 − x) − 1.3": (x) => x.neg().add(1.1).sub(1.3),
    "x / 3 · 7": (x) => x.div(3).mul(7),
    "x · y · z": (x, y, z) => x.mul(y).mul(z),
    "x + y + z": (x, y, z) => x.add(y).add(z),
    "x − y + y": (x, y) => x.sub(y).add(y),
    "x · y / y": (x, y) => x.mul(y).div(y),
    "½x + ½y": (x, y) => x.mul(0.5).add(y.mul(0.5)),
    "in a loop": (x, y) =>
      scan((c: Tensor, row: Tensor) => ({ carry: c.div(3).div(row), y: c.mul(1.1).mul(1.3) }), x.at(0, 0), y).ys,
    "max of max": (x, y) => x.max(y).max(x),
    "a product, rounded by a conversion, in a sum": (x, y, z) => through("bfloat16")(x.mul(y)).add(z),
  };

  it.each(["float32", "float64", "float16"] as const)("%s", async (dtype) => {
    // Where float16 would overflow there is nothing to compare.
    const inputs = ordinary.map((host) => withoutDenormals(host));
    const cases = Object.entries(programs).map(
      ([label, f]): OpCase => ({
        label,
        inputs,
        f: (x, y, z) => f(...([x!, y!, z!].map((t) => t.astype(dtype)) as [Tensor, Tensor, Tensor])),
        rule: exactButZeros,
      }),
    );
    const tested = cases.filter(
      ({ label }) => isFloat(dtype) && (dtype === "float32" || !label.includes("conversion")),
    );
    expect(await differencesOf(tested)).toEqual([]);
  });
});
