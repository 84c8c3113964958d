/** What of a training state computes the model. */
import type { Tensor } from "../core/index.ts";
import type { LlamaOptions, LlamaTree } from "../models/llama.ts";
import { tapsOfScales } from "../quant/index.ts";
import type { TrainState } from "./state.ts";

/** A model's weights and, where its precision delays scales, those in force. */
export interface ModelState<Leaf = Tensor> {
  readonly params: LlamaTree<Leaf>;
  /** float32 [layers, modules, 3] */
  readonly scales?: Leaf;
}

export const modelState = <Leaf>({ params, delayedScaling }: TrainState<Leaf>): ModelState<Leaf> => ({
  params,
  ...(delayedScaling && { scales: delayedScaling.scales }),
});

/** The options with the scales in force, for programs that change none of them. */
export const withScales = <O extends Omit<LlamaOptions, "taps">>(options: O, scales: Tensor | undefined) => ({
  ...options,
  ...(scales && { taps: tapsOfScales(scales) }),
});
