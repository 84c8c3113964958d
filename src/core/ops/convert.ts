/** Between dtypes: by value (rounding to nearest even) and by bits. */
import { ShapeError } from "../../base/errors.ts";
import { decodeArray, encodeArray } from "../codecs.ts";
import { type DType, dtypeInfo, isInteger } from "../dtype.ts";
import { type HostArray, type Shape, type Spec, showSpec, sizeOf } from "../hostArray.ts";
import type { Op } from "../op.ts";
import { applyOne, type Tensor } from "../tensor.ts";
import { allocate, generate, type NumberArray, toHostArray, toValues } from "../values.ts";
import { checkKind, roundHalfEven } from "./elementwise.ts";
import { reshape, reshapeOp } from "./shape.ts";

const convertOp: Op<{ dtype: DType }> = {
  name: "convert",
  shape: ([x], { dtype }) => {
    dtypeInfo(dtype);
    return [{ shape: x!.shape, dtype }];
  },
  vjp: ({ inputs: [x], cts: [ct] }) => [dtypeInfo(ct!.dtype).kind === "float" ? convert(ct!, x!.dtype) : undefined],
  lower: (e, [x], _, [out]) => {
    // XLA takes the largest float4 for infinity and saturates it.
    const viaFloat32 = x!.dtype === "float4_e2m1fn" && isInteger(out!.dtype);
    const from = viaFloat32 ? e.op("stablehlo.convert", [x!], [{ shape: x!.shape, dtype: "float32" }])[0]! : x!;
    return e.op("stablehlo.convert", [from], [out!]);
  },
  interpret: ([x], { dtype }) => {
    const { shape } = x!;
    const { kind, bits } = dtypeInfo(dtype);
    const isLarge = x!.dtype === "uint64" && kind === "float";
    const from = isLarge ? x!.data.map((held) => (held < 0 ? held + 2 ** 64 : held)) : x!.data;
    if (kind === "float" && bits < 32) return [{ shape, dtype, data: decodeArray(dtype, encodeArray(dtype, from)) }];
    const data = allocate(dtype, from.length);
    if (kind === "float") data.set(from);
    else if (kind === "bool") for (let i = 0; i < data.length; i++) data[i] = from[i] !== 0 ? 1 : 0;
    else {
      const toInteger = dtypeInfo(x!.dtype).kind === "float" ? saturate(dtype) : wrap(dtype);
      for (let i = 0; i < data.length; i++) data[i] = toInteger(from[i]!);
    }
    return [{ shape, dtype, data }];
  },
  show: ({ dtype }) => dtype,
};

/** Floats to integers: toward zero, saturating, NaN to 0, as XLA does. */
function saturate(dtype: DType): (x: number) => number {
  const { kind, bits } = dtypeInfo(dtype);
  const max = 2 ** (kind === "int" ? bits - 1 : bits) - 1;
  const min = kind === "int" ? -(2 ** (bits - 1)) : 0;
  const limited = (x: number) => (Number.isNaN(x) ? 0 : Math.min(max, Math.max(min, Math.trunc(x))));
  if (dtype !== "uint64") return limited;
  return (x) => (x >= 2 ** 64 ? -1 : x >= 2 ** 63 ? x - 2 ** 64 : limited(x));
}

/** Integers to integers: the low bits. Arrays wrap on store, but for those of 4 bits; of 64 both kinds are held alike. */
function wrap(dtype: DType): (x: number) => number {
  const { kind, bits } = dtypeInfo(dtype);
  if (bits > 4) return (x) => x;
  return kind === "int" ? (x) => (x << 28) >> 28 : (x) => x & 15;
}

/** @throws ShapeError where x's bits can't be read as `dtype` */
function bitcastShape(x: Spec, dtype: DType): Shape {
  if (x.dtype === "bool" || dtype === "bool") throw new ShapeError(`bitcast: bool has no bits; got ${showSpec(x)}`);
  const [from, to] = [dtypeInfo(x.dtype).bits, dtypeInfo(dtype).bits];
  if (from === to) return x.shape;
  if (from > to) return [...x.shape, from / to];
  if (x.shape.at(-1) !== to / from) {
    throw new ShapeError(
      `bitcast: ${to / from} values of ${x.dtype} make one ${dtype}, so the last dim must be ${to / from}; got ${showSpec(x)}`,
    );
  }
  return x.shape.slice(0, -1);
}

/** Values of a byte or less lie one after the other from the low bits up, in wider ones and in 4-bit pairs. */
const bitcastOp: Op<{ dtype: DType }> = {
  name: "bitcast",
  shape: ([x], { dtype }) => [{ shape: bitcastShape(x!, dtype), dtype }],
  vjp: "none",
  lower: (e, [x], _, [out]) => {
    // XLA's simplifier takes two for one from the first dtype to the last, whose shape then is another.
    const widths = dtypeInfo(x!.dtype).bits !== dtypeInfo(out!.dtype).bits;
    return e.op("stablehlo.bitcast_convert", widths ? e.op("stablehlo.optimization_barrier", [x!], [x!]) : [x!], [
      out!,
    ]);
  },
  interpret: ([x], _, [out]) => [toValues(fromBytes(bytesOf(toHostArray(x!)), out!))],
  show: ({ dtype }) => dtype,
};

/** As they lie in a device's memory: values of 4 bits in pairs, the first in the low half. */
function bytesOf({ dtype, data }: HostArray): Uint8Array {
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  if (dtypeInfo(dtype).bits >= 8) return bytes;
  return Uint8Array.from(
    { length: Math.ceil(bytes.length / 2) },
    (_, i) => (bytes[2 * i]! & 15) | (bytes[2 * i + 1]! << 4),
  );
}

function fromBytes(bytes: Uint8Array, { shape, dtype }: Spec): HostArray {
  const { bits, kind, array } = dtypeInfo(dtype);
  const data = new array(sizeOf(shape));
  if (bits >= 8) new Uint8Array(data.buffer).set(bytes);
  else {
    for (let i = 0; i < data.length; i++) {
      const nibble = (bytes[i >> 1]! >> (4 * (i & 1))) & 15;
      data[i] = kind === "int" ? (nibble << 28) >> 28 : nibble;
    }
  }
  return { shape, dtype, data };
}

/** Bits of a float format. */
export interface Precision {
  readonly exponentBits: number;
  /** Without the leading one. */
  readonly mantissaBits: number;
}

const reducePrecisionOp: Op<Precision> = {
  name: "reduce_precision",
  shape: ([x], { exponentBits, mantissaBits }) => {
    checkKind("reducePrecision", x!, "float");
    if (!Number.isInteger(exponentBits) || !Number.isInteger(mantissaBits) || exponentBits < 1 || mantissaBits < 1) {
      throw new ShapeError(
        `reducePrecision: needs whole numbers of at least 1 bit; got ${exponentBits} and ${mantissaBits}`,
      );
    }
    return [x!];
  },
  vjp: ({ params, cts: [ct] }) => [reducePrecision(ct!, params)],
  lower: (e, inputs, { exponentBits, mantissaBits }, outputs) =>
    e.op("stablehlo.reduce_precision", inputs, outputs, {
      exponent_bits: `${exponentBits} : i32`,
      mantissa_bits: `${mantissaBits} : i32`,
    }),
  interpret: ([x], params) => [generate(x!, reduceTo(x!.dtype, params, x!.data))],
  show: ({ exponentBits, mantissaBits }) => `e${exponentBits}m${mantissaBits}`,
};

/** Exponent and mantissa bits of the floats that have arithmetic. */
export const precisionOf: Partial<Record<DType, Precision>> = {
  float64: { exponentBits: 11, mantissaBits: 52 },
  float32: { exponentBits: 8, mantissaBits: 23 },
  bfloat16: { exponentBits: 8, mantissaBits: 7 },
  float16: { exponentBits: 5, mantissaBits: 10 },
};

const biasOf = ({ exponentBits }: Precision): number => 2 ** (exponentBits - 1) - 1;

/** As XLA: the mantissa to nearest even; then beyond the largest is infinity, below the smallest normal number zero. */
function reduceTo(dtype: DType, to: Precision, data: NumberArray): (index: number) => number {
  const own = precisionOf[dtype]!;
  const bias = biasOf(to);
  return (i) => {
    const x = data[i]!;
    if (x === 0 || !Number.isFinite(x)) return x;
    const quantum = 2 ** (Math.max(exponentOf(x), 1 - biasOf(own)) - to.mantissaBits);
    const rounded = to.mantissaBits < own.mantissaBits ? roundHalfEven(x / quantum) * quantum : x;
    if (to.exponentBits >= own.exponentBits) return rounded;
    const exponent = exponentOf(rounded);
    if (exponent > bias) return Math.sign(x) * Infinity;
    return exponent <= -bias ? x * 0 : rounded;
  };
}

const double = new DataView(new ArrayBuffer(8));

/** The exponent of a float64 in binary: 0 for 1. Below the normal numbers −1023, of infinity 1024. */
function exponentOf(x: number): number {
  double.setFloat64(0, x);
  return ((double.getUint16(0) >>> 4) & 0x7ff) - 1023;
}

export function convert(x: Tensor, dtype: DType): Tensor {
  return x.dtype === dtype ? x : applyOne(convertOp, [x], { dtype });
}

/** One operation for a chain of bitcasts, with nothing but reshapes between: all of them keep the bits' order. */
export function bitcast(x: Tensor, dtype: DType): Tensor {
  if (x.dtype === dtype) return x;
  const shape = bitcastShape(x, dtype);
  let source = x;
  while (source.eqn?.op === bitcastOp || source.eqn?.op === reshapeOp) source = source.eqn.inputs[0]!;
  if (source.dtype === x.dtype) return applyOne(bitcastOp, [x], { dtype });
  const group = dtypeInfo(dtype).bits / dtypeInfo(source.dtype).bits;
  const grouped = reshape(source, group > 1 ? [...shape, group] : group === 1 ? shape : source.shape);
  const cast = source.dtype === dtype ? grouped : applyOne(bitcastOp, [grouped], { dtype });
  return reshape(cast, shape);
}

/** x rounded to a float of fewer bits, in its own dtype. What is too small for a normal number becomes zero. @throws ShapeError */
export function reducePrecision(x: Tensor, { exponentBits, mantissaBits }: Precision): Tensor {
  return applyOne(reducePrecisionOp, [x], { exponentBits, mantissaBits });
}
