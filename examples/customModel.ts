import * as hb from "halfbyte";

// A model of one's own: the next byte of a text from the 16 before it (Bengio et al. 2003), its two layers in NVFP4.
const [context, width, hidden] = [16, 32, 128];
type Params = { embed: hb.Tensor; up: hb.Tensor; down: hb.Tensor; norm: hb.Tensor };
type State = { params: Params; optimizer: hb.AdamWState<Params> };

const init = (seed: hb.Tensor): Params => ({
  embed: hb.normal(hb.randomKey(seed, 0), [256, width], { std: 0.2 }),
  up: hb.normal(hb.randomKey(seed, 1), [hidden, context * width], { std: 0.04 }),
  down: hb.normal(hb.randomKey(seed, 2), [width, hidden], { std: 0.1 }),
  norm: hb.full([width], 1, "float32"),
});

const precision = hb.nvfp4();
function loss(params: Params, bytes: hb.Tensor, targets: hb.Tensor, step: hb.Tensor): hb.Tensor {
  const site = { layer: 0, precision, random: { seed: 0, step, microBatch: 0 } }; // gradients are rounded stochastically
  const x = hb
    .take(params.embed, bytes)
    .astype("bfloat16")
    .reshape([-1, context * width]);
  const up = hb.linear(x, params.up, { module: "up", ...site });
  const y = hb.linear(up.mul(up.sigmoid()), params.down, { module: "down", ...site });
  const weights = hb.full(targets.shape, 1, "float32");
  const sums = hb.crossEntropy({ hidden: hb.rmsNorm(y, params.norm, 1e-5), head: params.embed, targets, weights });
  return sums.lossSum.div(sums.totalWeight);
}

const adam = hb.adamw({ b1: 0.9, b2: 0.95, eps: 1e-8, weightDecay: 0 });
const begin = hb.jit((seed: hb.Tensor): State => {
  const params = init(seed);
  return { params, optimizer: adam.init(params) };
});
const train = hb.jit(
  ({ params, optimizer }: State, bytes: hb.Tensor, targets: hb.Tensor, step: hb.Tensor) => {
    const { value, grad } = hb.valueAndGrad(loss)(params, bytes, targets, step);
    const next = adam.update({ grads: grad, state: optimizer, params, learningRate: 5e-3 });
    return { state: { params: next.params, optimizer: next.state }, loss: value };
  },
  { donate: [0] },
);

const text = Buffer.from("Four bits are enough to learn this sentence by heart, and to say it again. ".repeat(8));
const rows = 256;
const windows = Int32Array.from({ length: rows * context }, (_, i) => text[Math.floor(i / context) + (i % context)]!);
const bytes = hb.hostArray([rows, context], "int32", windows);
const targets = hb.hostArray(
  [rows],
  "int32",
  Int32Array.from({ length: rows }, (_, i) => text[i + context]!),
);
const scalar = (n: number) => hb.hostArray([], "uint32", Uint32Array.of(n));
let state = await begin(scalar(0));
for (let n = 1; n <= 60; n++) {
  const result = await train(state, bytes, targets, scalar(n));
  state = result.state;
  if (n % 10 === 1) console.log(`step ${n}: loss ${(await result.loss.toHost()).data[0]}`);
  result.loss.dispose();
}
