/**
 * Each native CPU kernel against the plain lowering of the same function, at the sizes of workload L8, alternating in one process.
 *
 *     npm run bench:native [-- attention rounds=5]
 *     npm run bench:native -- step                   whole training steps
 *
 * Best of the rounds in process CPU time ÷ 2, which other work on the machine disturbs less than wall time.
 */
import { vjp } from "../src/autodiff/index.ts";
import { hostArray, type Tensor } from "../src/core/index.ts";
import { jit } from "../src/jit/index.ts";
import { causalAttention, crossEntropy, rmsNorm, swiglu } from "../src/nn/index.ts";
import { clipByGlobalNorm } from "../src/optim/index.ts";
import { Client, type DeviceArray, nativeKernels, put } from "../src/pjrt/index.ts";
import { ensureTunables } from "./command.ts";

ensureTunables();

import { stepsInTurns } from "./nativeStep.ts";
import { workloadByName } from "./workload.ts";

const words = process.argv.slice(2);
const rounds = Number(words.find((word) => word.startsWith("rounds="))?.slice(7) ?? 5);
const chosen = words.filter((word) => !word.includes("="));

let seed = 7;
const draw = () => {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return seed / 2 ** 32 - 0.5;
};

type Make = (client: Client) => DeviceArray;

interface Case {
  readonly name: string;
  readonly f: (...args: Tensor[]) => Tensor;
  /** The result's cotangent, then the arguments that have one, then the others. */
  readonly args: readonly Make[];
  /** How many arguments have a cotangent; 0: forward alone. */
  readonly differentiable: number;
}

const attention = (B: number, T: number): Case => ({
  name: `attention, ${B} × ${T}`,
  f: (q, k, v) => causalAttention({ q: q!, k: k!, v: v! }),
  args: [bf16(B, T, 8, 64), bf16(B, T, 8, 64), bf16(B, T, 4, 64), bf16(B, T, 4, 64)],
  differentiable: 3,
});

const [M, D, F, V] = [4096, 512, 1408, 8192];
const targets: Make = (client) =>
  put(
    hostArray(
      [M],
      "int32",
      Int32Array.from({ length: M }, (_, i) => (i * 7) % V),
    ),
    client,
  );

const cases: readonly Case[] = [
  attention(8, 512),
  attention(2, 2048),
  {
    name: "loss with the head",
    f: (hidden, head, targets, weights) =>
      crossEntropy({ hidden: hidden!, head: head!, targets: targets!, weights: weights! }).lossSum,
    args: [f32(), bf16(M, D), f32(V, D), targets, f32(M)],
    differentiable: 2,
  },
  {
    name: "RMSNorm",
    f: (x, w) => rmsNorm(x!, w!, 1e-5),
    args: [bf16(M, D), bf16(M, D), f32(D)],
    differentiable: 2,
  },
  { name: "SwiGLU", f: (a, b) => swiglu(a!, b!), args: [bf16(M, F), bf16(M, F), bf16(M, F)], differentiable: 2 },
  {
    name: "norm of 32 M",
    f: (...grads) => clipByGlobalNorm(grads, 1).norm,
    args: [f32(), ...Array.from({ length: 16 }, () => f32(2048, 1024))],
    differentiable: 0,
  },
];

/** Forward alone, and forward and backward. */
function functionsOf({ f, differentiable }: Case): Record<string, (...args: Tensor[]) => unknown> {
  const forward = (...[, ...args]: Tensor[]) => f(...args);
  if (differentiable === 0) return { forward };
  const both = (...[ct, ...args]: Tensor[]) => {
    const fixed = args.slice(differentiable);
    const { out, pullback } = vjp((...some: Tensor[]) => f(...some, ...fixed), ...args.slice(0, differentiable));
    return { out, cotangents: pullback(ct!) };
  };
  return { forward, "forward and backward": both };
}

const sizeOf = (shape: readonly number[]) => shape.reduce((a, b) => a * b, 1);

/** The upper half of float32 bits. */
function bf16(...shape: number[]): Make {
  return (client) => {
    const bits = Uint16Array.from({ length: sizeOf(shape) }, () => new Uint16Array(Float32Array.of(draw()).buffer)[1]!);
    return put(hostArray(shape, "bfloat16", bits), client);
  };
}

function f32(...shape: number[]): Make {
  return (client) => put(hostArray(shape, "float32", Float32Array.from({ length: sizeOf(shape) }, draw)), client);
}

const clients = { plain: new Client({ nativeKernels: "off" }), native: new Client() };
const found = await nativeKernels(clients.native);
if (!found.used) {
  process.stderr.write(`there are no native kernels here: ${found.reason}\n`);
  process.exit(1);
}
process.stdout.write(`${found.instructionSet}, ms by plain lowering and by native kernel\n`);
for (const part of cases.filter(
  ({ name }) => chosen.length === 0 || chosen.some((word) => name.toLowerCase().startsWith(word.toLowerCase())),
)) {
  for (const [what, f] of Object.entries(functionsOf(part))) {
    const sides = await Promise.all(
      Object.values(clients).map(async (client) => {
        const args = part.args.map((make) => make(client));
        const compiled = jit(f, { client });
        return { args, executable: await compiled.compile(...args), best: Number.POSITIVE_INFINITY };
      }),
    );
    for (let i = 0; i < rounds; i++) {
      for (const side of sides) {
        const start = process.cpuUsage();
        const { outputs, done } = await side.executable.execute(side.args);
        await done;
        const { user, system } = process.cpuUsage(start);
        side.best = Math.min(side.best, (user + system) / 2000);
        for (const output of outputs) output.dispose();
      }
    }
    const [plain, native] = sides.map(({ best }) => best) as [number, number];
    const numbers = [plain, native].map((ms) => ms.toFixed(2).padStart(8)).join("");
    process.stdout.write(
      `${part.name.padEnd(24)} ${what.padEnd(22)} ${numbers}   ${(plain / native).toFixed(2)} × as fast\n`,
    );
  }
}
if (chosen.includes("step")) {
  for (const name of ["L8", "L8-long"]) {
    const [plain, native] = await stepsInTurns(workloadByName(name), Object.values(clients), rounds);
    const best = [plain!, native!].map(({ ms }) => Math.min(...ms)) as [number, number];
    const numbers = best.map((ms) => ms.toFixed(0).padStart(8)).join("");
    const losses = `losses ${plain!.loss.toFixed(5)} and ${native!.loss.toFixed(5)}`;
    process.stdout.write(
      `${`step of ${name}`.padEnd(47)} ${numbers}   ${(best[0] / best[1]).toFixed(2)} × as fast, ${losses}\n`,
    );
  }
}
process.exit(0);
