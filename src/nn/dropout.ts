/** Dropout (Srivastava et al. 2014): zeros at random places, the rest scaled so that the mean stays. */
import { ShapeError } from "../base/errors.ts";
import { type Key, randomBits, type Tensor, where } from "../core/index.ts";

/** x with each element zero with probability `rate`, else divided by 1 − rate. @throws ShapeError */
export function dropout(x: Tensor, key: Key, rate: number): Tensor {
  if (!(rate >= 0 && rate < 1)) throw new ShapeError(`dropout: the rate must be in [0, 1); got ${rate}`);
  if (rate === 0) return x;
  return where(randomBits(key, x.shape).lt(Math.round(rate * 2 ** 32)), 0, x.div(1 - rate));
}
