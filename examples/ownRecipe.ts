import * as hb from "halfbyte";

// A recipe is data: for each of a linear layer's three GEMMs, how it reads its two operands. Here a BF16 forward pass with the
// backward pass of NVFP4, and a forward pass written out: integers of 4 bits, both operands rotated.
const nvfp4Backward: hb.LinearPrecision = { ...hb.nvfp4(), fprop: hb.bf16.fprop };
const int4 = {
  element: "int4",
  block: "1x16",
  rounding: "nearest",
  scale: { type: "e4m3", outer: "tensor" },
} as const satisfies hb.OperandSpec;
const int4Forward: hb.LinearPrecision = {
  ...nvfp4Backward,
  fprop: { rotation: { size: 16, signs: "fixed" }, left: int4, right: int4 },
};

type Precision = hb.LlamaOptions["precision"];
const recipes: Readonly<Record<string, Precision>> = {
  "BF16 forward, NVFP4 backward": () => nvfp4Backward,
  "INT4 forward, NVFP4 backward": () => int4Forward,
  "FP8 attention, MXFP4 MLP": (module) => (module.startsWith("attn.") ? hb.fp8CurrentScaling() : hb.mxfp4()),
};

const sizes = { numLayers: 1, embDim: 64, mlpDim: 128, numHeads: 4, numKvHeads: 2, headDim: 16, vocabSize: 32 };
const config: hb.LlamaConfig = { ...sizes, ropeTheta: 1e4, normEps: 1e-5, tieEmbeddings: false, dtype: "bfloat16" };
const data = hb.syntheticBatches(config.vocabSize, { batchSize: 8, windowLength: 32 }, 0);
const adam = hb.adamw({ b1: 0.9, b2: 0.95, eps: 1e-8, weightDecay: 0.1 });

for (const [name, precision] of Object.entries(recipes)) {
  const train = hb.jit(
    ({ params, optimizer }: hb.TrainState, tokens: hb.Tensor, targets: hb.Tensor, step: hb.Tensor) => {
      const options = { config, precision, random: { seed: 0, step, microBatch: 0 } };
      const weights = hb.full(tokens.shape, 1, "float32");
      const loss = (params: hb.LlamaParams) => hb.llamaLoss(params, { tokens, targets, weights }, options).loss;
      const { value, grad } = hb.valueAndGrad(loss)(params);
      const next = adam.update({ grads: grad, state: optimizer, params, learningRate: 1e-2 });
      return { state: { params: next.params, optimizer: next.state }, loss: value };
    },
    { donate: [0] },
  );
  let state = await hb.putTree(hb.initialState(config, 0));
  for (let n = 1; n <= 61; n++) {
    const { tokens, targets } = data.train.batchAt(n);
    const result = await train(state, tokens, targets, hb.hostArray([], "uint32", Uint32Array.of(n)));
    state = result.state;
    if (n % 30 === 1) console.log(`${name}, step ${n}: loss ${(await result.loss.toHost()).data[0]}`);
    result.loss.dispose();
  }
  hb.disposeTree(state);
  train.dispose();
}
