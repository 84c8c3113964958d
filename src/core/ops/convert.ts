/** Between dtypes: by value (rounding to nearest even) and by bits. */
import { ShapeError } from "../../base/errors.ts";
import { roundTo } from "../codecs.ts";
import { type DType, dtypeInfo } from "../dtype.ts";
import { showSpec } from "../hostArray.ts";
import type { Op } from "../op.ts";
import { applyOne, type Tensor } from "../tensor.ts";
import { allocate, toHostArray, toValues } from "../values.ts";

const convertOp: Op<{ dtype: DType }> = {
  name: "convert",
  shape: ([x], { dtype }) => [{ shape: x!.shape, dtype }],
  vjp: ({ inputs: [x], cts: [ct] }) => [dtypeInfo(ct!.dtype).kind === "float" ? convert(ct!, x!.dtype) : undefined],
  lower: (e, inputs, _, outputs) => e.op("stablehlo.convert", inputs, outputs),
  interpret: ([x], { dtype }) => {
    const { shape, data: from } = x!;
    const { kind, bits } = dtypeInfo(dtype);
    const data = allocate(dtype, from.length);
    if (kind === "float" && bits < 32) for (let i = 0; i < data.length; i++) data[i] = roundTo(dtype, from[i]!);
    else if (kind === "float") data.set(from);
    else if (kind === "bool") for (let i = 0; i < data.length; i++) data[i] = from[i] !== 0 ? 1 : 0;
    else if (dtypeInfo(x!.dtype).kind !== "float") data.set(from);
    else {
      // Floats to integers: toward zero, saturating, NaN to 0, as XLA does.
      const max = 2 ** (kind === "int" ? bits - 1 : bits) - 1;
      const min = kind === "int" ? -(2 ** (bits - 1)) : 0;
      for (let i = 0; i < data.length; i++)
        data[i] = Number.isNaN(from[i]) ? 0 : Math.min(max, Math.max(min, Math.trunc(from[i]!)));
    }
    return [{ shape, dtype, data }];
  },
  show: ({ dtype }) => dtype,
};

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
    const bits = new array(data.buffer, data.byteOffset, data.length);
    return [toValues({ shape: x!.shape, dtype, data: bits })];
  },
  show: ({ dtype }) => dtype,
};

export function convert(x: Tensor, dtype: DType): Tensor {
  return x.dtype === dtype ? x : applyOne(convertOp, [x], { dtype });
}

export function bitcast(x: Tensor, dtype: DType): Tensor {
  return x.dtype === dtype ? x : applyOne(bitcastOp, [x], { dtype });
}
