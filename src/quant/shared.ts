/**
 * Work that several linear layers share. q, k and v read one input, gate and up another; its quantized copies are made
 * once. Programs merge equal operations by themselves, but not across the barriers inside the quantizer.
 */
import { checkpointName, type Tensor } from "../core/index.ts";
import type { DrawStream } from "../core/random.ts";
import { isSymmetric, type QuantizedOperand, type Rotation, specText } from "./precision.ts";
import { type Quantized, quantize } from "./quantize.ts";
import { rotationMatrix } from "./rotation.ts";

const flattened = new WeakMap<Tensor, Tensor>();

/** x [..., in] as [tokens, in], under the name "linear_input": the same Tensor for every layer that reads x. */
export function asTokens(x: Tensor): Tensor {
  let tokens = flattened.get(x);
  if (tokens === undefined) {
    tokens = checkpointName(x.reshape([-1, x.shape.at(-1)!]), "linear_input");
    flattened.set(x, tokens);
  }
  return tokens;
}

/** How one operand is quantized at its place. */
export interface OperandOptions {
  readonly axis: "row" | "col";
  readonly rotation?: Rotation;
  /** Draws the rotation's signs. */
  readonly signs?: DrawStream;
  /** Draws of stochastic rounding. */
  readonly draws?: DrawStream;
  /** The delayed scale in force. */
  readonly inForce?: Tensor;
}

const quantized = new WeakMap<Tensor, Map<string, Quantized>>();

/** `quantize`, once for each tensor and description; what is drawn, or scaled by a layer's history, is never shared. */
export function quantizeOnce(x: Tensor, operand: QuantizedOperand, options: OperandOptions): Quantized {
  const { rotation, signs, draws, inForce } = options;
  // A symmetric block is the same for both axes.
  const axis = rotation === undefined && isSymmetric(operand.block) ? "row" : options.axis;
  const fresh = () =>
    quantize(x, operand, {
      axis,
      ...(rotation && { rotation: rotationMatrix(rotation, signs) }),
      ...(draws && { draws }),
      ...(inForce && { inForce }),
    });
  if (signs !== undefined || draws !== undefined || inForce !== undefined) return fresh();
  const copies = quantized.get(x) ?? new Map<string, Quantized>();
  quantized.set(x, copies);
  const key = specText([operand, rotation, axis]);
  const known = copies.get(key);
  if (known !== undefined) return known;
  const made = fresh();
  copies.set(key, made);
  return made;
}
