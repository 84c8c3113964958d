/** Models for tests of conversions: golden's folders changed, and GGUF files made of them as llama.cpp's converter makes them. */
import { cpSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openModelFiles } from "../../src/checkpoint/modelFiles.ts";
import { writeSafetensors } from "../../src/checkpoint/safetensors.ts";
import { decodeArray } from "../../src/core/codecs.ts";
import type { HostArray } from "../../src/core/index.ts";
import { type GgufToWrite, type MetadataToWrite, type TensorToWrite, writeGguf } from "../gguf/writeGguf.ts";
import { goldenJson, goldenPath } from "../golden.ts";

export type LlamaName = "llama_a_untied_llama3rope" | "llama_b_tied_plainrope";
export const llamaA = "llama_a_untied_llama3rope";
export const llamaB = "llama_b_tied_plainrope";

export async function tensorsOf(path: string): Promise<Map<string, HostArray>> {
  const model = await openModelFiles(path);
  const tensors = new Map<string, HostArray>();
  for (const name of model.specs.keys()) tensors.set(name, await model.read(name));
  await model.close();
  return tensors;
}

export const configOf = (folder: string): Record<string, unknown> =>
  JSON.parse(readFileSync(join(folder, "config.json"), "utf8"));

export interface Variant {
  readonly config?: (config: Record<string, unknown>) => Record<string, unknown>;
  readonly tensors?: (tensors: Map<string, HostArray>) => void;
}

/** A copy of one of golden's models at `folder`, changed. */
export async function variant(folder: string, name: LlamaName, change: Variant = {}): Promise<string> {
  cpSync(goldenPath(`06_models/${name}`), folder, { recursive: true });
  rmSync(join(folder, "golden.safetensors"));
  if (change.config !== undefined) {
    writeFileSync(join(folder, "config.json"), JSON.stringify(change.config(configOf(folder))));
  }
  if (change.tensors !== undefined) {
    const tensors = await tensorsOf(folder);
    change.tensors(tensors);
    await writeSafetensors(join(folder, "model.safetensors"), tensors);
  }
  return folder;
}

const ggufModules: Readonly<Record<string, string>> = {
  input_layernorm: "attn_norm",
  "self_attn.q_proj": "attn_q",
  "self_attn.k_proj": "attn_k",
  "self_attn.v_proj": "attn_v",
  "self_attn.o_proj": "attn_output",
  post_attention_layernorm: "ffn_norm",
  "mlp.gate_proj": "ffn_gate",
  "mlp.up_proj": "ffn_up",
  "mlp.down_proj": "ffn_down",
};

function ggufName(name: string): string {
  const [, layer, module] = /^model\.layers\.(\d+)\.(.+)\.weight$/.exec(name) ?? [];
  if (module !== undefined) return `blk.${layer}.${ggufModules[module]}.weight`;
  if (name === "model.embed_tokens.weight") return "token_embd.weight";
  return name === "lm_head.weight" ? "output.weight" : "output_norm.weight";
}

/** Rows of each head in pairs that turn together, from halves: [2, H/2] becomes [H/2, 2]. */
function paired(values: Float32Array, headDim: number, columns: number): Float32Array {
  const out = new Float32Array(values.length);
  for (let row = 0; row < values.length / columns; row++) {
    const [head, at] = [Math.floor(row / headDim), row % headDim];
    const to = head * headDim + (at % (headDim / 2)) * 2 + Math.floor(at / (headDim / 2));
    out.set(values.subarray(row * columns, (row + 1) * columns), to * columns);
  }
  return out;
}

export interface GgufChange {
  readonly metadata?: Readonly<Record<string, MetadataToWrite | undefined>>;
  readonly tensors?: Readonly<Record<string, TensorToWrite>>;
  readonly without?: readonly string[];
}

const bytesOf = (values: Float32Array): Uint8Array =>
  new Uint8Array(values.buffer, values.byteOffset, values.byteLength);

/** One of golden's models as a GGUF file of F32 tensors with golden's tokenizer. */
export const ggufOf = async (path: string, name: LlamaName, change: GgufChange = {}): Promise<string> =>
  writeGguf(path, await ggufContents(name, change));

/** The same in parts `stem`-00001-of-0000N.gguf, as llama.cpp's gguf-split leaves them: metadata in the first. */
export async function splitGgufOf(stem: string, name: LlamaName, count: number): Promise<string[]> {
  const { metadata, tensors } = await ggufContents(name);
  const all = Object.entries(tensors);
  const number = (n: number) => String(n).padStart(5, "0");
  return Array.from({ length: count }, (_, i) => {
    const split = { "split.no": i, "split.count": count, "split.tensors.count": all.length };
    return writeGguf(`${stem}-${number(i + 1)}-of-${number(count)}.gguf`, {
      metadata: i === 0 ? { ...metadata, ...split } : split,
      tensors: Object.fromEntries(all.slice((i * all.length) / count, ((i + 1) * all.length) / count)),
    });
  });
}

async function ggufContents(name: LlamaName, change: GgufChange = {}): Promise<GgufToWrite> {
  const config = configOf(goldenPath(`06_models/${name}`));
  const headDim = config.head_dim as number;
  const tensors: Record<string, TensorToWrite> = {};
  for (const [hf, { shape, dtype, data }] of await tensorsOf(goldenPath(`06_models/${name}`))) {
    const values = decodeArray(dtype, data) as Float32Array;
    const rows = /[qk]_proj/.test(hf) ? paired(values, headDim, shape[1]!) : values;
    tensors[ggufName(hf)] = { shape, type: 0, bytes: bytesOf(rows) };
  }
  const rope = (config.rope_theta ?? (config.rope_parameters as { rope_theta: number }).rope_theta) as number;
  const tokenizer = goldenJson<{
    added_tokens: { id: number; content: string }[];
    model: { vocab: Record<string, number>; merges: (string | string[])[] };
  }>("10_tokenizer/tokenizer_llama3style");
  const tokens = Array.from({ length: 512 }, (_, id) => tokenizer.added_tokens.find((t) => t.id === id)?.content ?? "");
  for (const [token, id] of Object.entries(tokenizer.model.vocab)) tokens[id] = token;
  const metadata: Record<string, MetadataToWrite | undefined> = {
    "general.architecture": "llama",
    "llama.block_count": config.num_hidden_layers as number,
    "llama.context_length": config.max_position_embeddings as number,
    "llama.embedding_length": config.hidden_size as number,
    "llama.feed_forward_length": config.intermediate_size as number,
    "llama.attention.head_count": config.num_attention_heads as number,
    "llama.attention.head_count_kv": config.num_key_value_heads as number,
    "llama.attention.layer_norm_rms_epsilon": config.rms_norm_eps as number,
    "llama.rope.freq_base": rope,
    "llama.rope.dimension_count": headDim,
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "llama-bpe",
    "tokenizer.ggml.tokens": tokens,
    "tokenizer.ggml.token_type": tokens.map((_, id) => (id < 504 ? 1 : 3)),
    "tokenizer.ggml.merges": tokenizer.model.merges.map((merge) => [merge].flat().join(" ")),
    "tokenizer.ggml.bos_token_id": 504,
    "tokenizer.ggml.eos_token_id": 505,
    ...change.metadata,
  };
  return {
    metadata: Object.fromEntries(Object.entries(metadata).filter(([, value]) => value !== undefined)) as never,
    tensors: Object.fromEntries(
      Object.entries({ ...tensors, ...change.tensors }).filter(([tensor]) => !change.without?.includes(tensor)),
    ),
  };
}
