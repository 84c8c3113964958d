/** The native attention against the plain lowering and the interpreter, for every instruction set of this machine. */
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { vjp } from "../../src/autodiff/index.ts";
import { type HostArray, hostArray, interpret, type Tensor, toValues, treeLeaves } from "../../src/core/index.ts";
import { jit } from "../../src/jit/index.ts";
import { countOperations, type ListedOperation } from "../../src/lower/index.ts";
import { causalAttention } from "../../src/nn/index.ts";
import { difference, type FloatName, kernelClients, random, run, sameBits } from "./kernelClients.ts";

const clients = await kernelClients();

afterAll(async () => {
  for (const client of [clients?.plain, ...(clients?.native.values() ?? [])]) await client?.destroy();
});

const attention = (...[ct, q, k, v]: Tensor[]): readonly Tensor[] => {
  const { out, pullback } = vjp((q, k, v) => causalAttention({ q, k, v }), q!, k!, v!);
  return [out, ...pullback(ct!)];
};

interface Shape {
  readonly batch: number;
  readonly time: number;
  readonly keyHeads: number;
  readonly group: number;
  readonly dim: number;
  readonly dtype: FloatName;
}

function inputsOf({ batch, time, keyHeads, group, dim, dtype }: Shape): HostArray[] {
  const [wide, narrow] = [
    [batch, time, keyHeads * group, dim],
    [batch, time, keyHeads, dim],
  ];
  return [random(wide, dtype, 1), random(wide, dtype, 2), random(narrow, dtype, 3), random(narrow, dtype, 4)];
}

/** With the first position that each sees as the last argument. */
const segmentAttention = (...[ct, q, k, v, starts]: Tensor[]): readonly Tensor[] => {
  const attend = (q: Tensor, k: Tensor, v: Tensor) => causalAttention({ q, k, v, starts: starts! });
  const { out, pullback } = vjp(attend, q!, k!, v!);
  return [out, ...pullback(ct!)];
};

/** Starts of documents of the given lengths, over and over until the sequence is full; each row begins elsewhere in the list. */
function startsOf({ batch, time }: Shape, lengths: readonly number[]): HostArray {
  const rows = Array.from({ length: batch }, (_, row) => {
    const starts: number[] = [];
    for (let i = row; starts.length < time; i++) {
      const start = starts.length;
      const length = Math.min(lengths[i % lengths.length]!, time - start);
      for (let t = 0; t < length; t++) starts.push(start);
    }
    return starts;
  });
  return hostArray([batch, time], "int32", Int32Array.from(rows.flat()));
}

const shapes: fc.Arbitrary<Shape> = fc.record({
  batch: fc.integer({ min: 1, max: 2 }),
  time: fc.integer({ min: 1, max: 150 }),
  keyHeads: fc.integer({ min: 1, max: 3 }),
  group: fc.integer({ min: 1, max: 3 }),
  dim: fc.constantFrom(16, 32, 48, 64, 80, 128, 256),
  dtype: fc.constantFrom("float32", "bfloat16"),
});

/**
 * Of the largest value: sums in another order; in bfloat16 weights and their cotangents are rounded, relative to another
 * maximum, before they are summed, and each result once more.
 */
const tolerance = { float32: 1e-5, bfloat16: 2 ** -7 } as const;

describe.skipIf(clients === undefined)("native attention", () => {
  const sets = [...(clients?.native ?? [])];

  it("gives what the plain lowering gives, with each instruction set", async () => {
    await fc.assert(
      fc.asyncProperty(shapes, async (shape) => {
        const inputs = inputsOf(shape);
        const plain = await run(clients!.plain, attention, inputs);
        expect(plain.stablehlo).not.toContain("halfbyte_");
        for (const [, client] of sets) {
          const native = await run(client, attention, inputs);
          expect(native.stablehlo).toContain("halfbyte_attention_forward");
          expect(native.stablehlo).toContain("halfbyte_attention_backward");
          native.results.forEach((x, i) => {
            expect(difference(x, plain.results[i]!)).toBeLessThan(tolerance[shape.dtype]);
          });
        }
      }),
      { numRuns: 12, seed: 5 },
    );
  });

  it("gives what the plain lowering gives of documents side by side, with each instruction set", async () => {
    const lengths = fc.array(fc.oneof(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 300 })), {
      minLength: 1,
      maxLength: 6,
    });
    const longer = shapes.chain((shape) => fc.integer({ min: 1, max: 400 }).map((time) => ({ ...shape, time })));
    await fc.assert(
      fc.asyncProperty(longer, lengths, async (shape, lengths) => {
        const inputs = [...inputsOf(shape), startsOf(shape, lengths)];
        const plain = await run(clients!.plain, segmentAttention, inputs);
        expect(plain.stablehlo).not.toContain("halfbyte_");
        for (const [, client] of sets) {
          const native = await run(client, segmentAttention, inputs);
          expect(native.stablehlo).toContain("halfbyte_segment_attention_forward");
          expect(native.stablehlo).toContain("halfbyte_segment_attention_backward");
          native.results.forEach((x, i) => {
            expect(difference(x, plain.results[i]!)).toBeLessThan(tolerance[shape.dtype]);
          });
        }
      }),
      { numRuns: 7, seed: 7 },
    );
  });

  it.each(sets)("%s: one document has the bits of attention without starts", async (_, client) => {
    for (const dtype of ["float32", "bfloat16"] as const) {
      const shape: Shape = { batch: 2, time: 300, keyHeads: 2, group: 2, dim: 32, dtype };
      const inputs = inputsOf(shape);
      const plain = await run(client, attention, inputs);
      const segments = await run(client, segmentAttention, [...inputs, startsOf(shape, [300])]);
      expect(sameBits(segments.results, plain.results)).toBe(true);
    }
  });

  it.each(sets)("%s: a document has no bit of those beside it, whatever is there", async (_, client) => {
    for (const dtype of ["float32", "bfloat16"] as const) {
      const shape: Shape = { batch: 1, time: 600, keyHeads: 1, group: 2, dim: 16, dtype };
      const [from, to] = [290, 410];
      const starts = startsOf(shape, [from, to - from, 190]);
      const inputs = inputsOf(shape);
      const other = inputsOf(shape).map((x, i) => {
        const size = x.data.length / shape.time;
        const changed = random(x.shape, dtype, 11 + i);
        (changed.data as Float32Array).set(x.data.slice(from * size, to * size) as Float32Array, from * size);
        return changed;
      });
      const [a, b] = [
        await run(client, segmentAttention, [...inputs, starts]),
        await run(client, segmentAttention, [...other, starts]),
      ];
      a.results.forEach((x, i) => {
        const size = x.data.length / shape.time;
        const own = ({ data }: HostArray) => data.slice(from * size, to * size);
        expect(own(b.results[i]!)).toEqual(own(x));
        expect(b.results[i]!.data).not.toEqual(x.data);
      });
    }
  });

  it.each(sets)("%s reads nothing outside the sequence for starts that are none", async (_, client) => {
    const shape: Shape = { batch: 1, time: 70, keyHeads: 1, group: 1, dim: 16, dtype: "float32" };
    const inputs = inputsOf(shape);
    const wild = Int32Array.from({ length: 70 }, (_, t) => [-(2 ** 31), -1, t + 1, 2 ** 31 - 1][t % 4]!);
    const meant = wild.map((start, t) => Math.min(Math.max(start, 0), t));
    const [got, wanted] = await Promise.all(
      [wild, meant].map((starts) => run(client, segmentAttention, [...inputs, hostArray([1, 70], "int32", starts)])),
    );
    expect(sameBits(got!.results, wanted!.results)).toBe(true);
  });

  it.each(sets)("%s gives what the interpreter gives", async (_, client) => {
    for (const dtype of ["float32", "bfloat16"] as const) {
      const inputs = inputsOf({ batch: 1, time: 37, keyHeads: 2, group: 2, dim: 32, dtype });
      const { results } = await run(client, attention, inputs);
      const wanted = treeLeaves<HostArray>(interpret(attention as never, ...(inputs as never[])));
      results.forEach((x, i) => {
        expect(difference(x, wanted[i]!)).toBeLessThan(tolerance[dtype]);
      });
    }
  });

  it.each(sets)("%s gives the same bits in every run", async (_, client) => {
    const inputs = inputsOf({ batch: 2, time: 200, keyHeads: 3, group: 2, dim: 64, dtype: "bfloat16" });
    const first = await run(client, attention, inputs);
    for (let i = 0; i < 3; i++) {
      expect(sameBits((await run(client, attention, inputs)).results, first.results)).toBe(true);
    }
  });

  it.each(sets)("%s keeps NaN, infinities and what masks hide apart", async (_, client) => {
    const shape: Shape = { batch: 1, time: 70, keyHeads: 1, group: 1, dim: 16, dtype: "float32" };
    for (const [input, value] of [
      [1, Number.NaN],
      [2, Number.NaN],
      [3, Number.NaN],
      [2, Number.POSITIVE_INFINITY],
      [2, Number.NEGATIVE_INFINITY],
    ] as const) {
      const inputs = inputsOf(shape);
      const at = 40;
      (inputs[input]!.data as Float32Array)[at * 16 + 3] = value;
      const [out, ...cotangents] = (await run(client, attention, inputs)).results.map((x) => toValues(x).data);
      const rows = (data: ArrayLike<number>) =>
        Array.from({ length: 70 }, (_, t) =>
          Array.from({ length: 16 }, (_, h) => data[t * 16 + h]!).every(Number.isFinite),
        );
      // Earlier positions don't see it; the position itself does, unless its weight is 0.
      expect(rows(out!).slice(0, at)).toEqual(Array(at).fill(true));
      const touched = [out!, ...cotangents].some((data) => !rows(data).every(Boolean));
      expect(touched).toBe(true);
    }
  });

  // Where 1/√dim is no power of two, scores are rounded once more. All but the largest weights are 0 there, so that rounding
  // of scores moves no result by more than the tolerance.
  it.each([
    [4e4, 32],
    [4e5, 128],
    [4e6, 32],
    [9e8, 128],
    [4e10, 32],
  ])("gives what the plain lowering gives at scores of %f and dim %i", async (score, dim) => {
    const shape: Shape = { batch: 1, time: 70, keyHeads: 1, group: 2, dim, dtype: "float32" };
    const [ct, q, k, v] = inputsOf(shape) as [HostArray, HostArray, HostArray, HostArray];
    // Whole numbers of few bits and far apart: products and their sums are exact in any order.
    const whole = (x: HostArray, seed: number, factor: number) => {
      for (let i = 0; i < x.data.length; i++) x.data[i] = Math.round(Math.sin(seed + i * i * 0.37) * 7) * factor;
    };
    const factor = 2 ** Math.round(Math.log2(score / (12 * Math.sqrt(dim))));
    whole(q, 2, 1);
    whole(k, 3, factor);
    const plain = await run(clients!.plain, attention, [ct, q, k, v]);
    for (const [, client] of sets) {
      const native = await run(client, attention, [ct, q, k, v]);
      expect(native.stablehlo).toContain("halfbyte_attention_backward");
      native.results.forEach((x, i) => {
        expect(difference(x, plain.results[i]!)).toBeLessThan(1e-5);
      });
    }
  });

  it("counts as the products that it is made of", async () => {
    const [, client] = sets.at(-1)!;
    const [batch, time, keyHeads, group, dim] = [2, 48, 2, 2, 32];
    const listing: ListedOperation[] = [];
    const compiled = jit(attention, { client, listing });
    await compiled.lower(...inputsOf({ batch, time, keyHeads, group, dim, dtype: "bfloat16" }));
    // Seven products over the T · (T + 1) / 2 pairs of positions that see each other.
    const pairs = (time * (time + 1)) / 2;
    expect(countOperations(listing).flops).toBe(7 * 2 * batch * keyHeads * group * dim * pairs);
  });

  it("is left to the plain lowering where the kernels take no such head", async () => {
    const [, client] = sets.at(-1)!;
    const inputs = inputsOf({ batch: 1, time: 9, keyHeads: 1, group: 2, dim: 24, dtype: "bfloat16" });
    const [native, plain] = [await run(client, attention, inputs), await run(clients!.plain, attention, inputs)];
    expect(native.stablehlo).toBe(plain.stablehlo);
    expect(sameBits(native.results, plain.results)).toBe(true);
  });
});
