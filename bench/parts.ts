/**
 * The parts of a training step alone, forward and backward, at the sizes of workload L8: where its time goes.
 *
 *     npm run bench:parts
 *
 * Best of several runs in process CPU time ÷ 2, which other work on the machine disturbs less than wall time.
 */
import { vjp } from "../src/autodiff/index.ts";
import { dot, full, type HostArray, hostArray, type Tensor } from "../src/core/index.ts";
import { jit } from "../src/jit/index.ts";
import {
  type AttentionTiles,
  causalAttention,
  crossEntropy,
  rmsNorm,
  rope,
  ropeTables,
  swiglu,
} from "../src/nn/index.ts";
import { defaultClient, put } from "../src/pjrt/index.ts";
import { ensureTunables } from "./command.ts";

ensureTunables();

const [M, D, F, V] = [4096, 512, 1408, 8192];
let seed = 7;
const draw = () => {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return seed / 2 ** 32 - 0.5;
};
const sizeOf = (shape: readonly number[]) => shape.reduce((a, b) => a * b, 1);
/** Random bfloat16 values: the upper half of float32 bits. */
const bf16 = (...shape: number[]) => {
  const bits = Uint16Array.from({ length: sizeOf(shape) }, () => new Uint16Array(Float32Array.of(draw()).buffer)[1]!);
  return put(hostArray(shape, "bfloat16", bits));
};
const f32 = (...shape: number[]) =>
  put(hostArray(shape, "float32", Float32Array.from({ length: sizeOf(shape) }, draw)));
const ids = (length: number): HostArray =>
  hostArray(
    [length],
    "int32",
    Int32Array.from({ length }, (_, i) => (i * 7) % V),
  );

async function time(
  name: string,
  f: (...args: never[]) => unknown,
  args: readonly unknown[],
  flops = 0,
): Promise<void> {
  const compiled = jit(f as (...args: Tensor[]) => unknown);
  const executable = await compiled.compile(...args);
  let best = Number.POSITIVE_INFINITY;
  for (let i = 0; i < 12; i++) {
    const start = process.cpuUsage();
    const { outputs, done } = await executable.execute(args as never);
    await done;
    const { user, system } = process.cpuUsage(start);
    best = Math.min(best, (user + system) / 2e6);
    for (const output of outputs) output.dispose();
  }
  compiled.dispose();
  const rate = flops === 0 ? "" : `${(flops / best / 1e12).toFixed(2)} TFLOP/s`;
  process.stdout.write(`${name.padEnd(44)} ${(best * 1000).toFixed(2).padStart(8)} ms  ${rate}\n`);
}

/** f and its pullback of the first argument. */
const withGradient = (f: (...args: Tensor[]) => Tensor) =>
  ((ct: Tensor, ...args: Tensor[]) => {
    const { out, pullback } = vjp(f, ...args);
    return { out, cotangents: pullback(ct) };
  }) as (...args: never[]) => unknown;

for (const [K, N] of [
  [512, 512],
  [512, 1408],
  [1408, 512],
] as const) {
  const [x, w, dy] = [bf16(M, K), bf16(N, K), bf16(M, N)];
  const flops = 2 * M * K * N;
  await time(`fprop ${K}×${N}`, (x: Tensor, w: Tensor) => dot(x, w, { contract: [[1], [1]] }), [x, w], flops);
  const wgrad = (dy: Tensor, x: Tensor) => dot(dy, x, { contract: [[0], [0]], out: "float32" });
  await time(`wgrad ${K}×${N}`, wgrad, [dy, x], flops);
}
const tables = () => ropeTables(512, { headDim: 64, theta: 1e4 });
const [x, gate, q, k] = [bf16(M, D), bf16(M, F), bf16(8, 512, 8, 64), bf16(8, 512, 4, 64)];
await time(
  "RMSNorm",
  withGradient((x, w) => rmsNorm(x!, w!, 1e-5)),
  [x, x, f32(D)],
);
await time(
  "SwiGLU",
  withGradient((a, b) => swiglu(a!, b!)),
  [gate, gate, gate],
);
await time(
  "rotary positions",
  withGradient((x) => rope(x!, tables())),
  [q, q],
);
for (const tiles of [
  { rows: 64, heads: 16 },
  { rows: 128, heads: 16 },
  { rows: 256, heads: 16 },
  { rows: 128, heads: 4 },
  { rows: 128, heads: 32 },
] satisfies AttentionTiles[]) {
  const attend = withGradient((q, k, v) => causalAttention({ q: q!, k: k!, v: v! }, tiles));
  await time(`attention, ${tiles.rows} rows, ${tiles.heads} key heads at a time`, attend, [q, q, k, k]);
}
const loss = (hidden: Tensor, head: Tensor, targets: Tensor, weights: Tensor) => {
  const sum = (hidden: Tensor, head: Tensor) => crossEntropy({ hidden, head, targets, weights }).lossSum;
  const { out, pullback } = vjp(sum, hidden, head);
  return { out, cotangents: pullback(full([], 1, "float32")) };
};
await time("loss with the head", loss, [x, f32(V, D), put(ids(M)), f32(M)], 6 * M * D * V);
await defaultClient().destroy();
process.exit(0);
