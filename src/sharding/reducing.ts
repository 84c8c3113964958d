/** What collectives do that reduce: dtypes, the combined values, and the exchange as StableHLO. */
import { ShapeError } from "../base/errors.ts";
import { type DType, dtypeInfo, type Emitted, type Emitter, type Spec, showSpec, type Values } from "../core/index.ts";
import { allocate, rounder } from "../core/values.ts";

/** How devices' values become one. */
export type ReduceKind = "sum" | "max" | "min";

/** The dtypes of reductions over dims. @throws ShapeError */
export function checkReducible(name: string, x: Spec, reduction: ReduceKind): void {
  const { kind, bits } = dtypeInfo(x.dtype);
  const tooNarrow = bits < (kind === "float" ? 16 : 8);
  if (tooNarrow || (kind !== "float" && bits === 64) || (kind === "bool" && reduction === "sum"))
    throw new ShapeError(`${name}: cannot reduce ${showSpec(x)}; cast it first`);
}

const combine: Readonly<Record<ReduceKind, (a: number, b: number) => number>> = {
  sum: (a, b) => a + b,
  max: Math.max,
  min: Math.min,
};

/** Element by element over the members of a group. */
export function reduceValues(members: readonly Values[], kind: ReduceKind): Values {
  const { shape, dtype } = members[0]!;
  const data = allocate(dtype, members[0]!.data.length);
  const round = rounder(dtype);
  const both = combine[kind];
  for (let i = 0; i < data.length; i++) data[i] = round(members.map((m) => m.data[i]!).reduce((a, b) => both(a, b)));
  return { shape, dtype, data };
}

interface Reducing {
  /** The StableHLO operation. */
  readonly name: string;
  readonly x: Emitted;
  readonly out: Spec;
  readonly kind: ReduceKind;
  readonly attributes: Readonly<Record<string, string>>;
}

/** The exchange. Sums of narrow floats are taken in float32 and rounded once; a NaN wins over every number. */
export function emitReducing(e: Emitter, { name, x, out, kind, attributes }: Reducing): Emitted {
  const hlo = { sum: "add", max: "maximum", min: "minimum" }[kind];
  const exchange = (value: Emitted): Emitted => {
    const scalar: Spec = { shape: [], dtype: value.dtype };
    const result: Spec = { shape: out.shape, dtype: value.dtype };
    return e.op(name, [value], [result], attributes, [
      { inputs: [scalar, scalar], body: (a, b) => e.op(`stablehlo.${hlo}`, [a, b], [scalar]) },
    ])[0]!;
  };
  if (kind !== "sum") return emitOrdered(e, x, kind, exchange);
  const { kind: type, bits } = dtypeInfo(x.dtype);
  if (type !== "float" || bits >= 32) return exchange(x);
  const [wide] = e.op("stablehlo.convert", [x], [{ shape: x.shape, dtype: "float32" }]);
  return e.op("stablehlo.convert", [exchange(wide!)], [out])[0]!;
}

/** Of the same width. */
const integerOf: Partial<Record<DType, DType>> = {
  float64: "int64",
  float32: "int32",
  float16: "int16",
  bfloat16: "int16",
};

/**
 * Floats go through the exchange as integers in the same order, −0 below 0 and NaN beyond all numbers on the side that
 * wins: XLA's CPU exchange compares floats so that a NaN may be lost.
 */
function emitOrdered(e: Emitter, x: Emitted, kind: "max" | "min", exchange: (ordered: Emitted) => Emitted): Emitted {
  const dtype = integerOf[x.dtype];
  if (dtype === undefined) return exchange(x);
  const spec: Spec = { shape: x.shape, dtype };
  const lastBit = e.splat(dtypeInfo(dtype).bits - 1, spec);
  const [lowest] = e.op("stablehlo.shift_left", [e.splat(1, spec), lastBit], [spec]);
  const [highest] = e.op("stablehlo.not", [lowest!], [spec]);
  // Negative floats order against their bits: all but the sign are inverted. Twice is the identity.
  const flip = (v: Emitted): Emitted => {
    const [ones] = e.op("stablehlo.shift_right_arithmetic", [v, lastBit], [spec]);
    const [mask] = e.op("stablehlo.and", [ones!, highest!], [spec]);
    return e.op("stablehlo.xor", [v, mask!], [spec])[0]!;
  };
  const [unordered] = e.op("stablehlo.compare", [x, x], [{ shape: x.shape, dtype: "bool" }], {
    comparison_direction: "#stablehlo<comparison_direction NE>",
    compare_type: "#stablehlo<comparison_type FLOAT>",
  });
  const [stored] = e.op("stablehlo.bitcast_convert", [x], [spec]);
  const ofNaN = kind === "max" ? highest! : lowest!;
  const [ordered] = e.op("stablehlo.select", [unordered!, ofNaN, flip(stored!)], [spec]);
  return e.op("stablehlo.bitcast_convert", [flip(exchange(ordered!))], [x])[0]!;
}
