/**
 * The gradient of x or W behind fprop's rounding. Where the other factor of its GEMM is what a rotated fprop read, it comes
 * in that rotated space: the estimator applies there, and the rotation is undone afterwards.
 */
import { full, type Tensor, where } from "../core/index.ts";
import { staysRotated } from "./checkPrecision.ts";
import { formats } from "./formats.ts";
import { quantizedAt, rotationAt, type Site } from "./operands.ts";
import type { Estimator } from "./precision.ts";
import { inverse, rotate } from "./rotation.ts";

/** Whether the gradient of x or W needs anything after its GEMM. */
export function changesGradient({ precision }: Site, tensor: "x" | "w"): boolean {
  return (precision.estimator?.[tensor] ?? "ste") !== "ste" || staysRotated(precision, tensor);
}

/**
 * @param gradient float32, of what fprop read
 * @param value x [T, in] or W [out, in] in the compute dtype
 */
export function throughRounding(gradient: Tensor, value: Tensor, site: Site, tensor: "x" | "w"): Tensor {
  const { precision } = site;
  const place = { site, gemm: "fprop", operand: tensor === "x" ? "left" : "right" } as const;
  const spec = precision.fprop[place.operand];
  const estimator = precision.estimator?.[tensor] ?? "ste";
  let passed = gradient;
  if (estimator !== "ste" && spec.element !== "plain") {
    passed = gradient.mul(slope(quantizedAt(value, spec, place).scaled(), estimator, formats[spec.element].max));
  }
  const rotation = staysRotated(precision, tensor) ? rotationAt(place) : undefined;
  return rotation === undefined ? passed : rotate(passed, inverse(rotation), "row").slice([0, 0], value.shape);
}

/** What stands for the derivative of rounding at x times its encode scale, float32. */
function slope(scaled: Tensor, estimator: Exclude<Estimator, "ste">, max: number): Tensor {
  const magnitude = scaled.abs();
  const [ones, zeros] = [full(scaled.shape, 1, "float32"), full(scaled.shape, 0, "float32")];
  if (estimator === "clip_mask") return where(magnitude.lt(max), ones, zeros);
  return where(magnitude.le(max), dgeSlope(magnitude, estimator), zeros);
}

/** The slope of E2M1's steps smoothed: min(|2t − 1|^(1/k − 1) / k, cap), t the place between the two values around. */
export function dgeSlope(magnitude: Tensor, { k, cap }: { readonly k: number; readonly cap: number }): Tensor {
  const steps = (size: number) => full(magnitude.shape, size, "float32");
  const step = where(magnitude.lt(2), steps(0.5), where(magnitude.lt(4), steps(1), steps(2)));
  const place = magnitude.div(step);
  const centred = place.sub(place.floor()).mul(2).sub(1).abs();
  return centred
    .pow(1 / k - 1)
    .div(k)
    .min(cap);
}
