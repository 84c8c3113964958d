/** The state before the first step, on its device: made a piece at a time, so that what runs beside it (a compilation, signals) is not held up. */
import { setImmediate } from "node:timers/promises";
import {
  type HostArray,
  hostArray,
  type Spec,
  sizeOf,
  treeLeaves,
  treeMap,
  treePaths,
  treeUnflatten,
} from "../core/index.ts";
import { llamaSpecs } from "../models/hfMapping.ts";
import type { LlamaConfig, LlamaTree } from "../models/llama.ts";
import { type Client, type DeviceArray, put } from "../pjrt/index.ts";
import { fillInitial, type StateExtras, startingState, type TrainState } from "./state.ts";

/** Elements that are drawn in a turn of the event loop: two or three milliseconds. */
const drawnAtOnce = 1 << 16;

/** What a run begins with: weights that are there, or those of a seed. */
export type FirstWeights = LlamaTree<HostArray> | { readonly seed: number };

/**
 * As `putTree` of a starting state, to the bit. No state is built up in host memory: one array's worth serves all that is
 * drawn, another one all zeros, since the device has its copy when `put` returns.
 */
export async function putStartingState(
  config: LlamaConfig,
  weights: FirstWeights,
  { extras, client }: { readonly extras: StateExtras; readonly client: Client },
): Promise<TrainState<DeviceArray>> {
  const specs = llamaSpecs(config);
  const largest = Math.max(...treeLeaves<Spec>(specs).map(({ shape }) => sizeOf(shape)));
  const [drawn, zeros] = [new Float32Array(largest), new Float32Array(largest)];
  const viewOf = (memory: Float32Array, { shape }: Spec) =>
    hostArray(shape, "float32", memory.subarray(0, sizeOf(shape)));
  const draw = async (spec: Spec, path: string, seed: number) => {
    const view = viewOf(drawn, spec);
    const values = view.data as Float32Array;
    for (let from = 0; from < values.length; from += drawnAtOnce) {
      fillInitial(values, { spec, path, seed, config }, { from, to: Math.min(values.length, from + drawnAtOnce) });
      await setImmediate();
    }
    return view;
  };
  const zeroTree = () => treeMap<LlamaTree<HostArray>>((spec: Spec) => viewOf(zeros, spec), specs);
  const drawnArrays: DeviceArray[] = [];
  if ("seed" in weights) {
    for (const { path, leaf } of treePaths(specs)) {
      drawnArrays.push(put(await draw(leaf as Spec, path, weights.seed), client));
    }
  }
  // In the order of the tree, where the weights come first; values of those that were drawn are there already.
  const params = "seed" in weights ? zeroTree() : weights;
  return putState(startingState(config, params, extras, zeroTree), client, drawnArrays);
}

/** As `putTree`, with a turn of the event loop after each array. @param first arrays that are there already */
export async function putState(
  state: TrainState<HostArray>,
  client: Client,
  first: readonly DeviceArray[] = [],
): Promise<TrainState<DeviceArray>> {
  const arrays = [...first];
  try {
    for (const leaf of treeLeaves<HostArray>(state).slice(first.length)) {
      arrays.push(put(leaf, client));
      await setImmediate();
    }
    return treeUnflatten<TrainState<DeviceArray>>(state, arrays);
  } catch (error) {
    for (const array of arrays) array.dispose();
    throw error;
  }
}
