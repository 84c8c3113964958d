/**
 * Checkpoints of a training run: step-00000010/{params.safetensors, optimizer.safetensors, state.json, manifest.json}.
 * Tensors lie per layer under Hugging Face's names, moments with "mu." and "nu." in front. What is not finite is never
 * saved, and what is damaged never loaded.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { HalfbyteError, UserError } from "../base/errors.ts";
import { type HostArray, treeMap } from "../core/index.ts";
import { checkHfTensors, hfNames, llamaFromHf, llamaToHf } from "../models/hfMapping.ts";
import type { LlamaConfig, LlamaTree } from "../models/llama.ts";
import type { DeviceArray } from "../pjrt/index.ts";
import type { DelayedScalingState } from "../quant/index.ts";
import { expendableSteps, type Retention } from "./retention.ts";
import { notWritable } from "./runFolder.ts";
import { type LazyArray, openSafetensors, type SafetensorsFile, writeSafetensors } from "./safetensors.ts";
import { faultOf, looksWhole, removeFolder, removeLeftovers, writeJson, writeWholeFolder } from "./wholeFolder.ts";

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

/** What computed a run. Earlier checkpoints lack some of it, and it has more that only people read. */
const provenanceSchema = z.looseObject({
  /** The recipe by its name, its switches as settings, and what each GEMM computes by it. */
  recipe: z.string(),
  switches: z.record(z.string(), z.union([z.string(), z.number()])).optional(),
  gemms: z.record(z.string(), z.unknown()).optional(),
  /** Where the recipe applies. */
  policy: z.string().optional(),
  firstLayersBf16: z.int().optional(),
  lastLayersBf16: z.int().optional(),
  /** "layers.*.attn.*=bf16", the last that fits counts. */
  overrides: z.array(z.string()).optional(),
  /** The precision of the steps from each phase's first on. */
  phases: z.array(z.object({ firstStep: z.int(), precision: z.string() })).optional(),
  seeds: z.record(z.string(), z.number()).optional(),
  /** The native kernels in use: instruction set and hash, or "none". */
  nativeKernels: z.string().optional(),
});

const progressSchema = z.object({
  format: z.literal(1),
  /** Steps done; the next one is step + 1, and data and random draws follow from it. */
  step: z.int().nonnegative(),
  /** Steps that were skipped because something was not finite, overflows apart: since the last good one, and in all. */
  skippedInARow: z.int().nonnegative(),
  skippedSteps: z.int().nonnegative(),
  /** Steps that were skipped because a gradient overflowed float16, and the loss scale fell. */
  overflowSteps: z.int().nonnegative().default(0),
  /** Fingerprints of what the bits of the run depend on beside its settings. */
  data: z.record(z.string(), z.union([z.string(), z.number()])),
  /** Steps done in each precision, by its name, over all the times the run was resumed. */
  stepsByPrecision: z.record(z.string(), z.int().nonnegative()).optional(),
  provenance: provenanceSchema,
});

/**
 * Where the parameters' file says what it was computed with, for whoever has the file alone: it is an export as it is, under
 * Hugging Face's names, and what is made of it keeps these words.
 */
export const provenanceKey = "halfbyte.provenance";

const exportedProvenance = ({ step, stepsByPrecision, provenance }: Progress) => ({
  step,
  ...(stepsByPrecision && { stepsByPrecision }),
  ...provenance,
});

/** What a checkpoint knows beside its arrays: state.json. */
export type Progress = Omit<z.infer<typeof progressSchema>, "format">;

export interface CheckpointPlace {
  readonly step: number;
  readonly path: string;
}

export function checkpointPath(checkpoints: string, step: number): string {
  return join(checkpoints, `step-${String(step).padStart(8, "0")}`);
}

/** The checkpoints in a folder by step, whole or not. */
export function listCheckpoints(checkpoints: string): CheckpointPlace[] {
  if (!existsSync(checkpoints)) return [];
  return readdirSync(checkpoints)
    .flatMap((name) => {
      const [, step] = /^step-(\d+)$/.exec(name) ?? [];
      return step === undefined ? [] : [{ step: Number(step), path: join(checkpoints, name) }];
    })
    .sort((a, b) => a.step - b.step);
}

/**
 * The newest checkpoint that is whole, or undefined. @param onDamaged told of newer ones that are not, and why
 */
export async function newestCheckpoint(
  checkpoints: string,
  onDamaged: (place: CheckpointPlace, fault: string) => void,
): Promise<CheckpointPlace | undefined> {
  for (const place of listCheckpoints(checkpoints).reverse()) {
    const fault = await faultOf(place.path);
    if (fault === undefined) return place;
    onDamaged(place, fault);
  }
  return undefined;
}

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
  const { params, optimizer, lossScale, delayedScaling } = arrays;
  const moments = (name: string, tree: LlamaTree<DeviceArray | HostArray>) =>
    llamaToHf(tree).map(([key, leaf]) => finiteEntry(`${name}.${key}`, leaf));
  try {
    await removeLeftovers(checkpoints);
    await writeWholeFolder(path, async (folder) => {
      // At once: one is flushed while the other is hashed.
      const [ofParams, ofOptimizer] = await bothDone(
        writeSafetensors(
          join(folder, "params.safetensors"),
          llamaToHf(params).map(([key, leaf]) => finiteEntry(key, leaf)),
          { format: "pt", [provenanceKey]: JSON.stringify(exportedProvenance(progress)) },
        ),
        writeSafetensors(join(folder, "optimizer.safetensors"), [
          finiteEntry("count", optimizer.count),
          ...moments("mu", optimizer.mu),
          ...moments("nu", optimizer.nu),
          ...(lossScale ? entriesOf(extraNames.lossScale, lossScale) : []),
          ...(delayedScaling ? entriesOf(extraNames.delayedScaling, delayedScaling) : []),
        ]),
      );
      return {
        "params.safetensors": ofParams,
        "optimizer.safetensors": ofOptimizer,
        "state.json": await writeJson(join(folder, "state.json"), { format: 1, ...progress }),
      };
    });
    await deleteOlder(checkpoints, retention);
  } catch (error) {
    throw notWritable(path, error);
  }
  return { step: progress.step, path };
}

/** Results when neither goes on any more. @throws what the first of them failed with */
async function bothDone<T>(one: Promise<T>, other: Promise<T>): Promise<[T, T]> {
  await Promise.allSettled([one, other]);
  return [await one, await other];
}

/** Only whole ones count: damaged ones are no checkpoints and nothing that may be deleted unasked. */
async function deleteOlder(checkpoints: string, retention: Retention): Promise<void> {
  if (retention.last === undefined) return;
  const whole = listCheckpoints(checkpoints).filter(({ path }) => looksWhole(path));
  const steps = whole.map(({ step }) => step);
  for (const step of expendableSteps(steps, retention)) await removeFolder(checkpointPath(checkpoints, step));
}

/** The arrays of an object under their names in the file. */
function entriesOf<K extends string>(
  names: Readonly<Record<K, string>>,
  arrays: Readonly<Record<K, DeviceArray | HostArray>>,
): [string, LazyArray][] {
  return (Object.keys(names) as K[]).map((key) => finiteEntry(names[key], arrays[key]));
}

/** An array to write that is fetched, and looked through, when its turn comes. */
function finiteEntry(name: string, array: DeviceArray | HostArray): [string, LazyArray] {
  const { shape, dtype } = array;
  const load = async () => {
    const host = "data" in array ? array : await array.toHost();
    const index = host.dtype === "float32" ? notFiniteAt(host.data as Float32Array) : -1;
    if (index >= 0) {
      const problem = `value ${index} of ${name} is ${host.data[index]}`;
      throw new HalfbyteError("E_NOT_FINITE", `not saved: ${problem}; a state that is not finite can't be resumed`);
    }
    return host;
  };
  return [name, { shape, dtype, load }];
}

/** Index of the first value that is NaN or infinite, or -1. */
export function notFiniteAt(values: Float32Array): number {
  // A number times 0 is 0, and anything else NaN: four sums at once, without branches, take half the time of asking.
  let [a, b, c, d] = [0, 0, 0, 0];
  const fours = values.length & ~3;
  for (let i = 0; i < fours; i += 4) {
    a += values[i]! * 0;
    b += values[i + 1]! * 0;
    c += values[i + 2]! * 0;
    d += values[i + 3]! * 0;
  }
  const checked = a + b + c + d === 0 ? fours : 0;
  for (let i = checked; i < values.length; i++) if (!Number.isFinite(values[i])) return i;
  return -1;
}

export interface LoadedCheckpoint extends CheckpointArrays<HostArray> {
  readonly progress: Progress;
}

/** Loads a checkpoint, to the bit. @throws UserError where it does not hold a state of this model */
export async function loadCheckpoint(path: string, config: LlamaConfig): Promise<LoadedCheckpoint> {
  const progress = readProgress(join(path, "state.json"));
  const params = await loadCheckpointParameters(path, config);
  const others = await withFile(join(path, "optimizer.safetensors"), async (file) => {
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
  return withFile(join(path, "params.safetensors"), async (file) => {
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

async function withFile<T>(path: string, use: (file: SafetensorsFile) => Promise<T>): Promise<T> {
  const file = await openSafetensors(path);
  return use(file).finally(() => file.close());
}

function readProgress(path: string): Progress {
  const parsed = progressSchema.safeParse(JSON.parse(readFileSync(path, "utf8")));
  if (!parsed.success) {
    const issue = parsed.error.issues[0]!;
    throw new UserError("E_CHECKPOINT", `${path}: ${issue.path.join(".")}: ${issue.message}`);
  }
  const { format: _, ...progress } = parsed.data;
  return progress;
}
