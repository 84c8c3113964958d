/**
 * Halfbyte as a peer of the benchmarks: trains or evaluates a workload, speaking the line protocol of peers/workload.py.
 * Usage: tsx bench/halfbytePeer.ts WORKLOAD INIT TOKENS RECIPE:POLICY [native]
 * native: end unless native kernels are in use.
 */
import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { openSafetensors } from "../src/checkpoint/safetensors.ts";
import { type HostArray, hostArray } from "../src/core/index.ts";
import type { ValidationBatches } from "../src/data/index.ts";
import { disposeTree, jit, putTree } from "../src/jit/index.ts";
import { llamaFromHf } from "../src/models/hfMapping.ts";
import { type LlamaOptions, type LlamaTree, llamaDelayedScaling } from "../src/models/llama.ts";
import { type DeviceArray, defaultClient, nativeKernels } from "../src/pjrt/index.ts";
import { type PolicyName, recipeByName, resolvePrecision } from "../src/quant/index.ts";
import { makeEvaluator } from "../src/train/evaluate.ts";
import { machinePeak } from "../src/train/machinePeak.ts";
import { startingState } from "../src/train/state.ts";
import { makeTrainStep } from "../src/train/step.ts";
import { batchOf, configOf, type Workload, workloadByName } from "./workload.ts";

/** One step of the workload: index of the batch → loss. */
interface Program {
  step(index: number): Promise<number>;
  /** Back to the initial weights. */
  reset(): Promise<void>;
}

const [workloadName = "L8", initPath = "", tokensPath = "", quantization = "bf16:all_linear", wanted] =
  process.argv.slice(2);
const workload = workloadByName(workloadName);
const peer = `halfbyte ${quantization}`;
const say = (record: object) => process.stdout.write(`${JSON.stringify(record)}\n`);

/** Every block is quantized. */
function modelOptions(): LlamaOptions {
  const config = configOf(workload);
  const [recipe = "", policy] = quantization.split(":");
  const { precision } = resolvePrecision({
    recipe: recipeByName(recipe),
    numLayers: config.numLayers,
    policy: policy as PolicyName,
    firstLayersBf16: 0,
    lastLayersBf16: 0,
  });
  return { config, precision };
}

async function readInputs({ config }: LlamaOptions) {
  const bytes = await readFile(tokensPath);
  const file = await openSafetensors(initPath);
  const params = await llamaFromHf(config, (name) => file.read(name));
  await file.close();
  return { ids: new Int32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4), params };
}

async function training(model: LlamaOptions, ids: Int32Array, params: LlamaTree<HostArray>): Promise<Program> {
  const delayedScaling = llamaDelayedScaling(model);
  const start = startingState(model.config, params, delayedScaling && { delayedScaling });
  const optimizer = { b1: 0.9, b2: 0.95, eps: 1e-8, weightDecay: 0.1 };
  const train = makeTrainStep({ ...model, optimizer, clippingThreshold: 1, roundingSeed: 0 });
  const step = jit(train, { donate: [0], name: "train_step" });
  let state = await putTree(start);
  return {
    async step(index) {
      const scalars = {
        learningRate: hostArray([], "float32", Float32Array.of(1e-3)),
        step: hostArray([], "uint32", Uint32Array.of(index + 1)),
      };
      const result = await step(state as never, batchOf(ids, workload, index) as never, scalars);
      state = result.state as never;
      const loss = (await result.metrics.loss.toHost()).data[0] as number;
      disposeTree(result.metrics);
      return loss;
    },
    async reset() {
      disposeTree(state);
      state = await putTree(start);
    },
  };
}

async function evaluating(model: LlamaOptions, ids: Int32Array, params: LlamaTree<HostArray>): Promise<Program> {
  const evaluator = makeEvaluator(model);
  const state = { params: (await putTree(params)) as LlamaTree<DeviceArray> };
  const mask = onesLike(workload);
  return {
    async step(index) {
      const batchAt = () => ({
        ...batchOf(ids, workload, index),
        mask,
        validTokens: mask.data.length,
        targetBytes: mask.data.length,
      });
      const batches: ValidationBatches = { windows: workload.batch, batches: 1, batchAt, ofProcess: () => batches };
      return (await evaluator.evaluate(state, batches)).loss;
    },
    async reset() {},
  };
}

const onesLike = ({ batch, seq }: Workload): HostArray =>
  hostArray([batch, seq], "float32", new Float32Array(batch * seq).fill(1));

const kernels = await nativeKernels(defaultClient());
if (wanted === "native" && !kernels.used) {
  say({ peer, error: `native kernels are not in use: ${kernels.reason}` });
  process.exit(1);
}
const model = modelOptions();
const { ids, params } = await readInputs(model);
const peak = await machinePeak(defaultClient());
const program = await (workload.forward ? evaluating : training)(model, ids, params);
let count = 0;

const compileStart = performance.now();
const warmupLosses = [await program.step(0)];
const compileSeconds = (performance.now() - compileStart) / 1000;
warmupLosses.push(await program.step(1));
await program.reset();
say({
  peer,
  ready: true,
  compileSeconds,
  warmupLosses,
  versions: { node: process.versions.node },
  settings: {
    dtype: model.config.dtype,
    "native kernels": kernels.used ? kernels.instructionSet : `none (${kernels.reason})`,
  },
  peakFlopsPerSecond: peak.flopsPerSecond,
});

for await (const line of createInterface({ input: process.stdin })) {
  const [verb, argument] = line.trim().split(/\s+/);
  if (verb === "quit") break;
  if (verb === "reset") {
    await program.reset();
    count = 0;
    say({ peer, reset: true });
  } else if (verb === "run") {
    const [seconds, cpuSeconds, losses]: number[][] = [[], [], []];
    for (let i = 0; i < Number(argument); i++) {
      const [wall, cpu] = [performance.now(), process.cpuUsage()];
      losses!.push(await program.step(count++));
      seconds!.push((performance.now() - wall) / 1000);
      const used = process.cpuUsage(cpu);
      cpuSeconds!.push((used.user + used.system) / 1e6);
    }
    say({ peer, steps: seconds!.length, seconds, cpuSeconds, losses });
  } else say({ peer, error: `got "${line}"; say "run N", "reset" or "quit"` });
}
process.exit(0);
