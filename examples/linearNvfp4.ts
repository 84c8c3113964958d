import { hostArray, jit, linear, nvfp4, putTree, type Tensor, treeMap, valueAndGrad } from "halfbyte";

type Params = { up: Tensor; down: Tensor };

// A two-layer network whose six GEMMs (two layers × forward, input gradient, weight gradient) run in NVFP4.
const precision = nvfp4();
const loss = (params: Params, x: Tensor, y: Tensor, step: Tensor) => {
  const random = { seed: 0, step, microBatch: 0 }; // gradients are rounded stochastically
  const hidden = linear(x, params.up, { module: "up", layer: 0, precision, random }).tanh();
  const error = linear(hidden, params.down, { module: "down", layer: 0, precision, random }).sub(y);
  return error.mul(error).mean();
};
const train = jit(
  (params: Params, x: Tensor, y: Tensor, step: Tensor) => {
    const { value, grad } = valueAndGrad(loss)(params, x, y, step);
    return { params: treeMap<Params>((p: Tensor, g: Tensor) => p.sub(g.mul(4)), params, grad), loss: value };
  },
  { donate: [0] },
);

const wave = (rows: number, columns: number, f: (row: number, column: number) => number) =>
  hostArray(
    [rows, columns],
    "float32",
    Float32Array.from({ length: rows * columns }, (_, i) => f(Math.floor(i / columns), i % columns)),
  );
const x = wave(256, 64, (r, c) => Math.sin((r * 64 + c) ** 2));
const y = wave(256, 16, (r, c) => Math.sin((r * 64 + c) ** 2) / 2); // a part of x, halved
let params = await putTree({
  up: wave(128, 64, (r, c) => Math.sin((r * 64 + c) ** 2 + 1) / 8),
  down: wave(16, 128, (r, c) => Math.sin((r * 128 + c) ** 2 + 2) / 8),
});
for (let n = 1; n <= 200; n++) {
  const result = await train(params, x, y, hostArray([], "uint32", Uint32Array.of(n)));
  params = result.params;
  if (n % 40 === 0) console.log(`step ${n}: loss ${(await result.loss.toHost()).data[0]}`);
  result.loss.dispose();
}
