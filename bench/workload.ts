/** The workloads of the benchmarks: sizes, and the files that give every peer the same weights and tokens. */
import { rmSync } from "node:fs";
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { UserError } from "../src/base/errors.ts";
import { nearest } from "../src/base/nearest.ts";
import { writeSafetensors } from "../src/checkpoint/safetensors.ts";
import { hostArray } from "../src/core/index.ts";
import { llamaToHf } from "../src/models/hfMapping.ts";
import type { LlamaConfig } from "../src/models/llama.ts";
import { initialParameters } from "../src/train/state.ts";

/** Sizes of a step. */
export interface Sizes {
  readonly layers: number;
  readonly hidden: number;
  readonly heads: number;
  readonly kv: number;
  readonly ffn: number;
  readonly vocab: number;
  readonly batch: number;
  readonly seq: number;
}

export interface Workload extends Sizes {
  readonly name: string;
  readonly dtype: "bfloat16" | "float32";
  /** The embedding is the head. */
  readonly tied: boolean;
  /** The forward pass and its loss alone. */
  readonly forward: boolean;
}

const l8: Sizes = { layers: 8, hidden: 512, heads: 8, kv: 4, ffn: 1408, vocab: 8192, batch: 8, seq: 512 };

const models: Readonly<Record<string, Sizes & { readonly tied?: true }>> = {
  L8: l8,
  "L8-long": { ...l8, batch: 2, seq: 2048 },
  W: { ...l8, layers: 4, hidden: 1024, heads: 16, kv: 8, ffn: 2816 },
  /** The shape of SmolLM2-135M. */
  S135: { layers: 30, hidden: 576, heads: 9, kv: 3, ffn: 1536, vocab: 49152, batch: 2, seq: 512, tied: true },
  /** Every dim of a linear layer is a multiple of 128, which some recipes and peers need. */
  tiny: { layers: 2, hidden: 256, heads: 2, kv: 1, ffn: 384, vocab: 256, batch: 2, seq: 64 },
};

/** Endings of a workload's name, in any order. */
const variants: Readonly<Record<string, Partial<Workload>>> = {
  fp32: { dtype: "float32" },
  eval: { forward: true },
  tied: { tied: true },
};

/** What `workloads=all` stands for. */
export const allWorkloads = ["L8", "L8-long", "S135", "W", "L8-fp32", "S135-eval"] as const;

/** A workload by its name: a model, with endings as in L8-fp32 (true FP32) and S135-eval (forward alone). */
export function workloadByName(name: string): Workload {
  const parts = name.split("-");
  const endings: Partial<Workload>[] = [];
  while (variants[parts.at(-1)!]) endings.push(variants[parts.pop()!]!);
  const model = models[parts.join("-")];
  if (model) return Object.assign({ name, tied: false, dtype: "bfloat16", forward: false }, model, ...endings);
  const near = nearest(name, [...Object.keys(models), ...allWorkloads]);
  const known = `known: ${Object.keys(models).join(", ")}, each with -${Object.keys(variants).join(", -")}`;
  throw new UserError("E_WORKLOAD", `unknown workload "${name}"; ${near ? `did you mean ${near}?` : known}`);
}

export function configOf(w: Sizes & Partial<Pick<Workload, "dtype" | "tied">>): LlamaConfig {
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
    tieEmbeddings: w.tied ?? false,
    dtype: w.dtype ?? "bfloat16",
  };
}

export interface WorkloadFiles {
  /** safetensors, float32 under Hugging Face names. */
  readonly init: string;
  /** Little-endian int32 [batches, batch, seq + 1]. */
  readonly tokens: string;
}

const numBatches = 4;

/** Calls `use` with the files of a workload, which exist until it is done, or a signal ends the process. */
export async function withWorkloadFiles<T>(w: Workload, use: (files: WorkloadFiles) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), "halfbyte-bench-"));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  const onSignal = () => {
    remove();
    process.exit(130); // The peers end with their input.
  };
  process.on("SIGINT", onSignal).on("SIGTERM", onSignal);
  try {
    return await use(await writeWorkloadFiles(folder, w));
  } finally {
    process.off("SIGINT", onSignal).off("SIGTERM", onSignal);
    remove();
  }
}

/** Writes initial weights and batches of a Markov-like token stream, which a model can learn. */
async function writeWorkloadFiles(folder: string, w: Workload): Promise<WorkloadFiles> {
  const files = { init: join(folder, "init.safetensors"), tokens: join(folder, "tokens.bin") };
  await writeSafetensors(files.init, llamaToHf(initialParameters(configOf(w), 0)));
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
export function batchOf(ids: Int32Array, w: Sizes, index: number) {
  const row = w.seq + 1;
  const start = (index % numBatches) * w.batch * row;
  const part = (shift: number) => {
    const data = new Int32Array(w.batch * w.seq);
    for (let b = 0; b < w.batch; b++)
      data.set(ids.subarray(start + b * row + shift, start + b * row + shift + w.seq), b * w.seq);
    return hostArray([w.batch, w.seq], "int32", data);
  };
  return { tokens: part(0), targets: part(1) };
}
