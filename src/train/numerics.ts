/**
 * Telemetry of the numbers: what quantization does to each tensor of each linear layer in a step, and what it does to the
 * gradients. Programs of their own compute it from what the step is about to read, so training's bits do not depend on it.
 */
import { grad } from "../autodiff/index.ts";
import {
  full,
  type HostArray,
  hostArray,
  optimizationBarrier,
  stack,
  type Tensor,
  treeLeaves,
  treePaths,
  treeUnflatten,
} from "../core/index.ts";
import type { Batch } from "../data/index.ts";
import { type Compiled, disposeTree, fetchTree, jit } from "../jit/index.ts";
import type { GradientRecord, NumericsRecord, SiteRecord } from "../metrics/index.ts";
import { type LlamaBatch, type LlamaOptions, type LlamaParams, llamaLoss, llamaModules } from "../models/llama.ts";
import type { Client, DeviceArray } from "../pjrt/index.ts";
import {
  bf16,
  firstQuantized,
  formatName,
  linearTensors,
  quantizesAnything,
  type StatisticName,
  statisticNames,
  tapsOfScales,
} from "../quant/index.ts";
import { withScales } from "./modelState.ts";
import type { RunPlan } from "./plan.ts";
import type { TrainState } from "./state.ts";
import { stepOptions } from "./step.ts";

/** Which steps are measured, and whether their gradients are compared with BF16's. */
export interface TelemetryPlan {
  /** Steps between measurements; the last step is measured in any case. */
  readonly period: number;
  readonly gradientCosine: boolean;
}

/** What the programs read beside the weights. */
export interface NumericsInput {
  /** The first micro-batch, [B, T]. */
  readonly batch: LlamaBatch;
  /** uint32 scalar */
  readonly step: Tensor;
  /** float32 scalar: what the step divides the loss's sum by, the weight of its whole batch. */
  readonly divisor: Tensor;
  /** float32 scalar, where the loss is scaled. */
  readonly lossScale?: Tensor;
  /** float32 [layers, modules, 3], where scales are delayed: those in force. */
  readonly scales?: Tensor;
}

type ModelOptions = Omit<LlamaOptions, "random" | "taps" | "segments">;

/** The loss that the step takes the gradient of, as far as its first micro-batch goes. */
function partLoss(
  params: LlamaParams,
  { batch, step, divisor, lossScale }: NumericsInput,
  options: LlamaOptions & { readonly seed: number },
): Tensor {
  const { seed, ...model } = options;
  const loss = llamaLoss(params, batch, { ...model, random: { seed, step, microBatch: 0 } }).lossSum.div(divisor);
  return lossScale === undefined ? loss : loss.mul(lossScale);
}

/** float32 [layers, modules, 3, statistics]: of x, W and dy of each linear layer. */
export function siteStatisticsOf(model: ModelOptions, seed: number) {
  return (params: LlamaParams, input: NumericsInput): Tensor => {
    const shape = [llamaModules.length, linearTensors.length, statisticNames.length];
    const probes = Array.from({ length: model.config.numLayers }, () => full(shape, 0, "float32"));
    const scales = input.scales && tapsOfScales(input.scales);
    const loss = (probes: readonly Tensor[]) =>
      partLoss(params, input, { ...model, seed, taps: probes.map((probe, layer) => ({ probe, ...scales?.[layer] })) });
    return stack(grad(loss)(probes), 0);
  };
}

/** float32 [parameters, 3]: g·b, |g|² and |b|² of each gradient g and that of BF16, b; in the order of `treePaths(params)`. */
export function gradientAgreement(model: ModelOptions, seed: number) {
  return (params: LlamaParams, input: NumericsInput): Tensor => {
    const options = { ...withScales(model, input.scales), seed };
    const own = grad((params: LlamaParams) => partLoss(params, input, options))(params);
    // One after the other, so that the activations of one are kept at a time.
    const [first, ...gradients] = optimizationBarrier([...treeLeaves<Tensor>(params), ...treeLeaves<Tensor>(own)]);
    const weights = [first!, ...gradients.splice(0, treeLeaves(params).length - 1)];
    const again = treeUnflatten<LlamaParams>(params, weights);
    const plain = grad((params: LlamaParams) => partLoss(params, input, { ...model, seed, precision: () => bf16 }))(
      again,
    );
    const rows = treeLeaves<Tensor>(plain).map((b, i) => {
      const g = gradients[i]!;
      return stack([g.mul(b).sum(), g.mul(g).sum(), b.mul(b).sum()], 0);
    });
    return stack(rows, 0);
  };
}

/** Measures steps; owns its compiled programs: `dispose` it. */
export interface Numerics {
  isDue(step: number): boolean;
  /** The programs to compile before the first step, by name, for weights and a batch of these shapes. */
  readonly programs: readonly { readonly name: string; readonly program: NumericsProgram }[];
  /** Arguments of the programs: what step `step` is about to read. */
  arguments(state: TrainState<DeviceArray>, batch: Batch, step: number): readonly [unknown, unknown];
  measure(state: TrainState<DeviceArray>, batch: Batch, step: number): Promise<NumericsRecord>;
  dispose(): void;
}

type NumericsProgram = Compiled<[LlamaParams, NumericsInput], Tensor>;

/** The numerics of a plan; undefined where it asks for none. */
export function makeNumerics(plan: RunPlan, client?: Client): Numerics | undefined {
  const { telemetry, steps, seeds } = plan;
  if (telemetry === undefined) return undefined;
  const { config, precision, remat, zLoss = 0 } = stepOptions(plan);
  // Scanned whatever the step does: the bits are the same, and a program compiles in a fraction of the time.
  const model: ModelOptions = { config, precision, ...(remat && { remat }), scanLayers: true, zLoss };
  const compile = (name: string, f: (params: LlamaParams, input: NumericsInput) => Tensor): NumericsProgram =>
    jit(f, { name, ...(client && { client }) });
  const statistics = compile("numerics", siteStatisticsOf(model, seeds.rounding));
  const agreement =
    telemetry.gradientCosine && quantizesAnything(plan.precision, llamaModules)
      ? compile("gradient_cosine", gradientAgreement(model, seeds.rounding))
      : undefined;
  const argumentsOf = ({ params, lossScale, delayedScaling }: TrainState<DeviceArray>, batch: Batch, step: number) =>
    [
      params,
      {
        batch: firstMicroBatch(batch, plan.batchSize),
        step: scalar("uint32", Uint32Array.of(step)),
        divisor: scalar("float32", Float32Array.of(Math.max(1, batch.validTokens))),
        ...(lossScale && { lossScale: lossScale.scale }),
        ...(delayedScaling && { scales: delayedScaling.scales }),
      },
    ] as const;
  return {
    isDue: (step) => step % telemetry.period === 0 || step === steps,
    programs: [
      { name: "numerics", program: statistics },
      ...(agreement ? [{ name: "gradient_cosine", program: agreement }] : []),
    ],
    arguments: argumentsOf,
    async measure(state, batch, step) {
      const begin = performance.now();
      const given = argumentsOf(state, batch, step);
      const values = await valuesOf(statistics, given);
      const sums = agreement && (await valuesOf(agreement, given));
      const [scale] = state.lossScale ? ((await state.lossScale.scale.toHost()).data as Float32Array) : [];
      const sites = siteRecords(values, plan);
      const notFinite = notFiniteSites(sites);
      return {
        step,
        seconds: (performance.now() - begin) / 1000,
        sites,
        ...(sums && { gradients: gradientRecords(sums, state.params) }),
        ...(scale !== undefined && { lossScale: scale }),
        ...(notFinite.length > 0 && { notFinite }),
      };
    },
    dispose() {
      statistics.dispose();
      agreement?.dispose();
    },
  };
}

const scalar = (dtype: "uint32" | "float32", data: Uint32Array | Float32Array): HostArray => hostArray([], dtype, data);

async function valuesOf(program: NumericsProgram, given: ReturnType<Numerics["arguments"]>): Promise<Float32Array> {
  const result = await program(...(given as Parameters<NumericsProgram>));
  const { data } = await fetchTree(result);
  disposeTree(result);
  return data as Float32Array;
}

/** The first B sequences of a step's batch. */
function firstMicroBatch({ tokens, targets, mask, segments }: Batch, batchSize: number) {
  const length = tokens.shape[1]!;
  const rows = ({ dtype, data }: HostArray): HostArray =>
    hostArray([batchSize, length], dtype, data.slice(0, batchSize * length) as never);
  const weights = mask ?? hostArray([...tokens.shape], "float32", new Float32Array(tokens.data.length).fill(1));
  const read = { tokens: rows(tokens), targets: rows(targets), weights: rows(weights) };
  return { ...read, ...(segments && { segments: rows(segments) }) };
}

/** Records from the statistics of all sites, in the order of layers, modules, x, W, dy. */
export function siteRecords(values: Float32Array, { precision }: Pick<RunPlan, "precision">): SiteRecord[] {
  const width = statisticNames.length;
  return Array.from({ length: values.length / width }, (_, row) => {
    const tensor = linearTensors[row % linearTensors.length]!;
    const module = llamaModules[Math.floor(row / linearTensors.length) % llamaModules.length]!;
    const layer = Math.floor(row / (linearTensors.length * llamaModules.length));
    const of = (name: StatisticName): number => shortened(values[row * width + statisticNames.indexOf(name)]!);
    const site = { layer, module, tensor, amax: of("amax") };
    const place = firstQuantized(precision.precision(module, layer), tensor);
    if (place === undefined) return site;
    const tensorScale = of("tensorScale");
    return {
      ...site,
      format: formatName(place.spec),
      ...(!(Number.isNaN(tensorScale) && Number.isFinite(site.amax)) && { tensorScale }),
      underflowPercent: 100 * of("underflow"),
      saturatedPercent: 100 * of("saturated"),
      zeroBlocksPercent: 100 * of("zeroBlocks"),
      scaleUnderflowPercent: 100 * of("scaleUnderflow"),
      ...snrOf(of("signal"), of("noise")),
    };
  });
}

/** Absent for a tensor of zeros, which has no signal to compare noise with. */
function snrOf(signal: number, noise: number): { snrDb?: number } {
  return signal === 0 && noise === 0 ? {} : { snrDb: shortened(10 * Math.log10(signal / noise)) };
}

/** As many digits as a float32 means. */
const shortened = (value: number): number => Number(value.toPrecision(7));

/** In the order of the computation: forward through the layers, then backward. */
function notFiniteSites(sites: readonly SiteRecord[]): string[] {
  const bad = sites.filter(({ amax }) => !Number.isFinite(amax));
  const forward = bad.filter(({ tensor }) => tensor !== "dy");
  const backward = bad.filter(({ tensor }) => tensor === "dy").reverse();
  return [...forward, ...backward].map(({ layer, module, tensor }) => `layer ${layer} ${module} ${tensor}`);
}

function gradientRecords(sums: Float32Array, params: TrainState<DeviceArray>["params"]): GradientRecord[] {
  return treePaths(params).map(({ path }, i) => {
    const [dot, own, plain] = sums.subarray(3 * i, 3 * i + 3) as unknown as [number, number, number];
    return {
      tensor: path,
      cosine: shortened(dot / Math.sqrt(own * plain)),
      normRatio: shortened(Math.sqrt(own / plain)),
    };
  });
}
