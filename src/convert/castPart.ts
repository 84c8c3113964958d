/** Parts of tensors in another float dtype, rounded to nearest (ties to even), and never to what is no finite number. */
import { UserError } from "../base/errors.ts";
import { decodeArray, encodeArray } from "../core/codecs.ts";
import { type HostArray, hostArray, type TypedArray } from "../core/index.ts";
import type { StoredDType } from "../models/hfConfig.ts";
import { partsOf, type SourceTensor } from "./source.ts";

/** Exponent bits, all set in infinities and NaN. */
const exponents: Readonly<Record<string, number>> = { bfloat16: 0x7f80, float16: 0x7c00 };

/** Index of the first element that is NaN or infinite, or −1. */
function notFiniteIn(dtype: string, data: TypedArray): number {
  const mask = exponents[dtype];
  if (mask === undefined) return (data as Float32Array).findIndex((value) => !Number.isFinite(value));
  return (data as Uint16Array).findIndex((bits) => (bits & mask) === mask);
}

/**
 * The first `values` values of a tensor in `dtype`, part by part.
 * @throws UserError (E_NOT_FINITE_WEIGHT) at a value that is not finite, or too large for the dtype
 */
export async function* castParts(
  name: string,
  tensor: SourceTensor,
  { dtype, values }: { readonly dtype: StoredDType; readonly values: number },
): AsyncGenerator<HostArray> {
  const refuse = (what: string): never => {
    throw new UserError("E_NOT_FINITE_WEIGHT", `"${name}": ${what}`);
  };
  for await (const part of partsOf(tensor, values)) {
    const wrong = notFiniteIn(part.dtype, part.data);
    const found = decodeArray(part.dtype, part.data);
    if (wrong >= 0) refuse(`value ${part.begin + wrong} is ${found[wrong]}; weights must be finite`);
    if (part.dtype === dtype) {
      yield part;
      continue;
    }
    const data = encodeArray(dtype, found);
    const lost = notFiniteIn(dtype, data);
    if (lost >= 0) {
      refuse(`value ${part.begin + lost} is ${found[lost]}, more than ${dtype} holds: take dtype=bfloat16 or float32`);
    }
    yield hostArray([data.length], dtype, data);
  }
}
