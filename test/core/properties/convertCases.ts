/** Cases of conversion between all pairs of dtypes, by value and by bits. */
import fc from "fast-check";
import {
  type DType,
  dtypeInfo,
  dtypes,
  full,
  type HostArray,
  isFloat,
  type Precision,
  reducePrecision,
  sort,
  type Tensor,
  toHostArray,
  toValues,
  where,
} from "../../../src/core/index.ts";
import { bits, exact } from "./compare.ts";
import { accepts, casesOf, draw, type OpCase } from "./opCase.ts";
import { allValues, arrays, hostOf, isDenormal } from "./values.ts";

/** float64 numbers a little beside the ties of every narrower float, where rounding twice would go wrong. */
function besideTies(): HostArray {
  const steps = [1, 2, 3, 7, 8, 10, 23].map((mantissaBits) => 2 ** -mantissaBits);
  const ties = [1, 1.5, 4, 2 ** -8, 2 ** -20, 448, 240].flatMap((x) => steps.map((step) => x * (1 + step / 2)));
  const values = ties.flatMap((tie) => [tie, tie * (1 + 2 ** -45), tie * (1 - 2 ** -45), -tie * (1 + 2 ** -30)]);
  return hostOf("float64", [values.length], values);
}

function sources(dtype: DType): HostArray[] {
  if (dtypeInfo(dtype).bits <= 16) return [allValues(dtype)];
  const drawn = draw(`${dtype} to convert`, arrays(dtype, [1017]));
  return dtype === "float64" ? [...drawn.map(withinFloat32), besideTies()] : drawn;
}

/** Without what float32 has as denormal numbers only: a conversion from float64 passes through it and may flush them. */
function withinFloat32({ shape, dtype, data }: HostArray): HostArray {
  return { shape, dtype, data: Float64Array.from(data as Float64Array, (x) => (isDenormal("float32", x) ? 0 : x)) };
}

/** NaN has no defined bits. */
function withoutNan(host: HostArray): HostArray {
  if (!isFloat(host.dtype)) return host;
  const { shape, dtype, data } = toValues(host);
  return toHostArray({ shape, dtype, data: Float64Array.from(data, (x) => (Number.isNaN(x) ? 1 : x)) });
}

export function convertCases(): OpCase[] {
  return dtypes.flatMap((from) =>
    sources(from).flatMap((source) =>
      dtypes
        // 2^-127 is a denormal float32, which may count as 0.
        .filter((to) => to !== from && !(from === "float8_e8m0fnu" && to === "bool"))
        .map(
          (to): OpCase => ({
            label: `convert to ${to} ${from}`,
            inputs: [source],
            f: (x) => x!.astype(to),
            rule: exact,
          }),
        ),
    ),
  );
}

/** Every bit pattern of 16 bits and fewer, some of the others. Wider values are made of the bits of narrower ones. */
export function bitcastCases(): OpCase[] {
  return dtypes.flatMap((from) =>
    dtypes
      .filter((to) => to !== from)
      .map((to): OpCase => {
        const ratio = dtypeInfo(to).bits / dtypeInfo(from).bits;
        return {
          label: `bitcast to ${to} ${from}`,
          inputs: [withoutNan(sources(from)[0]!)],
          f: (x) => (ratio > 1 ? rowsOf(x!, ratio) : x!).bitcast(to),
          rule: bits,
        };
      })
      .filter(accepts),
  );
}

/** About 2^63 and 2^64: what negative integers are as uint64, in order, and as floats. */
export function largeIntegerCases(): OpCase[] {
  const host = hostOf("int32", [6], [-7, 7, -1, 0, -(2 ** 31), 2 ** 31 - 1]);
  const large = (x: Tensor) => x.astype("uint64");
  const floats = hostOf("float64", [6], [2 ** 63, 2 ** 64, -1, 1e30, 2 ** 64 - 2048, 5]);
  const uses: Readonly<Record<string, (x: Tensor) => Tensor>> = {
    converted: large,
    "as bytes": (x) => large(x).bitcast("uint8"),
    "as int64": (x) => large(x).astype("int64"),
    "as int8": (x) => large(x).astype("int8"),
    "as float32": (x) => large(x).astype("float32"),
    "as float64": (x) => large(x).astype("float64"),
    less: (x) => large(x).lt(large(x).reverse([0])),
    "greater or equal": (x) => large(x).ge(large(x).reverse([0])),
    sorted: (x) => sort(large(x), 0),
    "sorted down": (x) => sort(large(x), 0, { descending: true }),
  };
  return [
    ...Object.entries(uses).map(
      ([name, f]): OpCase => ({ label: `uint64 ${name}`, inputs: [host], f: (x) => f(x!), rule: bits }),
    ),
    {
      label: "float64 to uint64",
      inputs: [floats],
      f: (x) => x!.astype("uint64").bitcast("uint8"),
      rule: bits,
    },
  ];
}

/** Two bitcasts in a row over every three widths; in the second form with an operation between that XLA takes away. */
export function bitcastPairCases(): OpCase[] {
  const widths: DType[] = ["uint4", "int8", "uint16", "float32", "uint64"];
  const cast = (x: Tensor, to: DType): Tensor => {
    const ratio = dtypeInfo(to).bits / dtypeInfo(x.dtype).bits;
    return (ratio > 1 && x.shape.at(-1) !== ratio ? rowsOf(x.reshape([-1]), ratio) : x).bitcast(to);
  };
  const nothing = (x: Tensor): Tensor => where(full(x.shape, 1, "bool"), x, x.reverse([0]));
  return widths.flatMap((from) =>
    widths.flatMap((by) =>
      widths.flatMap((to) =>
        [(x: Tensor) => x, nothing].map(
          (between, form): OpCase => ({
            label: `bitcast to ${by} and ${to}, form ${form}, ${from}`,
            inputs: [smallBits(from)],
            f: (x) => cast(between(cast(x!, by)), to),
            rule: bits,
          }),
        ),
      ),
    ),
  );
}

/** 128 bytes of bits that make no NaN and no 64-bit integer beyond 2^53, the low half of each 8 drawn. */
function smallBits(dtype: DType): HostArray {
  const bytes = Uint8Array.from(draw(`bits of ${dtype}`, fc.uint8Array({ minLength: 128, maxLength: 128 }))[0]!);
  bytes.forEach((byte, i) => {
    bytes[i] = i % 8 < 4 ? (i % 4 === 3 ? byte & 63 : byte) : 0;
  });
  const codes = dtypeInfo(dtype).bits === 4 ? Uint8Array.from(bytes, (byte) => byte & 15) : bytes;
  const { array } = dtypeInfo(dtype);
  const data = new array(codes.slice().buffer);
  return { shape: [data.length], dtype, data };
}

/** As many of x's elements as make full rows of `size`. */
function rowsOf(x: Tensor, size: number): Tensor {
  const count = Math.floor(x.shape[0]! / size);
  return x.narrow(0, 0, count * size).reshape([count, size]);
}

const precisions: readonly Precision[] = [
  { exponentBits: 4, mantissaBits: 3 },
  { exponentBits: 5, mantissaBits: 2 },
  { exponentBits: 5, mantissaBits: 10 },
  { exponentBits: 8, mantissaBits: 7 },
  { exponentBits: 8, mantissaBits: 23 },
  { exponentBits: 2, mantissaBits: 1 },
  { exponentBits: 11, mantissaBits: 30 },
];

export function reducePrecisionCases(): OpCase[] {
  return precisions.flatMap((precision) =>
    casesOf(
      `reducePrecision ${Object.values(precision)}`,
      (x) => reducePrecision(x, precision),
      (dtype) => [sources(dtype)[0]!],
      () => bits,
    ),
  );
}
