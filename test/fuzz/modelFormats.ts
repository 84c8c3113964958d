/** Weights as Hugging Face keeps them: a file, shards with their index, config.json, and quantized ones. */
import { cpSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { loadHfLlama } from "../../src/checkpoint/hfLlama.ts";
import { decompressModel } from "../../src/checkpoint/index.ts";
import { openSafetensors, writeSafetensors } from "../../src/checkpoint/safetensors.ts";
import { openSource } from "../../src/convert/openSource.ts";
import { partsOf } from "../../src/convert/source.ts";
import { dtypeInfo, dtypes } from "../../src/core/dtype.ts";
import { type HostArray, hostArray, sizeOf } from "../../src/core/index.ts";
import { llamaToHf } from "../../src/models/hfMapping.ts";
import { initialState } from "../../src/train/state.ts";
import { goldenPath } from "../golden.ts";
import { tinyModel } from "../train/tinyRun.ts";
import type { FuzzFormat } from "./format.ts";
import { filesBelow } from "./mutant.ts";
import { mutateJson } from "./mutateJson.ts";
import type { Draws } from "./random.ts";

/** Another header, whose length is told right: by its structure where it is JSON. Undefined: any bytes. */
export function mutateHeader(path: string, bytes: Uint8Array, draws: Draws): Uint8Array | undefined {
  if (!path.endsWith(".safetensors") || draws.chance(0.4)) return undefined;
  const length = Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
  const header = Buffer.from(mutateJson(Buffer.from(bytes.subarray(8, 8 + length)).toString(), draws));
  const prefix = Buffer.alloc(8);
  prefix.writeBigUInt64LE(BigInt(header.length));
  return Buffer.concat([prefix, header, bytes.subarray(8 + length)]);
}

/** The tiny model's weights by their names. */
export const tinyWeights = (): [string, HostArray][] =>
  llamaToHf(initialState(tinyModel, 5).params).map(([name, array]) => [name, array as HostArray]);

export const tinyConfig = {
  architectures: ["LlamaForCausalLM"],
  ...{ model_type: "llama", vocab_size: 64, hidden_size: 32, intermediate_size: 48, num_hidden_layers: 2 },
  ...{ num_attention_heads: 2, num_key_value_heads: 1, head_dim: 16, hidden_act: "silu", rms_norm_eps: 1e-5 },
  ...{ max_position_embeddings: 128, tie_word_embeddings: true, rope_theta: 10000, torch_dtype: "float32" },
  ...{ bos_token_id: 1, eos_token_id: [2, 3], attention_bias: false, mlp_bias: false },
  rope_scaling: {
    ...{ rope_type: "llama3", factor: 8, low_freq_factor: 1, high_freq_factor: 4 },
    original_max_position_embeddings: 64,
  },
};

const json = (value: unknown): Uint8Array => Buffer.from(JSON.stringify(value));

async function readSource(folder: string): Promise<void> {
  const source = await openSource(folder);
  try {
    for (const tensor of source.tensors.values()) for await (const _ of partsOf(tensor, sizeOf(tensor.shape)));
  } finally {
    await source.close();
  }
}

/** Reads a model in all the ways there are, and tells the first error when all have been tried. */
async function readModel(folder: string): Promise<void> {
  const results = [
    await loadHfLlama(folder).catch((error: unknown) => ({ error })),
    await readSource(folder).catch((error: unknown) => ({ error })),
  ];
  for (const result of results) if (result && "error" in result) throw result.error;
}

const safetensorsFile: FuzzFormat = {
  name: "safetensors",
  mutated: /safetensors$/,
  mutate: mutateHeader,
  async seeds(folder) {
    mkdirSync(folder, { recursive: true });
    const arrays = dtypes
      .filter((dtype) => dtypeInfo(dtype).safetensors !== undefined)
      .map((dtype, i): [string, HostArray] => {
        const shape = [[], [3], [2, 3], [0, 4]][i % 4]!;
        return [`a.${dtype}`, hostArray(shape, dtype, new (dtypeInfo(dtype).array)(sizeOf(shape)))];
      });
    await writeSafetensors(join(folder, "a.safetensors"), arrays, { format: "pt", note: "é" });
    await writeSafetensors(join(folder, "b.safetensors"), arrays.slice(0, 1));
    return ["a", "b"].map((name) => ({ "x.safetensors": readFileSync(join(folder, `${name}.safetensors`)) }));
  },
  async read(folder) {
    const file = await openSafetensors(join(folder, "x.safetensors"));
    try {
      for (const [name, { shape }] of file.tensors) {
        await file.read(name);
        await file.readPart(name, 0, sizeOf(shape));
      }
    } finally {
      await file.close();
    }
  },
};

const huggingFace: FuzzFormat = {
  name: "model-folder",
  mutated: /(config|index)\.json$|safetensors$/,
  mutate: mutateHeader,
  async seeds(folder) {
    const [whole, sharded] = [join(folder, "whole"), join(folder, "sharded")];
    for (const path of [whole, sharded]) mkdirSync(path, { recursive: true });
    const weights = tinyWeights();
    await writeSafetensors(join(whole, "model.safetensors"), weights, { format: "pt" });
    const parts = [weights.slice(0, 5), weights.slice(5)];
    const names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
    for (const [i, part] of parts.entries()) await writeSafetensors(join(sharded, names[i]!), part, { format: "pt" });
    const weight_map = Object.fromEntries(parts.flatMap((part, i) => part.map(([name]) => [name, names[i]])));
    const config = { "config.json": json(tinyConfig), "generation_config.json": json({ eos_token_id: 2 }) };
    const index = { "model.safetensors.index.json": json({ metadata: { total_size: 1 }, weight_map }) };
    return [
      { ...config, ...filesBelow(whole) },
      { ...config, ...index, ...filesBelow(sharded) },
    ];
  },
  read: readModel,
};

/** config.json alone, which a model's folder is refused by before most of the rest is read. */
const config: FuzzFormat = { ...huggingFace, name: "config.json", mutated: /^config\.json$/ };
const index: FuzzFormat = {
  ...huggingFace,
  name: "safetensors-index",
  mutated: /index\.json$/,
  seeds: async (folder) => (await huggingFace.seeds(folder)).slice(1),
};

const quantized: FuzzFormat = {
  name: "compressed-tensors",
  mutated: /config\.json$|safetensors$/,
  mutate: mutateHeader,
  async seeds() {
    return ["NVFP4", "MXFP4", "MXFP8", "FP8", "FP8_BLOCK"].map((name) => ({
      "config.json": readFileSync(goldenPath(`15_compressed_tensors/${name}.config.json`)),
      "model.safetensors": readFileSync(goldenPath(`15_compressed_tensors/${name}.safetensors`)),
    }));
  },
  async read(folder) {
    const copy = `${folder}-copy`;
    cpSync(folder, copy, { recursive: true });
    try {
      await decompressModel(copy, join(copy, "plain"));
    } finally {
      rmSync(copy, { recursive: true, force: true });
    }
  },
};

export const modelFormats: readonly FuzzFormat[] = [safetensorsFile, huggingFace, config, index, quantized];
