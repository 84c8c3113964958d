/** A golden Llama checkpoint as the tests use it: parameters, options, and arrays for batches. */
import { loadHfLlama } from "../../src/checkpoint/hfLlama.ts";
import { type HostArray, hostArray, treePaths } from "../../src/core/index.ts";
import { hfName } from "../../src/models/hfMapping.ts";
import type { LlamaOptions, LlamaTree } from "../../src/models/llama.ts";
import { bf16 } from "../../src/quant/index.ts";
import { type Golden, golden, goldenPath } from "../golden.ts";

export const llamaNames = ["llama_a_untied_llama3rope", "llama_b_tied_plainrope"] as const;
export type LlamaName = (typeof llamaNames)[number];

export interface GoldenLlama {
  readonly params: LlamaTree<HostArray>;
  readonly options: LlamaOptions;
  readonly golden: Golden;
}

const loaded = new Map<LlamaName, Promise<GoldenLlama>>();

/** Everything in float32: plain operands in the compute dtype. */
export function goldenLlama(name: LlamaName): Promise<GoldenLlama> {
  const load = async (): Promise<GoldenLlama> => {
    const { params, config } = await loadHfLlama(goldenPath(`06_models/${name}`), "float32");
    return { params, options: { config, precision: () => bf16 }, golden: await golden(`06_models/${name}/golden`) };
  };
  const known = loaded.get(name) ?? load();
  loaded.set(name, known);
  return known;
}

export interface Batch {
  readonly tokens: HostArray;
  readonly targets: HostArray;
  readonly weights: HostArray;
}

/** ids [rows, T] with the label of each position (−100: does not count), shifted by one as causal models learn. */
export function makeBatch(ids: readonly (readonly number[])[], labels = ids): Batch {
  const [rows, length] = [ids.length, ids[0]!.length];
  const next = labels.flatMap((row) => [...row.slice(1), -100]);
  return {
    tokens: hostArray([rows, length], "int32", Int32Array.from(ids.flat())),
    targets: hostArray(
      [rows, length],
      "int32",
      Int32Array.from(next, (id) => Math.max(id, 0)),
    ),
    weights: hostArray(
      [rows, length],
      "float32",
      Float32Array.from(next, (id) => (id === -100 ? 0 : 1)),
    ),
  };
}

/** The rows of a matrix of integers. */
export function rowsOf(values: ArrayLike<number>, length: number): number[][] {
  return Array.from({ length: values.length / length }, (_, i) =>
    Array.from({ length }, (_, j) => values[i * length + j]!),
  );
}

/** Largest absolute difference. */
export function maxDifference(got: ArrayLike<number>, wanted: ArrayLike<number>): number {
  if (got.length !== wanted.length) throw new Error(`${got.length} values against ${wanted.length}`);
  let most = 0;
  for (let i = 0; i < got.length; i++) {
    const difference = Math.abs(got[i]! - wanted[i]!);
    if (!(difference <= most)) most = difference; // NaN stays
  }
  return most;
}

/** ‖got − wanted‖ / ‖wanted‖ */
export function relativeNorm(got: ArrayLike<number>, wanted: ArrayLike<number>): number {
  let [error, norm] = [0, 0];
  for (let i = 0; i < wanted.length; i++) {
    error += (got[i]! - wanted[i]!) ** 2;
    norm += wanted[i]! ** 2;
  }
  return Math.sqrt(error / norm);
}

/** Arrays of a tree of parameters by their Hugging Face names. */
export function byHfName(tree: LlamaTree<HostArray>): Map<string, Float32Array> {
  return new Map(treePaths(tree).map(({ path, leaf }) => [hfName(path)!, (leaf as HostArray).data as Float32Array]));
}

export const scalarOf = (array: HostArray): number => Number(array.data[0]);
