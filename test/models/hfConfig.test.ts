import { describe, expect, it } from "vitest";
import { parseHfConfig, toHfConfig } from "../../src/models/hfConfig.ts";
import { goldenJson } from "../golden.ts";

type Json = Record<string, unknown>;
const styles = {
  llama_a_untied_llama3rope: { transformers4: "config", transformers5: "config_transformers5_style" },
  llama_b_tied_plainrope: { transformers4: "config_transformers4_style", transformers5: "config" },
} as const;
type Name = keyof typeof styles;
const read = (name: Name, style: "transformers4" | "transformers5") =>
  goldenJson<Json>(`06_models/${name}/${styles[name][style]}`);

const modelA = {
  numLayers: 4,
  embDim: 64,
  mlpDim: 160,
  numHeads: 4,
  numKvHeads: 2,
  headDim: 16,
  vocabSize: 256,
  ropeTheta: 500000,
  ropeScaling: { kind: "llama3", factor: 8, lowFreqFactor: 1, highFreqFactor: 4, originalMaxPosition: 64 },
  normEps: 1e-5,
  tieEmbeddings: false,
  dtype: "bfloat16",
};

describe("config.json", () => {
  it("reads both styles alike", () => {
    const a = parseHfConfig(read("llama_a_untied_llama3rope", "transformers4"), "bfloat16");
    expect(a).toEqual({ family: "llama", config: modelA, maxPositions: 512, bosTokenId: 1, eosTokenIds: [2] });
    expect(parseHfConfig(read("llama_a_untied_llama3rope", "transformers5"), "bfloat16")).toEqual(a);
    const b = parseHfConfig(read("llama_b_tied_plainrope", "transformers4"), "float32");
    expect(b.config).toMatchObject({
      numHeads: 6,
      headDim: 8,
      ropeTheta: 500000,
      tieEmbeddings: true,
      dtype: "float32",
    });
    expect(b.config).not.toHaveProperty("ropeScaling");
    expect(parseHfConfig(read("llama_b_tied_plainrope", "transformers5"), "float32")).toEqual(b);
  });

  it.each(Object.keys(styles) as Name[])("writes %s as it was, in both styles", (name) => {
    // Keys that say nothing about the model's function, or that transformers fills in by itself.
    const incidental = [
      "transformers_version",
      "initializer_range",
      "use_cache",
      "pretraining_tp",
      "attention_dropout",
    ];
    for (const style of ["transformers4", "transformers5"] as const) {
      const original = read(name, style);
      const storedDtype = (original.torch_dtype ?? original.dtype) as "bfloat16" | "float32";
      const written = toHfConfig(parseHfConfig(original, "float32"), { style, storedDtype });
      const wanted = Object.entries(original).filter(([key]) => ![...incidental, "pad_token_id"].includes(key));
      expect(written).toEqual(Object.fromEntries(wanted));
    }
  });

  const base = read("llama_b_tied_plainrope", "transformers4");

  it("fills in what older files leave out", () => {
    const { head_dim, num_key_value_heads, rope_theta, tie_word_embeddings, rms_norm_eps, ...rest } = base;
    expect([head_dim, num_key_value_heads, rope_theta, tie_word_embeddings, rms_norm_eps]).not.toContain(undefined);
    expect(parseHfConfig(rest, "float32").config).toMatchObject({
      headDim: 8,
      numKvHeads: 6,
      ropeTheta: 10000,
      tieEmbeddings: false,
      normEps: 1e-6,
    });
    expect(parseHfConfig({ ...base, eos_token_id: [2, 7] }, "float32").eosTokenIds).toEqual([2, 7]);
    expect(parseHfConfig({ ...base, eos_token_id: null, bos_token_id: null }, "float32")).not.toHaveProperty(
      "bosTokenId",
    );
    const oldName = {
      type: "llama3",
      factor: 8,
      low_freq_factor: 1,
      high_freq_factor: 4,
      original_max_position_embeddings: 64,
    };
    expect(parseHfConfig({ ...base, rope_scaling: oldName }, "float32").config.ropeScaling?.kind).toBe("llama3");
  });

  it.each([
    [{ model_type: "qwen2" }, /"qwen2" is not read: its projections .* add biases; llama and mistral are/],
    [{ model_type: "qwen3" }, /"qwen3" is not read: it normalises/],
    [{ model_type: "lama" }, /model_type "lama" is not read; llama and mistral are/],
    [{ attention_bias: true }, /attention_bias/],
    [{ hidden_act: "gelu" }, /hidden_act/],
    [{ rope_scaling: { rope_type: "yarn", factor: 4 } }, /rope type "yarn" is not supported/],
    [{ rope_scaling: { rope_type: "llama3", factor: 4 } }, /low_freq_factor/],
    [{ rope_scaling: { factor: 4 } }, /rotary positions have factor: 4, but no rope_type is given/],
    [{ rope_scaling: { rope_type: null, factor: 4 } }, /factor: 4, but no rope_type is given/],
    [{ rope_scaling: { rope_type: "default", factor: 4 } }, /factor: 4, but rope_type "default" scales nothing/],
    [{ rope_parameters: { rope_theta: 5e5, rope_type: "default", factor: 0.5 } }, /factor: 0.5, but rope_type/],
    [{ rope_scaling: { low_freq_factor: 2 } }, /have low_freq_factor: 2/],
    [{ rope_scaling: { attention_factor: 1.2 }, rope_parameters: { rope_type: "default" } }, /attention_factor: 1.2/],
    [{ head_dim: 7 }, /head_dim is 7; rotary positions turn pairs/],
    [{ head_dim: null, hidden_size: 42, num_attention_heads: 6 }, /head_dim is 7;/],
    [
      { rope_parameters: { rope_theta: 5e5, rope_type: "default", partial_rotary_factor: 0.5 } },
      /partial_rotary_factor/,
    ],
    [{ quantization_config: { quant_method: "fp8" } }, /quantization_config: the weights are quantized.*to=bf16/],
    [{ hidden_size: "48" }, /hidden_size/],
  ])("refuses %j", (change, message) => {
    expect(() => parseHfConfig({ ...base, ...change }, "float32", "folder/config.json")).toThrow(message);
    expect(() => parseHfConfig({ ...base, ...change }, "float32", "folder/config.json")).toThrow(
      /^folder\/config.json: /,
    );
  });
});
