/**
 * Work that several linear layers share. q, k and v read one input, gate and up another; its quantized copies are made
 * once. Programs merge equal operations by themselves, but not across the barriers inside the quantizer.
 */
import { checkpointName, type Tensor } from "../core/index.ts";
import { type Nvfp4Options, type Quantized, quantizeNvfp4 } from "./nvfp4.ts";

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

const quantized = new WeakMap<Tensor, Map<string, Quantized>>();

/** `quantizeNvfp4`, once for each tensor and options; stochastic roundings have keys of their own and are never shared. */
export function quantizeOnce(x: Tensor, options: Nvfp4Options): Quantized {
  if (options.rounding !== "nearest") return quantizeNvfp4(x, options);
  const copies = quantized.get(x) ?? new Map<string, Quantized>();
  quantized.set(x, copies);
  const key = JSON.stringify(options);
  const known = copies.get(key);
  if (known !== undefined) return known;
  const fresh = quantizeNvfp4(x, options);
  copies.set(key, fresh);
  return fresh;
}
