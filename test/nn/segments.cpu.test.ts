/** Documents side by side in a sequence: attention and positions are those of each document alone. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { vjp } from "../../src/autodiff/index.ts";
import { type HostArray, hostArray, interpret, type spec, type Tensor, toValues } from "../../src/core/index.ts";
import { jit } from "../../src/jit/index.ts";
import { causalAttention, rope, ropeTables, segmentPositions, segmentStarts } from "../../src/nn/index.ts";
import { fetchAndFree } from "../fetchAndFree.ts";
import { difference, type FloatName, random } from "../native/kernelClients.ts";

const int32 = (rows: readonly (readonly number[])[]): HostArray =>
  hostArray([rows.length, rows[0]!.length], "int32", Int32Array.from(rows.flat()));

/** Documents numbered from 1, then padding. */
const numbered = (lengths: readonly number[], width: number): number[] => {
  const row = lengths.flatMap((length, i) => Array<number>(length).fill(i + 1));
  return [...row, ...Array<number>(width - row.length).fill(0)];
};

/** Entries `from` up to `to` of row `row`, along time. */
function part({ shape, dtype, data }: HostArray, row: number, from: number, to: number): HostArray {
  const [, T, ...rest] = shape as [number, number, ...number[]];
  const size = rest.reduce((a, b) => a * b, 1);
  const values = data.slice((row * T + from) * size, (row * T + to) * size);
  return hostArray([1, to - from, ...rest], dtype, values as never);
}

describe("segments", () => {
  const rows = fc.array(fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 9, maxLength: 9 }), {
    minLength: 1,
    maxLength: 3,
  });

  it("start where the number changes, and positions count from there", () => {
    fc.assert(
      fc.property(rows, (segments) => {
        const f = (x: Tensor) => [segmentStarts(x), segmentPositions(segmentStarts(x))];
        const [starts, positions] = interpret(f, int32(segments)) as HostArray[];
        const wanted = segments.map((row) => {
          let start = 0;
          return row.map((id, t) => {
            if (t > 0 && id !== row[t - 1]) start = t;
            return start;
          });
        });
        expect([...starts!.data]).toEqual(wanted.flat());
        expect([...positions!.data]).toEqual(wanted.flatMap((row) => row.map((start, t) => t - start)));
      }),
    );
  });

  it("are int32 [batch, time], and starts too", () => {
    const error = (f: (x: Tensor) => unknown, ...of: Parameters<typeof spec>) =>
      expect(() => interpret(f as never, hostArray(of[0], of[1], new Float32Array(4) as never) as never)).toThrow();
    error((x) => segmentStarts(x), [2, 2], "float32");
    error((x) => segmentStarts(x), [4], "float32");
  });

  it("turn a document by the positions that it has alone, to the bit", () => {
    const options = { headDim: 8, theta: 1e4 };
    const x = random([1, 12, 2, 8], "float32", 1);
    const packed = interpret(
      (x: Tensor, segments: Tensor) => rope(x, ropeTables(segmentPositions(segmentStarts(segments)), options)),
      x,
      int32([numbered([5, 7], 12)]),
    ) as HostArray;
    const alone = interpret((x: Tensor) => rope(x, ropeTables(7, options)), part(x, 0, 5, 12)) as HostArray;
    expect(part(packed, 0, 5, 12).data).toEqual(alone.data);
  });
});

interface Shape {
  readonly keyHeads: number;
  readonly group: number;
  readonly dim: number;
  readonly tiles: { readonly rows: number; readonly heads: number };
}

describe.each(["float32", "bfloat16"] as const)("attention within segments, in %s", (dtype: FloatName) => {
  /** Of the largest value: sums of as many numbers in another order; in bfloat16 each result rounds once. */
  const tolerance = dtype === "float32" ? 1e-5 : 2 ** -7;
  const width = 23;
  const rows = [numbered([5, 1, 9], width), numbered([23], width), numbered([2, 3, 4, 14], width)];

  const gradients = ({ tiles }: Shape) => {
    return (...[ct, q, k, v, segments]: Tensor[]): readonly Tensor[] => {
      const starts = segmentStarts(segments!);
      const { out, pullback } = vjp((q, k, v) => causalAttention({ q, k, v, starts }, tiles), q!, k!, v!);
      return [out, ...pullback(ct!)];
    };
  };

  it.each<Shape>([
    { keyHeads: 2, group: 2, dim: 16, tiles: { rows: 8, heads: 16 } },
    { keyHeads: 1, group: 3, dim: 12, tiles: { rows: 5, heads: 2 } },
    { keyHeads: 2, group: 1, dim: 8, tiles: { rows: 64, heads: 64 } },
  ])("is that of each document alone, forward and backward, with %o", async (shape) => {
    const { keyHeads, group, dim } = shape;
    const wide = [rows.length, width, keyHeads * group, dim];
    const narrow = [rows.length, width, keyHeads, dim];
    const inputs = [1, 2, 3, 4].map((seed) => random(seed < 3 ? wide : narrow, dtype, seed));
    const compiled = jit(gradients(shape));
    const packed = await fetchAndFree<HostArray[]>(compiled(...inputs, int32(rows)));
    compiled.dispose();
    rows.forEach((row, r) => {
      for (const id of new Set(row)) {
        const [from, to] = [row.indexOf(id), row.lastIndexOf(id) + 1];
        const own = inputs.map((x) => part(x, r, from, to));
        const alone = interpret(
          (...[ct, q, k, v]: Tensor[]) => {
            const { out, pullback } = vjp((q, k, v) => causalAttention({ q, k, v }), q!, k!, v!);
            return [out, ...pullback(ct!)];
          },
          ...own,
        ) as unknown as HostArray[];
        packed.forEach((x, i) => {
          expect(difference(part(x, r, from, to), alone[i]!)).toBeLessThan(tolerance);
        });
      }
    });
  });

  it("has no bit of the documents before or after it, and neither have its gradients", async () => {
    const shape: Shape = { keyHeads: 2, group: 2, dim: 16, tiles: { rows: 8, heads: 16 } };
    const inputs = [1, 2, 3, 4].map((seed) => random([1, width, seed < 3 ? 4 : 2, 16], dtype, seed));
    const compiled = jit(gradients(shape));
    const segments = int32([numbered([6, 10], width)]);
    const run = (x: readonly HostArray[]) => fetchAndFree<HostArray[]>(compiled(...x, segments));
    const first = await run(inputs);
    // Other queries, keys, values and cotangents everywhere but in the second document.
    const other = [5, 6, 7, 8].map((seed, i) => {
      const changed = random(inputs[i]!.shape, dtype, seed);
      const size = changed.data.length / width;
      (changed.data as Float32Array).set(inputs[i]!.data.slice(6 * size, 16 * size) as Float32Array, 6 * size);
      return changed;
    });
    const second = await run(other);
    compiled.dispose();
    second.forEach((x, i) => {
      expect(part(x, 0, 6, 16).data).toEqual(part(first[i]!, 0, 6, 16).data);
      expect(toValues(part(x, 0, 0, 6)).data).not.toEqual(toValues(part(first[i]!, 0, 0, 6)).data);
    });
  });
});
