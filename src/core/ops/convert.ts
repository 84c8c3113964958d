/** Between dtypes: by value (rounding to nearest even) and by bits. */
import { ShapeError } from "../../base/errors.ts";
import { decodeArray, encodeArray } from "../codecs.ts";
import { type DType, dtypeInfo, isInteger } from "../dtype.ts";
import { showSpec } from "../hostArray.ts";
import type { Op } from "../op.ts";
import { applyOne, type Tensor } from "../tensor.ts";
import { allocate, toHostArray, toValues } from "../values.ts";

const convertOp: Op<{ dtype: DType }> = {
  name: "convert",
  shape: ([x], { dtype }) => [{ shape: x!.shape, dtype }],
  vjp: ({ inputs: [x], cts: [ct] }) => [dtypeInfo(ct!.dtype).kind === "float" ? convert(ct!, x!.dtype) : undefined],
  lower: (e, [x], _, [out]) => {
    // XLA takes the largest float4 for infinity and saturates it.
    const viaFloat32 = x!.dtype === "float4_e2m1fn" && isInteger(out!.dtype);
    const from = viaFloat32 ? e.op("stablehlo.convert", [x!], [{ shape: x!.shape, dtype: "float32" }])[0]! : x!;
    return e.op("stablehlo.convert", [from], [out!]);
  },
  interpret: ([x], { dtype }) => {
    const { shape, data: from } = x!;
    const { kind, bits } = dtypeInfo(dtype);
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
  return (x) => (Number.isNaN(x) ? 0 : Math.min(max, Math.max(min, Math.trunc(x))));
}

/** Integers to integers: the low bits. Arrays wrap on store, but for those of 4 bits. */
function wrap(dtype: DType): (x: number) => number {
  const { kind, bits } = dtypeInfo(dtype);
  if (bits === 64) return kind === "uint" ? (x) => (x < 0 ? x + 2 ** 64 : x) : (x) => (x >= 2 ** 63 ? x - 2 ** 64 : x);
  if (bits > 4) return (x) => x;
  return kind === "int" ? (x) => (x << 28) >> 28 : (x) => x & 15;
}

const bitcastOp: Op<{ dtype: DType }> = {
  name: "bitcast",
  shape: ([x], { dtype }) => {
    if (dtypeInfo(x!.dtype).bits !== dtypeInfo(dtype).bits || x!.dtype === "bool" || dtype === "bool") {
      throw new ShapeError(`bitcast: ${showSpec(x!)} to ${dtype} changes the width; the bits of both must be equal`);
    }
    return [{ shape: x!.shape, dtype }];
  },
  vjp: "none",
  lower: (e, inputs, _, outputs) => e.op("stablehlo.bitcast_convert", inputs, outputs),
  interpret: ([x], { dtype }) => {
    const { data } = toHostArray(x!);
    const array = dtypeInfo(dtype).array;
    const bits = toValues({ shape: x!.shape, dtype, data: new array(data.buffer, data.byteOffset, data.length) });
    return [isInteger(dtype) ? { ...bits, data: bits.data.map(wrap(dtype)) } : bits];
  },
  show: ({ dtype }) => dtype,
};

export function convert(x: Tensor, dtype: DType): Tensor {
  return x.dtype === dtype ? x : applyOne(convertOp, [x], { dtype });
}

export function bitcast(x: Tensor, dtype: DType): Tensor {
  return x.dtype === dtype ? x : applyOne(bitcastOp, [x], { dtype });
}
