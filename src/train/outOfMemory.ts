/** Memory that a run needs and does not get: what takes it, and which keys lower it. */
import { megabytes } from "../base/byteSize.ts";
import { HalfbyteError, UserError } from "../base/errors.ts";
import { machineMemory } from "../base/machineMemory.ts";
import { byteLength, type Program, showSpec } from "../core/index.ts";
import { llamaDelayedScaling } from "../models/llama.ts";
import { isOutOfMemory, type MemoryStats } from "../pjrt/index.ts";
import { delayedScalingSpecs } from "../quant/index.ts";
import { countParameters, type RunPlan } from "./plan.ts";

/** One large buffer, by what it holds. */
export interface BufferUse {
  readonly name: string;
  readonly bytes: number;
}

/** What an error about memory knows besides its message. */
export interface MemoryUse {
  /** The largest, in descending order. */
  readonly buffers: readonly BufferUse[];
  /** Three settings that lower it, most useful first. */
  readonly knobs: readonly string[];
}

/** Memory ran out: exit code 1. */
export class OutOfMemoryError extends HalfbyteError implements MemoryUse {
  readonly buffers: readonly BufferUse[];
  readonly knobs: readonly string[];
  constructor(message: string, { buffers, knobs }: MemoryUse, options?: ErrorOptions) {
    super("E_OUT_OF_MEMORY", message, options);
    this.buffers = buffers;
    this.knobs = knobs;
  }
}

/** Memory would run out, which is known before the first step: exit code 2. */
export class TooLargeError extends UserError implements MemoryUse {
  readonly buffers: readonly BufferUse[];
  readonly knobs: readonly string[];
  constructor(message: string, { buffers, knobs }: MemoryUse) {
    super("E_MEMORY", message);
    this.buffers = buffers;
    this.knobs = knobs;
  }
}

/** Where weights, gradients and moments alone take more memory than there is. */
export function stateBeyondMemory(plan: RunPlan): TooLargeError | undefined {
  const state = stateBuffers(plan);
  const needed = state.reduce((sum, { bytes }) => sum + bytes, 0);
  const { total } = machineMemory();
  if (needed <= total) return undefined;
  const use = { buffers: state.sort(descending), knobs: sizeKnobs(plan) };
  const parameters = countParameters(plan.model).toLocaleString("en");
  const what = `${parameters} parameters need ${megabytes(needed)} for their state; ${megabytes(total)} may be used`;
  return new TooLargeError(message(what, use), use);
}

/** The compiled step, as far as its memory goes. */
export interface StepMemory {
  readonly stats: MemoryStats;
  /** Traces it again. */
  readonly program: () => Promise<Program>;
}

/**
 * For a step on the host's memory whose state is there already.
 * @throws TooLargeError where what it needs besides is not free
 */
export async function refuseStepBeyondMemory(plan: RunPlan, step: StepMemory): Promise<void> {
  const { temporaryBytes, outputBytes, aliasBytes } = step.stats;
  const needed = temporaryBytes + Math.max(0, outputBytes - aliasBytes);
  const { available, total } = machineMemory();
  if (needed <= available) return;
  const use = await memoryUse(plan, step);
  throw new TooLargeError(
    message(
      `a step needs ${megabytes(needed)} beside its state; ${megabytes(available)} of ${megabytes(total)} are free`,
      use,
    ),
    use,
  );
}

/** For a program of the telemetry, which runs between steps. @throws TooLargeError where what it needs is not free */
export function refuseTelemetryBeyondMemory({ temporaryBytes }: MemoryStats, program: string): void {
  const { available, total } = machineMemory();
  if (temporaryBytes <= available) return;
  const use = {
    buffers: [{ name: `temporary memory of ${program} (activations, gradients)`, bytes: temporaryBytes }],
    knobs: [
      ...(program === "gradient_cosine" ? ["telemetry_gradient_cosine=false"] : []),
      "telemetry_period=0 (trains without telemetry)",
      "per_device_batch_size, with gradient_accumulation_steps for the same batch",
    ],
  };
  const free = `${megabytes(available)} of ${megabytes(total)} are free`;
  throw new TooLargeError(message(`telemetry needs ${megabytes(temporaryBytes)} beside the state; ${free}`, use), use);
}

/** The error to throw for one that was caught: out of memory is explained, all others stay as they are. */
export async function explainedFailure(error: unknown, plan: RunPlan, step?: StepMemory): Promise<unknown> {
  if (!isOutOfMemory(error) && !isHostAllocation(error)) return error;
  const use = await memoryUse(plan, step);
  const reason = (error as Error).message.split("\n")[0]!.replace(/\.$/, "");
  return new OutOfMemoryError(message(`memory ran out: ${reason}`, use), use, { cause: error });
}

/** What JavaScript throws where its own arrays don't fit. */
function isHostAllocation(error: unknown): boolean {
  return error instanceof RangeError && /allocation failed|invalid (typed )?array length/i.test(error.message);
}

async function memoryUse(plan: RunPlan, step: StepMemory | undefined): Promise<MemoryUse> {
  const [weights, moments, gradients, ...others] = stateBuffers(plan) as [BufferUse, BufferUse, BufferUse];
  const temporary = step?.stats.temporaryBytes ?? gradients.bytes;
  const all = [
    weights,
    moments,
    ...others,
    step === undefined ? gradients : { name: "temporary memory of a step (activations, gradients)", bytes: temporary },
  ];
  const buffers = [...all.sort(descending), ...(step === undefined ? [] : largestProducts(await step.program()))];
  return { buffers, knobs: temporary > weights.bytes + moments.bytes ? stepKnobs(plan) : sizeKnobs(plan) };
}

/** Float32 weights, both moments, gradients; histories of delayed scales where there are any. */
function stateBuffers({ model, precision }: RunPlan): BufferUse[] {
  const bytes = 4 * countParameters(model);
  const delayed = llamaDelayedScaling({ config: model, precision: precision.precision });
  return [
    { name: "weights (float32)", bytes },
    { name: "optimizer moments (float32, two for each weight)", bytes: 2 * bytes },
    { name: "gradients (float32)", bytes },
    ...(delayed
      ? [{ name: "histories of delayed scales (float32)", bytes: byteLength(delayedScalingSpecs(delayed).history) }]
      : []),
  ];
}

const descending = (a: BufferUse, b: BufferUse) => b.bytes - a.bytes;
const listedProducts = 4;

/**
 * Results of the program's contractions, which exist in memory whatever the compiler fuses: activations, scores, a chunk
 * of logits, weight gradients. Layers that are alike share a line.
 */
function largestProducts(program: Program): BufferUse[] {
  const found = new Map<string, { bytes: number; count: number }>();
  const visit = ({ eqns }: Program) => {
    for (const { op, params, outputs, scope } of eqns) {
      for (const inner of Object.values(op.programs?.(params) ?? {})) visit(inner);
      if (op.name !== "dot") continue;
      const place = [scope.path.replace(/\.\d+(?=\.|$)/g, ".*"), scope.pass].filter(Boolean).join(" ");
      const name = `${showSpec(outputs[0]!)} ${place ? `of ${place}` : "of a product"}`;
      const known = found.get(name);
      found.set(name, { bytes: byteLength(outputs[0]!), count: (known?.count ?? 0) + 1 });
    }
  };
  visit(program);
  return [...found]
    .map(([name, { bytes, count }]) => ({ name: count > 1 ? `each of ${count}: ${name}` : name, bytes }))
    .sort(descending)
    .slice(0, listedProducts);
}

/** Settings that lower what a step needs beside its state. */
function stepKnobs({ batchSize, microBatches, sequenceLength, remat }: RunPlan): string[] {
  const half = Math.max(1, Math.floor(batchSize / 2));
  return [
    ...(batchSize > 1
      ? [
          `per_device_batch_size=${half} with gradient_accumulation_steps=${2 * microBatches} (the same batch in smaller parts)`,
        ]
      : []),
    ...(remat !== undefined && Object.keys(remat).length === 0
      ? []
      : ["remat_policy=full (computes activations again instead of keeping them)"]),
    `max_target_length=${Math.max(1, Math.floor(sequenceLength / 2))}`,
    `per_device_batch_size=${half}`,
    "mlp_dim, vocab_size or num_decoder_layers",
  ].slice(0, 3);
}

/** Settings that lower the state itself. */
function sizeKnobs({ model }: RunPlan): string[] {
  const { numLayers, embDim, vocabSize } = model;
  return [
    `num_decoder_layers (now ${numLayers})`,
    `emb_dim and mlp_dim (now ${embDim} and ${model.mlpDim})`,
    `vocab_size (now ${vocabSize})`,
  ];
}

function message(what: string, { buffers, knobs }: MemoryUse): string {
  const width = Math.max(...buffers.map(({ bytes }) => megabytes(bytes).length));
  const lines = buffers.map(({ name, bytes }) => `  ${megabytes(bytes).padStart(width)}  ${name}`);
  return [`${what}. The largest buffers:`, ...lines, "To lower it:", ...knobs.map((knob) => `  ${knob}`)].join("\n");
}
