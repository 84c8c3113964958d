import { afterAll, describe, expect, it } from "vitest";
import type { HostArray } from "../../src/core/index.ts";
import { chooseToken, makeSampler, type Sampler } from "../../src/train/sample.ts";
import { goldenJson } from "../golden.ts";
import { goldenLlama, type LlamaName, llamaNames } from "../models/goldenLlama.ts";

const samplers = new Map<LlamaName, Promise<Sampler>>();
afterAll(async () => {
  for (const sampler of samplers.values()) (await sampler).dispose();
});

/** One compiled program for each model, 32 positions long. */
const samplerOf = (name: LlamaName): Promise<Sampler> => {
  const known =
    samplers.get(name) ?? goldenLlama(name).then(({ options }) => makeSampler({ model: options, length: 32 }));
  samplers.set(name, known);
  return known;
};

describe("generate", () => {
  it.each(llamaNames)("greedy tokens of golden %s", async (name) => {
    const { params } = await goldenLlama(name);
    const wanted = goldenJson<{ prompt_ids: number[]; new_ids: number[] }>(`06_models/${name}/generate`);
    const sampler = await samplerOf(name);
    const request = { params, promptIds: wanted.prompt_ids, numTokens: 16 };
    expect(await sampler.generate(request)).toEqual(wanted.new_ids);
    const stop = wanted.new_ids[5]!;
    expect(await sampler.generate({ ...request, stopIds: [stop] })).toEqual(wanted.new_ids.slice(0, 6));
  });

  it("draws by its seed, the same each time, and goes on past the program's length", async () => {
    const { params } = await goldenLlama("llama_b_tied_plainrope");
    const sampler = await samplerOf("llama_b_tied_plainrope");
    const draw = (seed: number) =>
      sampler.generate({
        params,
        promptIds: [1, 2, 3],
        numTokens: 40,
        temperature: 1,
        topK: 50,
        seed,
      });
    const first = await draw(1);
    expect(first).toHaveLength(40);
    expect(await draw(1)).toEqual(first);
    expect(await draw(2)).not.toEqual(first);
  });

  it("refuses requests it can't fulfil, and says so where a model has diverged", async () => {
    const { params } = await goldenLlama("llama_b_tied_plainrope");
    const sampler = await samplerOf("llama_b_tied_plainrope");
    const request = { params, promptIds: [1], numTokens: 1 };
    await expect(sampler.generate({ ...request, promptIds: [] })).rejects.toThrow(/at least one token/);
    await expect(sampler.generate({ ...request, promptIds: [256] })).rejects.toThrow(
      /token 256 is outside the vocabulary/,
    );
    await expect(sampler.generate({ ...request, temperature: -1 })).rejects.toThrow(/temperature/);
    await expect(sampler.generate({ ...request, topK: 0 })).rejects.toThrow(/top-k/);
    const norm: HostArray = { ...params.norm, data: new Float32Array(48).fill(Number.NaN) };
    await expect(sampler.generate({ ...request, params: { ...params, norm } })).rejects.toThrow(/not finite/);
  });
});

describe("chooseToken", () => {
  const logits = Float32Array.of(0, Math.log(2), Math.log(5), Math.log(2));

  it("is the likeliest at temperature 0, ties to the lower id", () => {
    expect(chooseToken(logits, { temperature: 0, uniform: 0.99 })).toBe(2);
    expect(chooseToken(Float32Array.of(3, 7, 7), { temperature: 0, uniform: 0.99 })).toBe(1);
  });

  it("draws each token as often as the softmax says", () => {
    const counts = (temperature: number, topK?: number) => {
      const result = [0, 0, 0, 0];
      for (let i = 0; i < 1000; i++) {
        result[chooseToken(logits, { temperature, uniform: (i + 0.5) / 1000, ...(topK && { topK }) })]!++;
      }
      return result;
    };
    expect(counts(1)).toEqual([100, 200, 500, 200]);
    expect(counts(1, 2)).toEqual([0, 286, 714, 0]);
    expect(counts(0.5)).toEqual([29, 118, 735, 118]);
  });

  it("takes infinitely unlikely tokens for what they are", () => {
    expect(chooseToken(Float32Array.of(-Infinity, 0), { temperature: 1, uniform: 1e-9 })).toBe(1);
    expect(() => chooseToken(Float32Array.of(0, Number.NaN), { temperature: 1, uniform: 0.5 })).toThrow(/not finite/);
    expect(() => chooseToken(Float32Array.of(-Infinity), { temperature: 0, uniform: 0.5 })).toThrow(/not finite/);
  });
});
