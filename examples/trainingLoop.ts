import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as hb from "halfbyte";

const sizes = { numLayers: 2, embDim: 64, mlpDim: 128, numHeads: 4, numKvHeads: 2, headDim: 16, vocabSize: 32 };
const config: hb.LlamaConfig = { ...sizes, ropeTheta: 1e4, normEps: 1e-5, tieEmbeddings: false, dtype: "bfloat16" };
const { precision } = hb.recipeByName("bf16");
const options: hb.LlamaOptions = { config, precision: () => precision };
const steps = 60;
const schedule = hb.makeSchedule({ kind: "cosine", learningRate: 1e-2, steps });
const adam = hb.adamw({ b1: 0.9, b2: 0.95, eps: 1e-8, weightDecay: 0.1 });

const loss = (params: hb.LlamaParams, tokens: hb.Tensor, targets: hb.Tensor) =>
  hb.llamaLoss(params, { tokens, targets, weights: hb.full(tokens.shape, 1, "float32") }, options).loss;
const evaluate = hb.jit(loss);
const train = hb.jit(
  ({ params, optimizer }: hb.TrainState, tokens: hb.Tensor, targets: hb.Tensor, rate: hb.Tensor) => {
    const { value, grad } = hb.valueAndGrad(loss)(params, tokens, targets);
    const { grads, finite } = hb.clipByGlobalNorm(grad, 1);
    const next = adam.update({ grads, state: optimizer, params, learningRate: rate, finite });
    return { state: { params: next.params, optimizer: next.state }, loss: value };
  },
  { donate: [0] }, // the state is updated in place
);

const data = hb.syntheticBatches(config.vocabSize, { batchSize: 8, windowLength: 32 }, 0);
const held = data.train.batchAt(steps + 1); // never trained on
let state = await hb.putTree(hb.initialState(config, 0));
for (let step = 1; step <= steps; step++) {
  const { tokens, targets } = data.train.batchAt(step);
  const rate = hb.hostArray([], "float32", Float32Array.of(hb.learningRate(schedule, step)));
  const result = await train(state, tokens, targets, rate);
  state = result.state;
  result.loss.dispose();
  if (step % 15 !== 1 && step !== steps) continue;
  const value = await evaluate(state.params, held.tokens, held.targets);
  console.log(`step ${step}: loss ${(await value.toHost()).data[0]} on held-out data`);
  value.dispose();
}

const folder = mkdtempSync(join(tmpdir(), "halfbyte-example-"));
const path = join(folder, "params.safetensors");
const arrays = hb
  .treePaths(await hb.fetchTree(state.params))
  .map(({ path, leaf }) => [path, leaf as hb.HostArray] as const);
await hb.writeSafetensors(path, new Map(arrays), { steps: `${steps}` });
const file = await hb.openSafetensors(path);
console.log(`saved ${file.tensors.size} tensors after step ${file.metadata.steps}`);
await file.close();
rmSync(folder, { recursive: true });
