/** The workloads of the benchmark: sizes, and the files that give every peer the same weights and tokens. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { UserError } from "../src/base/errors.ts";
import { writeSafetensors } from "../src/checkpoint/safetensors.ts";
import { hostArray } from "../src/core/index.ts";
import { llamaToHf } from "../src/models/hfMapping.ts";
import type { LlamaConfig } from "../src/models/llama.ts";
import { initialState } from "../src/train/state.ts";

export interface Workload {
  readonly layers: number;
  readonly hidden: number;
  readonly heads: number;
  readonly kv: number;
  readonly ffn: number;
  readonly vocab: number;
  readonly batch: number;
  readonly seq: number;
}

const l8: Workload = { layers: 8, hidden: 512, heads: 8, kv: 4, ffn: 1408, vocab: 8192, batch: 8, seq: 512 };

export const workloads: Readonly<Record<string, Workload>> = {
  L8: l8,
  "L8-long": { ...l8, batch: 2, seq: 2048 },
  W: { ...l8, layers: 4, hidden: 1024, heads: 16, kv: 8, ffn: 2816 },
  /** Every dim of a linear layer is a multiple of 128, which some recipes and peers need. */
  tiny: { layers: 2, hidden: 256, heads: 2, kv: 1, ffn: 384, vocab: 256, batch: 2, seq: 64 },
};

export function workloadByName(name: string): Workload {
  const workload = workloads[name];
  if (workload) return workload;
  throw new UserError("E_WORKLOAD", `unknown workload "${name}"; known: ${Object.keys(workloads).join(", ")}`);
}

export function configOf(w: Workload): LlamaConfig {
  return {
    numLayers: w.layers,
    embDim: w.hidden,
    mlpDim: w.ffn,
    numHeads: w.heads,
    numKvHeads: w.kv,
    headDim: w.hidden / w.heads,
    vocabSize: w.vocab,
    ropeTheta: 10000,
    normEps: 1e-5,
    tieEmbeddings: false,
    dtype: "bfloat16",
  };
}

export interface WorkloadFiles {
  /** safetensors, float32 under Hugging Face names. */
  readonly init: string;
  /** Little-endian int32 [batches, batch, seq + 1]. */
  readonly tokens: string;
}

/** Writes initial weights and `numBatches` batches of a Markov-like token stream, which a model can learn. */
export async function writeWorkloadFiles(folder: string, w: Workload, numBatches: number): Promise<WorkloadFiles> {
  const files = { init: join(folder, "init.safetensors"), tokens: join(folder, "tokens.bin") };
  await writeSafetensors(files.init, llamaToHf(initialState(configOf(w), 0).params));
  let state = 12345;
  const draw = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
  const ids = new Int32Array(numBatches * w.batch * (w.seq + 1));
  for (let i = 1; i < ids.length; i++)
    ids[i] = draw() < 0.7 ? (ids[i - 1]! * 7 + 3) % w.vocab : Math.floor(draw() * w.vocab);
  await writeFile(files.tokens, new Uint8Array(ids.buffer));
  return files;
}

/** Batch `index` of the tokens file as inputs and next-token targets. */
export function batchOf(ids: Int32Array, w: Workload, index: number) {
  const row = w.seq + 1;
  const numBatches = ids.length / (w.batch * row);
  const start = (index % numBatches) * w.batch * row;
  const part = (shift: number) => {
    const data = new Int32Array(w.batch * w.seq);
    for (let b = 0; b < w.batch; b++)
      data.set(ids.subarray(start + b * row + shift, start + b * row + shift + w.seq), b * w.seq);
    return hostArray([w.batch, w.seq], "int32", data);
  };
  return { tokens: part(0), targets: part(1) };
}
