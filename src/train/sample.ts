/**
 * Writing text with a model: greedy, or drawn at a temperature from the k best. The whole context is recomputed for each
 * token at one fixed length, so there is one program and no cache: for a short sample, not for serving.
 */
import { UserError } from "../base/errors.ts";
import { type HostArray, hostArray, type Tensor } from "../core/index.ts";
import { hashInts } from "../data/hash.ts";
import { jit } from "../jit/index.ts";
import { nextTokenLogits } from "../models/generate.ts";
import type { LlamaOptions } from "../models/llama.ts";
import type { DeviceArray } from "../pjrt/index.ts";
import { type ModelState, withScales } from "./modelState.ts";

export interface SamplerOptions {
  readonly model: LlamaOptions;
  /** Tokens the program sees; of a longer text only the last ones. */
  readonly length: number;
}

export interface SampleRequest extends ModelState<DeviceArray | HostArray> {
  /** At least one token. */
  readonly promptIds: readonly number[];
  readonly numTokens: number;
  /** 0 takes the likeliest token; 1 draws from the model's distribution. */
  readonly temperature?: number;
  /** Draw among this many likeliest tokens only. */
  readonly topK?: number;
  readonly seed?: number;
  /** The text ends at any of these; it is part of the result. */
  readonly stopIds?: readonly number[];
}

export interface Sampler {
  /** The new tokens, without the prompt. The same request gives the same tokens. */
  generate(request: SampleRequest): Promise<number[]>;
  /** Frees the compiled program. */
  dispose(): void;
}

/** Compiles at the first request; later ones, with newer parameters for instance, reuse the program. */
export function makeSampler({ model, length }: SamplerOptions): Sampler {
  const nextLogits = jit(
    ({ params, scales }: ModelState, tokens: Tensor, positions: Tensor) =>
      nextTokenLogits(params, tokens, positions, withScales(model, scales)),
    { name: "next_token_logits" },
  );

  async function logitsAfter(
    { params, scales }: ModelState<DeviceArray | HostArray>,
    ids: readonly number[],
  ): Promise<Float32Array> {
    const context = ids.slice(-length);
    const tokens = new Int32Array(length);
    tokens.set(context);
    const position = Int32Array.of(context.length - 1);
    const logits = await nextLogits(
      { params, ...(scales && { scales }) } as never,
      hostArray([1, length], "int32", tokens) as never,
      hostArray([1], "int32", position) as never,
    );
    try {
      return (await logits.toHost()).data as Float32Array;
    } finally {
      logits.dispose();
    }
  }

  async function generate(request: SampleRequest): Promise<number[]> {
    const { promptIds, numTokens, temperature = 0, topK, seed = 0, stopIds = [] } = request;
    checkRequest(request, model.config.vocabSize);
    const ids: number[] = [];
    while (ids.length < numTokens) {
      const logits = await logitsAfter(request, [...promptIds, ...ids]);
      const uniform = (hashInts(seed, ids.length) + 0.5) / 2 ** 32;
      const id = chooseToken(logits, { temperature, ...(topK !== undefined && { topK }), uniform });
      ids.push(id);
      if (stopIds.includes(id)) break;
    }
    return ids;
  }

  return { generate, dispose: () => nextLogits.dispose() };
}

function checkRequest({ promptIds, temperature = 0, topK = 1 }: SampleRequest, vocabSize: number): void {
  const fail = (message: string): never => {
    throw new UserError("E_SAMPLE", message);
  };
  if (promptIds.length === 0) fail("a sample needs a prompt of at least one token");
  const bad = promptIds.find((id) => !(Number.isInteger(id) && id >= 0 && id < vocabSize));
  if (bad !== undefined) fail(`token ${bad} is outside the vocabulary of ${vocabSize}`);
  if (!(temperature >= 0 && temperature < Infinity)) fail(`the temperature must be 0 or positive; got ${temperature}`);
  if (!(Number.isInteger(topK) && topK >= 1)) fail(`top-k must be a whole number of at least 1; got ${topK}`);
}

export interface TokenChoice {
  readonly temperature: number;
  readonly topK?: number;
  /** In (0, 1): which of the candidates. */
  readonly uniform: number;
}

/** One token from the logits of a position. Ties go to the lower id. @throws UserError on logits that are not numbers */
export function chooseToken(logits: Float32Array, { temperature, topK, uniform }: TokenChoice): number {
  const order = Array.from(logits.keys()).sort((a, b) => logits[b]! - logits[a]! || a - b);
  const best = order[0]!;
  if (logits.some(Number.isNaN) || !Number.isFinite(logits[best]!)) {
    throw new UserError("E_SAMPLE", "the model's logits are not finite; its parameters are damaged or it has diverged");
  }
  if (temperature === 0) return best;
  const candidates = order.slice(0, topK);
  const weights = candidates.map((id) => Math.exp((logits[id]! - logits[best]!) / temperature));
  let rest = uniform * weights.reduce((a, b) => a + b, 0);
  for (const [i, id] of candidates.entries()) {
    rest -= weights[i]!;
    if (rest < 0) return id;
  }
  return candidates.at(-1)!;
}
