/**
 * A checkpoint of a training run: step-00000010/{params.safetensors, optimizer.safetensors, state.json, manifest.json}; of
 * several processes each has files of its own. Tensors lie per layer under Hugging Face's names, moments with "mu." and "nu."
 * in front. What is not finite is never saved, and what is damaged never loaded.
 */
import { join } from "node:path";
import { HalfbyteError, UserError } from "../base/errors.ts";
import { type HostArray, treeMap } from "../core/index.ts";
import { checkHfTensors, hfNames, llamaFromHf, llamaToHf } from "../models/hfMapping.ts";
import type { LlamaConfig, LlamaTree } from "../models/llama.ts";
import type { DeviceArray } from "../pjrt/index.ts";
import type { DelayedScalingState } from "../quant/index.ts";
import { notFiniteAt } from "./notFinite.ts";
import {
  onlyWriter,
  openShards,
  pieceName,
  piecesToWrite,
  type ShardStem,
  shardName,
  type Writer,
} from "./processShards.ts";
import { exportedProvenance, type Progress, provenanceKey, readProgress } from "./progress.ts";
import { deleteOlder, type Retention } from "./retention.ts";
import { notWritable } from "./runFolder.ts";
import { type LazyArray, type SafetensorsFile, writeSafetensors } from "./safetensors.ts";
import { type CheckpointPlace, checkpointPath } from "./stepFolders.ts";
import { type FileRecord, removeLeftovers, writeJson, writeWholeFolder } from "./wholeFolder.ts";

/** The arrays of a checkpoint: float32 parameters and moments, and the number of updates (int32 scalar). */
export interface CheckpointArrays<Leaf> {
  readonly params: LlamaTree<Leaf>;
  readonly optimizer: { readonly count: Leaf; readonly mu: LlamaTree<Leaf>; readonly nu: LlamaTree<Leaf> };
  /** Where the loss is scaled: the scale (float32 scalar) and the good steps since it changed (int32 scalar). */
  readonly lossScale?: { readonly scale: Leaf; readonly goodSteps: Leaf };
  /** Where scales are delayed: float32 scales in force [layers, modules, 3] and histories [layers, modules, 3, length]. */
  readonly delayedScaling?: DelayedScalingState<Leaf>;
}

/** What else the optimizer's file holds under which names. */
const extraNames = {
  lossScale: { scale: "loss_scale", goodSteps: "loss_scale_good_steps" },
  delayedScaling: { scales: "delayed_scaling.scales", history: "delayed_scaling.amax_history" },
} as const;

/**
 * Saves a checkpoint, on disk when this resolves, and deletes the older ones that `retention` lets go. Device arrays are fetched one or
 * two at a time. @throws HalfbyteError where a value is not finite or the disk refuses; earlier checkpoints stay as they were
 */
export async function saveCheckpoint(
  checkpoints: string,
  arrays: CheckpointArrays<DeviceArray | HostArray>,
  progress: Progress,
  retention: Retention = {},
): Promise<CheckpointPlace> {
  const path = checkpointPath(checkpoints, progress.step);
  try {
    await removeLeftovers(checkpoints);
    await writeWholeFolder(path, (folder) => writeCheckpointFiles(folder, arrays, progress, onlyWriter));
    await deleteOlder(checkpoints, progress.step, retention);
  } catch (error) {
    throw notWritable(path, error);
  }
  return { step: progress.step, path };
}

/**
 * Writes what one of the processes of a run has to write of a checkpoint: the pieces of arrays that are its part, and the
 * first one state.json. What all of them return together is the folder's manifest. Arrays on a mesh are cut as they lie there.
 */
export async function writeCheckpointFiles(
  folder: string,
  { params, optimizer, lossScale, delayedScaling }: CheckpointArrays<DeviceArray | HostArray>,
  progress: Progress,
  writer: Writer,
): Promise<Record<string, FileRecord>> {
  const [ofParams, ofOptimizer] = [shardName("params", writer), shardName("optimizer", writer)];
  const moments = (name: string, tree: LlamaTree<DeviceArray | HostArray>) =>
    llamaToHf(tree).map(([key, leaf]) => [`${name}.${key}`, leaf] as const);
  // At once: one is flushed while the other is hashed.
  const [paramsRecord, optimizerRecord] = await bothDone(
    writeSafetensors(join(folder, ofParams), finiteEntries(llamaToHf(params), writer), {
      format: "pt",
      [provenanceKey]: JSON.stringify(exportedProvenance(progress)),
    }),
    writeSafetensors(
      join(folder, ofOptimizer),
      finiteEntries(
        [
          ["count", optimizer.count],
          ...moments("mu", optimizer.mu),
          ...moments("nu", optimizer.nu),
          ...(lossScale ? namedArrays(extraNames.lossScale, lossScale) : []),
          ...(delayedScaling ? namedArrays(extraNames.delayedScaling, delayedScaling) : []),
        ],
        writer,
      ),
    ),
  );
  return {
    [ofParams]: paramsRecord,
    [ofOptimizer]: optimizerRecord,
    ...(writer.index === 0 && {
      "state.json": await writeJson(join(folder, "state.json"), { format: 1, ...progress }),
    }),
  };
}

/** Results when neither goes on any more. @throws what the first of them failed with */
async function bothDone<T>(one: Promise<T>, other: Promise<T>): Promise<[T, T]> {
  await Promise.allSettled([one, other]);
  return [await one, await other];
}

type NamedArray = readonly [string, DeviceArray | HostArray];

/** The arrays of an object under their names in the file. */
const namedArrays = <K extends string>(
  names: Readonly<Record<K, string>>,
  arrays: Readonly<Record<K, DeviceArray | HostArray>>,
): NamedArray[] => (Object.keys(names) as K[]).map((key) => [names[key], arrays[key]]);

/** What a process writes of arrays, fetched, and looked through, when its turn comes. */
function finiteEntries(arrays: readonly NamedArray[], writer: Writer): [string, LazyArray][] {
  return arrays.flatMap(([name, array], turn) => {
    const sharding = "data" in array ? undefined : array.sharding;
    return piecesToWrite(array, sharding, writer, turn).map((piece): [string, LazyArray] => {
      const key = pieceName(name, piece);
      const { shape, device } = piece;
      const load = async () => finite(key, "data" in array ? array : await array.toHost(device));
      return [key, { shape, dtype: array.dtype, load }];
    });
  });
}

/** @throws HalfbyteError where a value is not finite */
function finite(name: string, array: HostArray): HostArray {
  const index = array.dtype === "float32" ? notFiniteAt(array.data as Float32Array) : -1;
  if (index < 0) return array;
  const problem = `value ${index} of ${name} is ${array.data[index]}`;
  throw new HalfbyteError("E_NOT_FINITE", `not saved: ${problem}; a state that is not finite can't be resumed`);
}

export interface LoadedCheckpoint extends CheckpointArrays<HostArray> {
  readonly progress: Progress;
}

/** Loads a checkpoint, to the bit. @throws UserError where it does not hold a state of this model */
export async function loadCheckpoint(path: string, config: LlamaConfig): Promise<LoadedCheckpoint> {
  const progress = readProgress(join(path, "state.json"));
  const params = await loadCheckpointParameters(path, config);
  const others = await withShards(path, "optimizer", async (file) => {
    const moments = async (name: string): Promise<LlamaTree<HostArray>> => {
      const arrays = new Map<string, HostArray>();
      for (const [, key] of llamaToHf(hfNames(config))) arrays.set(key, await readFinite(file, `${name}.${key}`));
      return treeMap((key: string) => arrays.get(key), hfNames(config));
    };
    const optimizer = { count: await file.read("count"), mu: await moments("mu"), nu: await moments("nu") };
    return {
      optimizer,
      ...(file.tensors.has(extraNames.lossScale.scale) && {
        lossScale: {
          scale: await readFinite(file, extraNames.lossScale.scale),
          goodSteps: await file.read(extraNames.lossScale.goodSteps),
        },
      }),
      ...(file.tensors.has(extraNames.delayedScaling.scales) && {
        delayedScaling: {
          scales: await readFinite(file, extraNames.delayedScaling.scales),
          history: await readFinite(file, extraNames.delayedScaling.history),
        },
      }),
    };
  });
  return { params, ...others, progress };
}

/** The parameters alone. @throws UserError where they are not this model's */
export function loadCheckpointParameters(path: string, config: LlamaConfig): Promise<LlamaTree<HostArray>> {
  return withShards(path, "params", async (file) => {
    checkHfTensors(config, file.tensors);
    return llamaFromHf(config, (name) => readFinite(file, name));
  });
}

async function readFinite(file: SafetensorsFile, name: string): Promise<HostArray> {
  const array = await file.read(name);
  if (array.dtype !== "float32")
    throw new UserError("E_CHECKPOINT", `${file.path}: "${name}" is ${array.dtype}, not float32`);
  const index = notFiniteAt(array.data as Float32Array);
  if (index < 0) return array;
  throw new UserError("E_CHECKPOINT", `${file.path}: value ${index} of "${name}" is ${array.data[index]}`);
}

async function withShards<T>(folder: string, stem: ShardStem, use: (file: SafetensorsFile) => Promise<T>): Promise<T> {
  const file = await openShards(folder, stem);
  return use(file).finally(() => file.close());
}
