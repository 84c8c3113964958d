/** What a run carries from step to step, and how it begins. */
import { UserError } from "../base/errors.ts";
import type { CheckpointArrays } from "../checkpoint/index.ts";
import { type HostArray, hostArray, type Spec, sameShape, type Tensor, treeMap } from "../core/index.ts";
import { hashInts, hashString, mix32 } from "../data/hash.ts";
import { llamaSpecs } from "../models/hfMapping.ts";
import type { LlamaConfig, LlamaTree } from "../models/llama.ts";
import type { LossScaleSettings, LossScaleState } from "../optim/index.ts";
import {
  type DelayedScaling,
  type DelayedScalingState,
  delayedScalingSpecs,
  initialDelayedScaling,
} from "../quant/index.ts";

/** What the optimizer keeps. */
export interface OptimizerState<Leaf> {
  /** int32 scalar: updates made; skipped steps do not count. */
  readonly count: Leaf;
  readonly mu: LlamaTree<Leaf>;
  readonly nu: LlamaTree<Leaf>;
}

/** Float32 masters and moments. */
export interface TrainState<Leaf = Tensor> {
  readonly params: LlamaTree<Leaf>;
  readonly optimizer: OptimizerState<Leaf>;
  /** Where the loss is scaled. */
  readonly lossScale?: LossScaleState<Leaf>;
  /** Where scales are delayed. */
  readonly delayedScaling?: DelayedScalingState<Leaf>;
}

/** What a state has beside weights and moments. */
export interface StateExtras {
  readonly lossScale?: LossScaleSettings;
  readonly delayedScaling?: DelayedScaling;
}

const initialStd = 0.02;

/** The state before the first step, a function of the model and the seed alone. */
export function initialState(config: LlamaConfig, seed: number, extras?: StateExtras): TrainState<HostArray> {
  return startingState(config, initialParameters(config, seed), extras);
}

/**
 * Weights before the first step. Matrices are normal with standard deviation 0.02, those that write to the residual stream
 * (o, down) divided by sqrt(2·layers); norm weights are 1.
 */
export function initialParameters(config: LlamaConfig, seed: number): LlamaTree<HostArray> {
  return treeMap((spec: Spec, path: string) => initialTensor(spec, path, seed, config), llamaSpecs(config));
}

/** The state before the first step, from given weights. @param zeros makes a moment of each parameter */
export function startingState(
  config: LlamaConfig,
  params: LlamaTree<HostArray>,
  { lossScale, delayedScaling }: StateExtras = {},
  zeros = () => treeMap<LlamaTree<HostArray>>(zeroArray, llamaSpecs(config)),
): TrainState<HostArray> {
  const optimizer = { count: hostArray([], "int32", new Int32Array(1)), mu: zeros(), nu: zeros() };
  return {
    params,
    optimizer,
    ...(lossScale && { lossScale: initialLossScale(lossScale) }),
    ...(delayedScaling && { delayedScaling: initialDelayedScaling(delayedScaling) }),
  };
}

/** The state of another run's checkpoint, in this run's precision: what its precision has no use for is left, what it lacks begins anew. */
export function adoptedState(
  { params, optimizer, lossScale, delayedScaling: saved }: CheckpointArrays<HostArray>,
  { lossScale: scaling, delayedScaling: wanted }: StateExtras,
): TrainState<HostArray> {
  const sameHistory =
    saved && wanted && sameShape(saved.history.shape, delayedScalingSpecs(wanted).history.shape) ? saved : undefined;
  return {
    params,
    optimizer,
    ...(scaling && { lossScale: lossScale ?? initialLossScale(scaling) }),
    ...(wanted && { delayedScaling: sameHistory ?? initialDelayedScaling(wanted) }),
  };
}

/**
 * The state that a checkpoint holds. @throws UserError where it has no scales and histories of this precision, or those of
 * another
 */
export function resumedState(
  { params, optimizer, lossScale, delayedScaling: saved }: CheckpointArrays<HostArray>,
  { delayedScaling: wanted }: StateExtras,
): TrainState<HostArray> {
  const shapeOf = (specs?: DelayedScalingState<Spec>) => (specs ? `[${specs.history.shape}]` : "none");
  const [found, needed] = [shapeOf(saved), shapeOf(wanted && delayedScalingSpecs(wanted))];
  if (found !== needed) {
    throw new UserError(
      "E_CHECKPOINT",
      `the checkpoint was saved with another precision: its histories of delayed scaling are ${found}, this run's ${needed}; to change the precision, begin a new run with load_full_state_path or load_parameters_path`,
    );
  }
  return { params, optimizer, ...(lossScale && { lossScale }), ...(saved && { delayedScaling: saved }) };
}

function initialLossScale({ initial }: LossScaleSettings): LossScaleState<HostArray> {
  return {
    scale: hostArray([], "float32", Float32Array.of(initial)),
    goodSteps: hostArray([], "int32", new Int32Array(1)),
  };
}

function zeroArray({ shape }: Spec): HostArray {
  return hostArray(shape, "float32", new Float32Array(shape.reduce((a, b) => a * b, 1)));
}

function initialTensor(spec: Spec, path: string, seed: number, config: LlamaConfig): HostArray {
  const array = zeroArray(spec);
  fillInitial(array.data as Float32Array, { spec, path, seed, config });
  return array;
}

/** A parameter before the first step. */
export interface InitialTensor {
  readonly spec: Spec;
  /** In the tree of parameters. */
  readonly path: string;
  readonly seed: number;
  readonly config: LlamaConfig;
}

/** Elements of an array: from an even number on, up to `to`. */
interface Stretch {
  readonly from: number;
  readonly to: number;
}

/** Gives elements of a parameter's array their first values. */
export function fillInitial(
  data: Float32Array,
  { spec, path, seed, config }: InitialTensor,
  stretch: Stretch = { from: 0, to: data.length },
): void {
  if (spec.shape.length === 1) {
    data.fill(1, stretch.from, stretch.to);
    return;
  }
  const isResidual = path.endsWith(".o") || path.endsWith(".down");
  const std = isResidual ? initialStd / Math.sqrt(2 * config.numLayers) : initialStd;
  fillNormal(data, std, hashInts(seed, hashString(path)), stretch);
}

/** Normal values by Box and Muller from counted random bits: element i depends on the key and i alone. */
export function fillNormal(
  data: Float32Array,
  std: number,
  key: number,
  { from, to }: Stretch = { from: 0, to: data.length },
): void {
  const second = mix32(key ^ 0x5bd1e995);
  for (let i = from; i < to; i += 2) {
    // In (0, 1): the logarithm is finite.
    const u = (mix32(mix32(i + key) ^ second) + 0.5) / 2 ** 32;
    const v = (mix32(mix32(i + 1 + key) ^ second) + 0.5) / 2 ** 32;
    const radius = std * Math.sqrt(-2 * Math.log(u));
    data[i] = radius * Math.cos(2 * Math.PI * v);
    if (i + 1 < to) data[i + 1] = radius * Math.sin(2 * Math.PI * v);
  }
}
