/**
 * `npm run bench:native`: each native CPU kernel against the plain lowering of the same function, at the sizes of workload L8,
 * alternating in one process.
 */
import { vjp } from "../src/autodiff/index.ts";
import { UserError } from "../src/base/errors.ts";
import { parseArguments } from "../src/cli/arguments.ts";
import { type HostArray, hostArray, type Tensor } from "../src/core/index.ts";
import { causalAttention, crossEntropy, rmsNorm, swiglu } from "../src/nn/index.ts";
import { clipByGlobalNorm } from "../src/optim/index.ts";
import { Client, nativeKernels } from "../src/pjrt/index.ts";
import { countOf, ensureKeptMemory, runBenchmark } from "./command.ts";
import { stepsInTurns } from "./nativeStep.ts";
import { runnable, timed } from "./partRatio.ts";
import { bf16, f32 } from "./stepParts.ts";
import { workloadByName } from "./workload.ts";

interface Case {
  readonly name: string;
  readonly f: (...args: Tensor[]) => Tensor;
  /** The result's cotangent, then the arguments that have one, then the others. */
  readonly args: () => readonly HostArray[];
  /** How many arguments have a cotangent; 0: forward alone. */
  readonly differentiable: number;
}

const attention = (B: number, T: number): Case => ({
  name: `attention, ${B} × ${T}`,
  f: (q, k, v) => causalAttention({ q: q!, k: k!, v: v! }),
  args: () => [bf16(B, T, 8, 64), bf16(B, T, 8, 64), bf16(B, T, 4, 64), bf16(B, T, 4, 64)],
  differentiable: 3,
});

const [M, D, F, V] = [4096, 512, 1408, 8192];
const targets = () =>
  hostArray(
    [M],
    "int32",
    Int32Array.from({ length: M }, (_, i) => (i * 7) % V),
  );

const cases: Readonly<Record<string, readonly Case[]>> = {
  attention: [attention(8, 512), attention(2, 2048)],
  loss: [
    {
      name: "loss with the head",
      f: (hidden, head, targets, weights) =>
        crossEntropy({ hidden: hidden!, head: head!, targets: targets!, weights: weights! }).lossSum,
      args: () => [f32(), bf16(M, D), f32(V, D), targets(), f32(M)],
      differentiable: 2,
    },
  ],
  rmsnorm: [
    {
      name: "RMSNorm",
      f: (x, w) => rmsNorm(x!, w!, 1e-5),
      args: () => [bf16(M, D), bf16(M, D), f32(D)],
      differentiable: 2,
    },
  ],
  swiglu: [
    {
      name: "SwiGLU",
      f: (a, b) => swiglu(a!, b!),
      args: () => [bf16(M, F), bf16(M, F), bf16(M, F)],
      differentiable: 2,
    },
  ],
  norm: [
    {
      name: "norm of 32 M",
      f: (...grads) => clipByGlobalNorm(grads, 1).norm,
      args: () => [f32(), ...Array.from({ length: 16 }, () => f32(2048, 1024))],
      differentiable: 0,
    },
  ],
};
const known = [...Object.keys(cases), "step"];

const help = `Each native CPU kernel against the plain lowering of the same function, at the sizes of workload L8.

    npm run bench:native -- [KERNEL …] [rounds=5] [--json]

KERNEL  of ${known.join(", ")} (whole training steps of L8 and L8-long); without it all but step
The two alternate in one process; best of the rounds in process CPU time over cores, which other work on the machine disturbs less than
wall time. It ends with 1 where there are no native kernels.

Example:
    npm run bench:native -- attention rounds=3
`;

interface Measured {
  readonly name: string;
  readonly what: string;
  /** Milliseconds. */
  readonly plain: number;
  readonly native: number;
  readonly losses?: { readonly plain: number; readonly native: number };
}

runBenchmark(async (args) => {
  const { settings, flags, words } = parseArguments(args, { keys: ["rounds"], maxWords: known.length });
  if (flags.has("help")) {
    process.stdout.write(help);
    return;
  }
  const wrong = words.find((word) => !known.includes(word));
  if (wrong !== undefined) throw new UserError("E_BENCH", `unknown kernel "${wrong}"; known: ${known.join(", ")}`);
  const rounds = countOf("rounds", settings.rounds ?? "5");
  ensureKeptMemory();
  const json = flags.has("json");
  const clients = [new Client({ nativeKernels: "off" }), new Client()] as const;
  const found = await nativeKernels(clients[1]);
  if (!found.used) throw new Error(`there are no native kernels here: ${found.reason}`);
  if (!json) process.stdout.write(`${found.instructionSet}, ms by plain lowering and by native kernel\n`);

  const all: Measured[] = [];
  const tell = (measured: Measured) => {
    all.push(measured);
    if (!json) process.stdout.write(lineOf(measured));
  };
  for (const [word, group] of Object.entries(cases)) {
    if (words.length > 0 && !words.includes(word)) continue;
    for (const each of group) {
      for (const [what, f] of Object.entries(functionsOf(each))) {
        tell({ name: each.name, what, ...(await inTurns(clients, { f, args: each.args() }, rounds)) });
      }
    }
  }
  for (const name of words.includes("step") ? ["L8", "L8-long"] : []) {
    const [plain, native] = await stepsInTurns(workloadByName(name), clients, rounds);
    const losses = { plain: plain!.loss, native: native!.loss };
    tell({ name: `step of ${name}`, what: "", plain: Math.min(...plain!.ms), native: Math.min(...native!.ms), losses });
  }
  if (json) process.stdout.write(`${JSON.stringify({ instructionSet: found.instructionSet, rounds, kernels: all })}\n`);
  for (const client of clients) await client.destroy();
  process.exit(0);
});

/** Forward alone, and forward and backward. */
function functionsOf({ f, differentiable }: Case): Record<string, (...args: Tensor[]) => unknown> {
  const forward = (...[, ...args]: Tensor[]) => ({ out: f(...args) });
  if (differentiable === 0) return { forward };
  const both = (...[ct, ...args]: Tensor[]) => {
    const fixed = args.slice(differentiable);
    const { out, pullback } = vjp((...some: Tensor[]) => f(...some, ...fixed), ...args.slice(0, differentiable));
    return { out, cotangents: pullback(ct!) };
  };
  return { forward, "forward and backward": both };
}

/** Best milliseconds of each. */
async function inTurns(
  clients: readonly [plain: Client, native: Client],
  part: { readonly f: (...args: Tensor[]) => unknown; readonly args: readonly HostArray[] },
  rounds: number,
): Promise<{ plain: number; native: number }> {
  const [plain, native] = [await runnable(clients[0], part), await runnable(clients[1], part)];
  const best = { plain: Number.POSITIVE_INFINITY, native: Number.POSITIVE_INFINITY };
  await plain.run();
  await native.run();
  for (let round = 0; round < rounds; round++) {
    best.plain = Math.min(best.plain, 1000 * (await timed(plain.run)).cpu);
    best.native = Math.min(best.native, 1000 * (await timed(native.run)).cpu);
  }
  plain.dispose();
  native.dispose();
  return best;
}

function lineOf({ name, what, plain, native, losses }: Measured): string {
  const numbers = [plain, native].map((ms) => ms.toFixed(2).padStart(9)).join("");
  const shown = losses ? `, losses ${losses.plain.toFixed(5)} and ${losses.native.toFixed(5)}` : "";
  return `${name.padEnd(24)} ${what.padEnd(22)} ${numbers}   ${(plain / native).toFixed(2)} × as fast${shown}\n`;
}
