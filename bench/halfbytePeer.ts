/**
 * Halfbyte as a peer of the benchmark: trains a workload, speaking the line protocol of peers/workload.py.
 * Usage: tsx bench/halfbytePeer.ts WORKLOAD INIT TOKENS RECIPE[:POLICY]
 */
import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { openSafetensors } from "../src/checkpoint/safetensors.ts";
import { hostArray } from "../src/core/index.ts";
import { disposeTree, jit, putTree } from "../src/jit/index.ts";
import { llamaFromHf } from "../src/models/hfMapping.ts";
import { llamaDelayedScaling } from "../src/models/llama.ts";
import { type PolicyName, recipeByName, resolvePrecision } from "../src/quant/index.ts";
import { initialState } from "../src/train/state.ts";
import { makeTrainStep } from "../src/train/step.ts";
import { batchOf, configOf, workloadByName } from "./workload.ts";

const [workloadName = "L8", initPath = "", tokensPath = "", quantization = "bf16"] = process.argv.slice(2);
const workload = workloadByName(workloadName);
const config = configOf(workload);
const peer = `halfbyte ${quantization}`;
const say = (record: object) => process.stdout.write(`${JSON.stringify(record)}\n`);

/** Every block is quantized. */
const [recipe = "", policy = "all_linear"] = quantization.split(":");
const { precision } = resolvePrecision({
  recipe: recipeByName(recipe),
  numLayers: config.numLayers,
  policy: policy as PolicyName,
  firstLayersBf16: 0,
  lastLayersBf16: 0,
});

const bytes = await readFile(tokensPath);
const ids = new Int32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
const file = await openSafetensors(initPath);
const params = await llamaFromHf(config, (name) => file.read(name));
const delayedScaling = llamaDelayedScaling({ config, precision });
const start = { ...initialState(config, 0, delayedScaling && { delayedScaling }), params };
await file.close();

const train = makeTrainStep({
  config,
  precision,
  optimizer: { b1: 0.9, b2: 0.95, eps: 1e-8, weightDecay: 0.1 },
  clippingThreshold: 1,
  roundingSeed: 0,
});
const step = jit(train, { donate: [0], name: "train_step" });

let state = await putTree(start);
let count = 0;

async function trainOne(): Promise<number> {
  const scalars = {
    learningRate: hostArray([], "float32", Float32Array.of(1e-3)),
    step: hostArray([], "uint32", Uint32Array.of(count + 1)),
  };
  const result = await step(state as never, batchOf(ids, workload, count++) as never, scalars);
  state = result.state as never;
  const loss = (await result.metrics.loss.toHost()).data[0] as number;
  disposeTree(result.metrics);
  return loss;
}

async function reset(): Promise<void> {
  disposeTree(state);
  state = await putTree(start);
  count = 0;
}

const compileStart = performance.now();
const warmupLosses = [await trainOne(), await trainOne()];
const compileSeconds = (performance.now() - compileStart) / 1000;
await reset();
say({ peer, ready: true, compileSeconds, warmupLosses, versions: { node: process.version } });

for await (const line of createInterface({ input: process.stdin })) {
  const [verb, argument] = line.trim().split(/\s+/);
  if (verb === "quit") break;
  if (verb === "reset") {
    await reset();
    say({ peer, reset: true });
  } else if (verb === "run") {
    const [seconds, cpuSeconds, losses]: number[][] = [[], [], []];
    for (let i = 0; i < Number(argument); i++) {
      const [wall, cpu] = [performance.now(), process.cpuUsage()];
      losses!.push(await trainOne());
      seconds!.push((performance.now() - wall) / 1000);
      const used = process.cpuUsage(cpu);
      cpuSeconds!.push((used.user + used.system) / 1e6);
    }
    say({ peer, steps: seconds!.length, seconds, cpuSeconds, losses });
  } else say({ peer, error: `got "${line}"; say "run N", "reset" or "quit"` });
}
process.exit(0);
