/** Codes, pairs of them and swizzled scales: each way back gives what went in, interpreted, compiled and on the host. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decode, packNibbles, unpackNibbles } from "../../src/core/codecs.ts";
import { hostArray, interpret, type Tensor } from "../../src/core/index.ts";
import { fromCodes, fromExponents, packPairs, toCodes, toExponents, unpackPairs } from "../../src/quant/codes.ts";
import { e2m1, e4m3, e5m2, int4 } from "../../src/quant/formats.ts";
import {
  swizzleBytes,
  swizzledOffset,
  swizzledSize,
  swizzleScales,
  unswizzleBytes,
  unswizzleScales,
} from "../../src/quant/swizzle.ts";
import { bits, compiled, interpreted, numbers } from "./bothWays.ts";

const bytes = (data: Uint8Array, shape: readonly number[] = [data.length]) => hostArray(shape, "uint8", data);
const both = async (f: (...tensors: Tensor[]) => Tensor, ...args: unknown[]) => [
  interpreted(f, ...args)[0]!,
  (await compiled(f, ...args))[0]!,
];

describe("codes", () => {
  it.each([
    [e2m1, 16],
    [e4m3, 0x7f],
    [e5m2, 0x7c],
  ] as const)("of $name have the values of the dtype and come back", async (format, end) => {
    const codes = Uint8Array.from({ length: format.name === "e2m1" ? 16 : 2 * end }, (_, i) =>
      i < end ? i : 0x80 + (i - end),
    );
    for (const values of await both((c) => fromCodes(c, format), bytes(codes))) {
      expect(Array.from(numbers(values))).toEqual(Array.from(codes, (code) => decode(format.dtype, code)));
    }
    for (const back of await both((c) => toCodes(fromCodes(c, format), format), bytes(codes))) {
      expect(back.data).toEqual(codes);
    }
  });

  it("of the integers to 7 are a sign and a magnitude", async () => {
    const codes = Uint8Array.from({ length: 16 }, (_, i) => i);
    for (const values of await both((c) => fromCodes(c, int4), bytes(codes))) {
      expect(Array.from(numbers(values))).toEqual([0, 1, 2, 3, 4, 5, 6, 7, -0, -1, -2, -3, -4, -5, -6, -7]);
    }
    for (const back of await both((c) => toCodes(fromCodes(c, int4), int4), bytes(codes))) {
      expect(back.data).toEqual(codes);
    }
  });

  it("of powers of two are their exponents", async () => {
    const exponents = Uint8Array.from({ length: 255 }, (_, i) => i);
    for (const values of await both((e) => fromExponents(e).bitcast("uint32"), bytes(exponents))) {
      expect(bits(values)).toEqual(Array.from(exponents, (e) => (e === 0 ? 0x400000 : e << 23)));
    }
    for (const back of await both((e) => toExponents(fromExponents(e)), bytes(exponents))) {
      expect(back.data).toEqual(exponents);
    }
  });
});

describe("pairs", () => {
  it.each([0, 1, 2])("along dim %i come back, the even index in the low bits", async (dim) => {
    const shape = [6, 4, 8];
    const codes = Uint8Array.from({ length: 192 }, (_, i) => (i * 7 + Math.floor(i / 5)) % 16);
    for (const back of await both((c) => unpackPairs(packPairs(c, dim), dim), bytes(codes, shape))) {
      expect(back.data).toEqual(codes);
    }
    if (dim < 2) return;
    for (const packed of await both((c) => packPairs(c, dim), bytes(codes, shape))) {
      expect(packed.data).toEqual(packNibbles(codes));
      expect(unpackNibbles(packed.data as Uint8Array)).toEqual(codes);
    }
  });
});

describe("swizzled scales", () => {
  it("lie where block-scaled matmuls read them", () => {
    expect([0, 1, 31, 32, 33, 127].map((row) => swizzledOffset(row, 0, 4))).toEqual([0, 16, 496, 4, 20, 508]);
    expect([0, 1, 3, 4, 7].map((column) => swizzledOffset(0, column, 8))).toEqual([0, 1, 3, 512, 515]);
    expect(swizzledOffset(128, 0, 8)).toBe(1024);
    expect([swizzledSize(1, 1), swizzledSize(128, 4), swizzledSize(129, 5)]).toEqual([512, 512, 2048]);
  });

  it("come back whatever the shape; what is no scale is 0", () => {
    const sizes = fc.tuple(fc.integer({ min: 1, max: 300 }), fc.integer({ min: 1, max: 11 }));
    fc.assert(
      fc.property(sizes, ([rows, columns]) => {
        const scales = Uint8Array.from({ length: rows * columns }, (_, i) => 1 + ((i * 31) % 255));
        const swizzled = swizzleBytes(scales, rows, columns);
        expect(unswizzleBytes(swizzled, rows, columns)).toEqual(scales);
        expect(swizzled.filter((byte) => byte !== 0)).toHaveLength(scales.length);
        const graph = interpret((x: Tensor) => swizzleScales(x), bytes(scales, [rows, columns]));
        expect((graph as { data: unknown }).data).toEqual(swizzled);
      }),
      { numRuns: 30 },
    );
  });

  it.each([
    [128, 4],
    [130, 9],
    [5, 3],
  ])("of [%i, %i] are the same compiled", async (rows, columns) => {
    const scales = Uint8Array.from({ length: rows * columns }, (_, i) => 1 + ((i * 31) % 255));
    for (const swizzled of await both(swizzleScales, bytes(scales, [rows, columns]))) {
      expect(swizzled.data).toEqual(swizzleBytes(scales, rows, columns));
    }
    const there = (x: Tensor) => unswizzleScales(swizzleScales(x), rows, columns);
    for (const back of await both(there, bytes(scales, [rows, columns]))) expect(back.data).toEqual(scales);
  });
});
