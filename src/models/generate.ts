/** The next token's logits: the part of generation that runs on the device. */
import { dot, iota, type Tensor, take } from "../core/index.ts";
import { type LlamaOptions, type LlamaParams, llamaHidden, tokenRows } from "./llama.ts";

/**
 * Float32 logits [B, V] for what follows position `positions` [B] (int32) of `tokens` [B, T]; later tokens of a row are
 * padding and are not seen. Only one row a sequence goes through the head.
 */
export function nextTokenLogits(params: LlamaParams, tokens: Tensor, positions: Tensor, options: LlamaOptions): Tensor {
  const { config } = options;
  const { embDim, dtype } = config;
  const [B, T] = tokens.shape as [number, number];
  const hidden = llamaHidden(params, tokens, options).reshape([B * T, embDim]);
  const last_BD = take(hidden, iota([B], 0, "int32").mul(T).add(positions));
  const head = tokenRows(params, config).astype(dtype);
  return dot(last_BD, head, { contract: [[1], [1]], out: "float32" });
}
