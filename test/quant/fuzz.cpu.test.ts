/** What holds of every operand of every recipe on any input: see operands.ts for which there are. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { encode } from "../../src/core/codecs.ts";
import type { HostArray } from "../../src/core/index.ts";
import { formats, type QuantizedOperand } from "../../src/quant/index.ts";
import { differences, floats, numbers } from "./bothWays.ts";
import { type MatrixSpec, matrixOf, matrixSpecs } from "./fuzzedMatrices.ts";
import { compiledQuantizer, exactParts, type OperandCase, operands, type Parts, quantized } from "./operands.ts";

const shapes = [
  [1, 1],
  [3, 16],
  [16, 17],
  [5, 100],
  [33, 48],
  [2, 160],
] as const;
const numRuns = 12;

const check = (arbitrary: fc.Arbitrary<MatrixSpec>, property: (x: HostArray) => void | Promise<void>, runs = numRuns) =>
  fc.assert(
    fc.asyncProperty(arbitrary, async (spec) => property(matrixOf(spec))),
    { numRuns: runs, seed: 1 },
  );

/** Everything that a test of the grid needs at one element. */
interface Element {
  readonly i: number;
  readonly x: number;
  readonly q: number;
  readonly scale: number;
  /** What an element of 1 decodes to. */
  readonly unit: number;
  readonly decoded: number;
  /** Number of the block. */
  readonly block: number;
}

/** The elements of x with the block of each; x and its parts are not rotated. */
function elementsOf({ operand, axis }: OperandCase, x: HostArray, found: Parts): Element[] {
  const [, columns] = x.shape as [number, number];
  const whole: Partial<Record<string, [number, number]>> = { tensor: [1, 1], row: [1, columns] };
  const [length, width] = whole[operand.block] ?? (operand.block.split("x").map(Number) as [number, number]);
  const [tall, wide] = axis === "col" ? [width, length] : [length, width];
  const perRow = operand.block === "tensor" ? 0 : Math.ceil(columns / wide);
  const [xs, qs, scales, units, decoded] = [x, found.elements, found.scales, found.unit, found.decoded].map(
    numbers,
  ) as [Float32Array, Float32Array, Float32Array, Float32Array, Float32Array];
  return Array.from(xs, (value, i) => {
    const [row, column] = [Math.floor(i / columns), i % columns];
    const block = perRow === 0 ? 0 : Math.floor(row / tall) * perRow + Math.floor(column / wide);
    return { i, x: value, q: qs[i]!, scale: scales[block]!, unit: units[i]!, decoded: decoded[i]!, block };
  });
}

/** The distance of neighbouring values of the format around a magnitude. */
function stepAt(magnitude: number, { element }: QuantizedOperand): number {
  const { minExponent, mantissaBits } = formats[element];
  return 2 ** (Math.max(Math.floor(Math.log2(Math.max(magnitude, 2 ** minExponent))), minExponent) - mantissaBits);
}

/** How far above its largest value the rule lets a scaled element come, as a factor. */
function overshoot({ scale, element }: QuantizedOperand, stored: number): number {
  const rounding = 1 + 1e-5;
  // The scale may have been rounded down by half a step of E4M3.
  if (scale.type === "e4m3")
    return (rounding * (stored + 2 ** (Math.max(Math.floor(Math.log2(stored)), -6) - 4))) / stored;
  // Scales of steps before, and of standard deviations, cut off what is larger.
  if (scale.type === "delayed" || (scale.type === "e8m0" && scale.statistic === "std")) return Number.POSITIVE_INFINITY;
  const { max } = formats[element];
  return scale.type === "e8m0" && scale.round === "floor" ? 2 ** (Math.floor(Math.log2(max)) + 1) / max : rounding;
}

/** Stored scales that would be NaN: bytes 0x7f of E4M3 and 0xff of E8M0, no finite float32. */
function nanScales({ scale }: QuantizedOperand, scales: ArrayLike<number>): number[] {
  const values = Array.from(scales);
  if (scale.type === "e4m3") return values.filter((s) => ((encode("float8_e4m3fn", s) as number) & 0x7f) === 0x7f);
  if (scale.type === "e8m0") return values.filter((s) => encode("float8_e8m0fnu", s) === 0xff);
  return values.filter((s) => !Number.isFinite(s));
}

const unrotated = operands.filter(({ rotation }) => rotation === undefined);
const nearest = unrotated.filter(({ operand }) => operand.rounding === "nearest");
const label = (one: OperandCase) => [one.label, one] as const;

describe.each(unrotated.map(label))("%s", (_, one) => {
  const { operand } = one;
  const isNearest = operand.rounding === "nearest";

  it("errs by half a step of the grid (a whole one drawn), saturates as its rule says, and keeps order in a block", () =>
    check(matrixSpecs({ shapes }), (x) => {
      const found = quantized(one, x);
      const elements = elementsOf(one, x, found);
      const { max } = formats[operand.element];
      const wrong = elements.filter(({ x, q, unit, scale, decoded }) => {
        // The block decodes to 0: its scale was below half of E4M3's smallest.
        if (scale === 0) return decoded !== 0 || operand.scale.type !== "e4m3";
        const scaled = Math.abs(x) / unit;
        if (scaled > max * (1 + 1e-5)) return Math.abs(q) !== max || scaled > max * overshoot(operand, scale);
        const step = stepAt(Math.min(scaled, max), operand) * (isNearest ? 0.5 : 1);
        return Math.abs(Math.abs(q) - scaled) > step + 1e-5 * scaled || q * x < 0;
      });
      expect(wrong).toEqual([]);
      if (!isNearest) return;
      const sorted = elements.sort((a, b) => a.block - b.block || a.x - b.x);
      expect(sorted.slice(1).filter((b, i) => b.block === sorted[i]!.block && b.q < sorted[i]!.q)).toEqual([]);
    }));

  it("stores no scale that is NaN, and gives finite values for finite ones", () =>
    check(matrixSpecs({ shapes, exponents: 90, spread: 36 }), (x) => {
      const { scales, values, factor, decoded, elements } = quantized(one, x);
      expect(nanScales(operand, numbers(scales))).toEqual([]);
      for (const array of [scales, values, factor, decoded, elements])
        expect(numbers(array).every(Number.isFinite)).toBe(true);
    }));
});

describe.each(nearest.filter(({ operand: { scale } }) => scale.type !== "e4m3" || (scale.gain ?? 1) === 1).map(label))(
  "%s",
  (_, one) => {
    it("quantizes what it decoded to the same values, in blocks of normal scales", () =>
      check(matrixSpecs({ shapes, dtypes: ["float32"] }), (x) => {
        const first = quantized(one, x);
        const again = quantized(one, first.decoded);
        const second = numbers(again.decoded);
        const moved = elementsOf(one, x, first).filter(({ i, decoded, scale }) => {
          const isNormal = one.operand.scale.type !== "e4m3" || scale >= 2 ** -6;
          return isNormal && !(Math.abs(decoded - second[i]!) <= 1e-6 * Math.abs(decoded));
        });
        expect(moved).toEqual([]);
      }));
  },
);

function mapped(x: HostArray, f: (value: number) => number): HostArray {
  const values = numbers(x);
  return floats(x.shape, x.dtype, (i) => f(values[i]!));
}

describe.each(operands.map((one, i) => [one.label, one, i % 2 === 0 ? "float32" : "bfloat16"] as const))(
  "%s",
  (_, one, dtype) => {
    const compiled = compiledQuantizer(one);
    const [rows, columns] = [33, 48];

    it("is odd: q(−x) = −q(x), with the same draws", () =>
      check(
        matrixSpecs({ shapes }),
        (x) => {
          const [plus, minus] = [
            quantized(one, x),
            quantized(
              one,
              mapped(x, (v) => -v),
            ),
          ];
          expect(differences(plus.scales, minus.scales)).toEqual([]);
          const [a, b] = [numbers(plus.elements), numbers(minus.elements)];
          expect(Array.from(a.keys()).filter((i) => a[i] !== -b[i]!)).toEqual([]);
        },
        6,
      ));

    it("gives the same bits compiled and interpreted", () => {
      // Sums of rotations are taken in another order when compiled: integers make them exact.
      const rotated = one.rotation !== undefined;
      const ranges = rotated ? { spread: 0, exponents: 0 } : {};
      return check(
        matrixSpecs({ shapes: [[rows, columns]], dtypes: [dtype], without: ["denormals"], ...ranges }),
        async (any) => {
          const x = rotated ? mapped(any, (v) => Math.round(v * 16)) : any;
          const [found, wanted] = [await compiled(x), quantized(one, x)];
          for (const name of exactParts) {
            expect({ name, off: differences(found[name], wanted[name]) }).toEqual({ name, off: [] });
          }
        },
        6,
      );
    });

    it("lets a NaN or an infinity reach the product", async () => {
      const size = rows * columns;
      for (const [at, bad] of [
        [0, Number.NaN],
        [size - 1, Number.POSITIVE_INFINITY],
        [517, Number.NEGATIVE_INFINITY],
      ] as const) {
        const x = floats([rows, columns], dtype, (i) => (i === at ? bad : Math.sin(i)));
        for (const { seen } of [await compiled(x), quantized(one, x)]) {
          // A rotation spreads it over its group.
          const values = numbers(seen);
          const place = one.rotation ? Array.from(values) : [values[at]!];
          expect(place.every(Number.isFinite)).toBe(false);
        }
      }
    });

    it("D1: blocks of zeros beside large values stay zeros, under scales that are numbers", async () => {
      // A rotation of more than 16 mixes them with the others, or pads the matrix.
      const staysZero = (one.rotation?.size ?? 1) <= 16;
      // Standard deviations are of squares, which have half the range.
      const isSpread = one.operand.scale.type === "e8m0" && one.operand.scale.statistic === "std";
      const isZero = (i: number) => staysZero && Math.floor(i / columns) < 32 && i % columns < 32;
      const x = floats([rows, columns], dtype, (i) => (isZero(i) ? 0 : (isSpread ? 1e15 : 1e30) * Math.sin(i)));
      for (const found of [await compiled(x), quantized(one, x)]) {
        const [seen, scales] = [numbers(found.seen), numbers(found.scales)];
        expect(Array.from(seen.keys()).filter((i) => isZero(i) && seen[i] !== 0)).toEqual([]);
        expect(seen.every(Number.isFinite) && seen.some((v) => v !== 0)).toBe(true);
        expect(nanScales(one.operand, scales)).toEqual([]);
        expect(scales.every((scale) => scale >= 0 && scale < Number.POSITIVE_INFINITY)).toBe(true);
      }
    });
  },
);
