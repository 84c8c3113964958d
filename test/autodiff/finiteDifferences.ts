/** Gradients by central differences of the interpreter in float64. */
import { grad } from "../../src/autodiff/index.ts";
import {
  constant,
  type HostArray,
  hostArray,
  interpretProgram,
  type Spec,
  sizeOf,
  type Tensor,
  toValues,
  trace,
} from "../../src/core/index.ts";
import type { GradientCase } from "./gradientCases.ts";

/** Inputs of a case: numbers spread over its range, no two alike. */
export function inputsOf({ shapes, range = [-2, 2] }: GradientCase, dtype: "float64" | "float32"): HostArray[] {
  const total = shapes.reduce((sum, shape) => sum + sizeOf(shape), 0);
  const [low, high] = range;
  let next = 0;
  return shapes.map((shape) => {
    // A stride prime to every total spreads neighbours; the irrational offset keeps away from whole numbers.
    const values = Array.from({ length: sizeOf(shape) }, () => {
      const place = ((next++ * 29) % total) + Math.SQRT1_2;
      return low + ((high - low) * place) / (total + 1);
    });
    const data = dtype === "float64" ? Float64Array.from(values) : Float32Array.from(values);
    return hostArray(shape, dtype, data);
  });
}

/** The scalar whose gradient is taken: a sum of the results, each with its own weight. */
export function lossOf({ f }: GradientCase): (inputs: readonly Tensor[]) => Tensor {
  return (inputs) => {
    const y = f(...inputs);
    const weights = Float32Array.from({ length: sizeOf(y.shape) }, (_, i) => 1 + (i % 7) / 4);
    return y.mul(weightsTensor(weights, y)).sum();
  };
}

function weightsTensor(weights: Float32Array, like: Spec): Tensor {
  return constant(hostArray(like.shape, "float32", weights)).astype(like.dtype);
}

export const gradientOf = (c: GradientCase): ((inputs: readonly Tensor[]) => readonly Tensor[]) => grad(lossOf(c));

/** dLoss/dInput for every element of every input. */
export function finiteDifferences(c: GradientCase, step = 1e-5): number[][] {
  const inputs = inputsOf(c, "float64");
  const program = trace(lossOf(c), inputs);
  const lossAt = (input: number, element: number, offset: number): number => {
    const values = inputs.map((host, i) => {
      if (i !== input) return toValues(host);
      const data = Float64Array.from(host.data as Float64Array);
      data[element]! += offset;
      return toValues({ ...host, data });
    });
    return interpretProgram(program, values)[0]!.data[0]!;
  };
  return inputs.map(({ data }, input) =>
    Array.from({ length: data.length }, (_, element) => {
      return (lossAt(input, element, step) - lossAt(input, element, -step)) / (2 * step);
    }),
  );
}
