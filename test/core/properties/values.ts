/** Test data of every dtype: edges, random bit patterns and ordinary numbers, as fast-check arbitraries. */
import fc from "fast-check";
import { encodeArray } from "../../../src/core/codecs.ts";
import {
  type DType,
  dtypeInfo,
  type HostArray,
  hostArray,
  type Shape,
  sizeOf,
  toValues,
} from "../../../src/core/index.ts";

const infinities = [Infinity, -Infinity, NaN];
/** Signed zeros, units, halves (ties of rounding to integers), thirds, limits of the narrow formats and their ties. */
const floatEdges = [
  0,
  -0,
  1,
  -1,
  0.5,
  -0.5,
  1.5,
  2.5,
  -2.5,
  1 / 3,
  2,
  3,
  4,
  5,
  6,
  -6,
  7,
  0.25,
  0.75,
  1.25,
  1.75,
  3.5,
  17,
  100,
  255,
  256.5,
  448,
  464,
  480,
  57344,
  61440,
  65504,
  65520,
  1e5,
  -1e5,
  8388607.5,
  16777217,
  2147483647,
  2147483648,
  -2147483648,
  4294967295,
  4294967296,
  1e10,
  1e20,
  -1e30,
  1.7e38,
  3.3e38,
  3.4028234663852886e38,
  -3.4028234663852886e38,
  1e-3,
  1e-10,
  -1e-20,
  1e-30,
  1.1754943508222875e-38,
  -1.1754943508222875e-38,
  88,
  89,
  -87,
  -88,
  -104,
  0.1,
  -0.7,
  Math.PI,
  1 + 2 ** -8,
  1 + 2 ** -9,
  1 + 3 * 2 ** -9,
  1 + 2 ** -23,
  1 - 2 ** -24,
  2 ** -6,
  2 ** -9,
  2 ** -10,
  1.5 * 2 ** -10,
  2 ** -14,
  2 ** -24,
  ...infinities,
];
/** Numbers that the arithmetic of a compiled program may take as zero. */
const denormals = [1e-45, -1e-45, 2 ** -127, -(2 ** -127), 1.5 * 2 ** -127, 1e-39, 2 ** -133];
const doubleDenormals = [5e-324, -5e-324, 1e-310];

const float32Of = (bits: number): number => new Float32Array(Uint32Array.of(bits).buffer)[0]!;

/** The integers of a dtype, as far as numbers hold them. */
export function integerRange(dtype: DType): { min: number; max: number } {
  const { kind, bits } = dtypeInfo(dtype);
  const exact = Math.min(bits, 53);
  return kind === "int" ? { min: -(2 ** (exact - 1)), max: 2 ** (exact - 1) - 1 } : { min: 0, max: 2 ** exact - 1 };
}

/** One stored element: a number of float32, float64 and integers, a code of the narrower floats. */
function element(dtype: DType): fc.Arbitrary<number> {
  const { kind, bits } = dtypeInfo(dtype);
  if (kind === "bool") return fc.nat(1);
  if (kind !== "float") {
    const { min, max } = integerRange(dtype);
    const edges = [0, 1, 2, 3, 7, 31, 32, -1, -2, -7, min, max, min + 1, max - 1].filter((x) => x >= min && x <= max);
    return fc.oneof(
      fc.constantFrom(...edges),
      bits === 64 ? fc.maxSafeInteger().map((x) => Math.max(min, x)) : fc.integer({ min, max }),
      fc.integer({ min: Math.max(min, -20), max: Math.min(max, 20) }),
    );
  }
  if (bits < 32) {
    const edges = Array.from(encodeArray(dtype, [...floatEdges, ...denormals]), Number);
    const ordinary = fc.double({ min: -8, max: 8, noNaN: true }).map((x) => Number(encodeArray(dtype, [x])[0]));
    return fc.oneof(fc.constantFrom(...edges), fc.nat(2 ** bits - 1), ordinary);
  }
  if (bits === 32) {
    return fc.oneof(
      fc.constantFrom(...floatEdges, ...denormals).map(Math.fround),
      fc.integer({ min: 0, max: 0xffffffff }).map(float32Of),
      fc.double({ min: -8, max: 8, noNaN: true }).map(Math.fround),
    );
  }
  return fc.oneof(
    fc.constantFrom(...floatEdges, ...doubleDenormals),
    fc.double(),
    fc.double({ min: -8, max: 8, noNaN: true }),
  );
}

export function hostOf(dtype: DType, shape: Shape, elements: readonly number[]): HostArray {
  const { array, bits, kind } = dtypeInfo(dtype);
  const data = new array(elements.length);
  const wide = bits === 64 && kind !== "float";
  elements.forEach((x, i) => {
    data[i] = wide ? BigInt(x) : x;
  });
  return hostArray(shape, dtype, data);
}

/** A host array of a dtype with the edges among its elements. */
export function arrays(dtype: DType, shape: Shape): fc.Arbitrary<HostArray> {
  const size = sizeOf(shape);
  return fc
    .array(element(dtype), { minLength: size, maxLength: size })
    .map((elements) => hostOf(dtype, shape, elements));
}

/** A host array of ordinary numbers: floats of magnitude ½ to 4 or 0 (so sums lose little), integers from -9 to 9. */
export function ordinaryArrays(dtype: DType, shape: Shape): fc.Arbitrary<HostArray> {
  const { kind } = dtypeInfo(dtype);
  const size = sizeOf(shape);
  const numbers =
    kind === "float"
      ? fc.oneof(
          fc.constant(0),
          fc.double({ min: 0.5, max: 4, noNaN: true }),
          fc.double({ min: -4, max: -0.5, noNaN: true }),
        )
      : kind === "bool"
        ? fc.nat(1)
        : fc.integer({ min: kind === "uint" ? 0 : dtype === "int4" ? -8 : -9, max: dtype === "int4" ? 7 : 9 });
  return fc
    .array(numbers, { minLength: size, maxLength: size })
    .map((list) => (kind === "float" ? hostArray(shape, dtype, encodeArray(dtype, list)) : hostOf(dtype, shape, list)));
}

/** Every value of a dtype of 16 bits or fewer. */
export function allValues(dtype: DType): HostArray {
  const { kind, bits } = dtypeInfo(dtype);
  const count = kind === "bool" ? 2 : 2 ** bits;
  const lowest = kind === "int" ? -(count / 2) : 0;
  return hostOf(
    dtype,
    [count],
    Array.from({ length: count }, (_, i) => i + lowest),
  );
}

/** A shape of rank 0 to 4 whose dims are 0 to 5 (0 and 1 among them often). */
export function shapes(
  options: { readonly minRank?: number; readonly maxRank?: number; readonly minDim?: number } = {},
) {
  const { minRank = 0, maxRank = 4, minDim = 0 } = options;
  return fc.array(
    fc.oneof({ weight: 4, arbitrary: fc.integer({ min: 1, max: 5 }) }, fc.integer({ min: minDim, max: 1 })),
    {
      minLength: minRank,
      maxLength: maxRank,
    },
  );
}

/** Dtypes whose denormal numbers compiled arithmetic may take as zeros: those with the exponents of float32 and float64. */
const smallestNormal: Partial<Record<DType, number>> = {
  float64: 2 ** -1022,
  float32: 2 ** -126,
  bfloat16: 2 ** -126,
  float8_e8m0fnu: 2 ** -126,
};

/** Whether compiled arithmetic may take a value as a zero. */
export function isDenormal(dtype: DType, x: number): boolean {
  return x !== 0 && Math.abs(x) < (smallestNormal[dtype] ?? 0);
}

/** The array with its denormal numbers replaced by zeros of their sign (float8_e8m0fnu, which has none, by NaN). */
export function withoutDenormals(host: HostArray): HostArray {
  const { dtype, shape } = host;
  if (smallestNormal[dtype] === undefined) return host;
  const values = Float64Array.from(toValues(host).data, (x) => (isDenormal(dtype, x) ? x * 0 : x));
  return { shape, dtype, data: encodeArray(dtype, values) };
}
