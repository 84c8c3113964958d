/** A few words of what a model writes, from the beginning of a document. */

import type { LlamaOptions } from "../models/llama.ts";
import type { DeviceArray } from "../pjrt/index.ts";
import type { Tokenizer } from "../tokenizers/index.ts";
import type { ModelState } from "./modelState.ts";
import { makeSampler } from "./sample.ts";

export interface TextSampleInput {
  readonly model: LlamaOptions;
  readonly state: ModelState<DeviceArray>;
  readonly tokenizer: Tokenizer;
  /** Tokens the model was trained to see at once. */
  readonly sequenceLength: number;
  /** What the text begins with; "" for the beginning of a document. */
  readonly prompt: string;
}

const numTokens = 64;
/** Drawn from the likely tokens only: a model this small rambles otherwise. */
const drawing = { temperature: 0.8, topK: 40, seed: 0 };

/** The text that follows the prompt. The same weights give the same text. */
export async function writeText({ model, state, tokenizer, sequenceLength, prompt }: TextSampleInput): Promise<string> {
  const sampler = makeSampler({ model, length: Math.min(sequenceLength, 2 * numTokens) });
  try {
    const promptIds = [tokenizer.eosId, ...tokenizer.encode(prompt)];
    const ids = await sampler.generate({ ...state, promptIds, numTokens, ...drawing, stopIds: [tokenizer.eosId] });
    return tokenizer.decode(ids, { skipControl: true });
  } finally {
    sampler.dispose();
  }
}
