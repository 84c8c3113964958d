/** GGUF files: their heads, tensors of every type, the model they hold and its tokenizer. */
import { join } from "node:path";
import { openSource } from "../../src/convert/openSource.ts";
import { partsOf } from "../../src/convert/source.ts";
import { sizeOf } from "../../src/core/index.ts";
import { openGguf } from "../../src/gguf/index.ts";
import { tensorTypes } from "../../src/gguf/tensorTypes.ts";
import { tokenizerOfGguf } from "../../src/tokenizers/index.ts";
import { ggufBytes } from "../gguf/writeGguf.ts";
import type { FuzzFormat } from "./format.ts";
import { tinyConfig, tinyWeights } from "./modelFormats.ts";

/** Some bytes of each type: two blocks. */
const types = Object.entries(tensorTypes).map(([type, { blockValues, blockBytes }]) => {
  const shape = [2, blockValues];
  return [`t${type}`, { shape, type: Number(type), bytes: new Uint8Array(2 * blockBytes).fill(7) }] as const;
});

const modules: Readonly<Record<string, string>> = {
  ...{ input_layernorm: "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k" },
  ...{ "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", post_attention_layernorm: "ffn_norm" },
  ...{ "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down" },
};

function ggufName(name: string): string {
  const [, layer, module] = /^model\.layers\.(\d+)\.(.+)\.weight$/.exec(name) ?? [];
  if (module !== undefined) return `blk.${layer}.${modules[module]}.weight`;
  return name === "model.embed_tokens.weight" ? "token_embd.weight" : "output_norm.weight";
}

const tokens = ["<s>", "</s>", ...Array.from({ length: 62 }, (_, i) => String.fromCharCode(65 + i))];
const tokenizers = [
  {
    ...{
      "tokenizer.ggml.model": "gpt2",
      "tokenizer.ggml.pre": "llama-bpe",
      "tokenizer.ggml.tokens": [...tokens, "AB"],
    },
    "tokenizer.ggml.merges": ["A B"],
  },
  {
    ...{ "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": [...tokens, "AB"] },
    "tokenizer.ggml.scores": Float32Array.from([...tokens, "AB"], (_, i) => -i),
  },
];

function seeds(): Uint8Array[] {
  const weights = tinyWeights().map(([name, { shape, data }]) => {
    return [ggufName(name), { shape, type: 0, bytes: new Uint8Array(data.buffer, data.byteOffset, data.byteLength) }];
  });
  const models = tokenizers.map((tokenizer) =>
    ggufBytes({
      metadata: {
        ...{ "general.architecture": "llama", "llama.block_count": 2, "llama.context_length": 128 },
        ...{ "llama.embedding_length": 32, "llama.feed_forward_length": 48, "llama.attention.head_count": 2 },
        ...{ "llama.attention.head_count_kv": 1, "llama.rope.dimension_count": 16, "llama.rope.freq_base": 10000 },
        "llama.attention.layer_norm_rms_epsilon": tinyConfig.rms_norm_eps,
        ...{ "tokenizer.ggml.bos_token_id": 0, "tokenizer.ggml.eos_token_id": 1 },
        "tokenizer.ggml.token_type": Array.from({ length: tokens.length + 1 }, (_, i) => (i < 2 ? 3 : 1)),
        ...tokenizer,
      },
      tensors: Object.fromEntries(weights),
    }),
  );
  const every = ggufBytes({
    metadata: {
      text: "é",
      number: 7,
      small: -1,
      float: 0.5,
      flag: true,
      list: ["a", ""],
      numbers: [1, 2],
      "general.alignment": 64,
    },
    tensors: Object.fromEntries(types),
    alignment: 64,
  });
  return [every, ...models];
}

export const ggufFormat: FuzzFormat = {
  name: "gguf",
  mutated: /gguf$/,
  seeds: async () => seeds().map((bytes) => ({ "x.gguf": bytes })),
  async read(folder) {
    const path = join(folder, "x.gguf");
    const file = await openGguf(path);
    try {
      for (const name of file.tensors.keys()) await file.read(name);
      if (file.metadata.has("tokenizer.ggml.model")) tokenizerOfGguf(file.metadata, path);
      if (!file.metadata.has("general.architecture")) return;
    } finally {
      await file.close();
    }
    const source = await openSource(path);
    try {
      for (const tensor of source.tensors.values()) for await (const _ of partsOf(tensor, sizeOf(tensor.shape)));
    } finally {
      await source.close();
    }
  },
};
