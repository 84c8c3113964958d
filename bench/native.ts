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
import { causalAttention } from "../src/nn/index.ts";
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

interface Case {
  readonly name: string;
  readonly f: (...args: Tensor[]) => Tensor;
  /** Shapes of the arguments; the first is also the result's. */
  readonly shapes: readonly (readonly number[])[];
}

const attention = (B: number, T: number): Case => ({
  name: `attention, ${B} × ${T}`,
  f: (q, k, v) => causalAttention({ q: q!, k: k!, v: v! }),
  shapes: [
    [B, T, 8, 64],
    [B, T, 4, 64],
    [B, T, 4, 64],
  ],
});

const cases: readonly Case[] = [attention(8, 512), attention(2, 2048)];

/** Forward alone, and forward and backward. */
function functionsOf({ f }: Case) {
  const both = (...[ct, ...args]: Tensor[]) => {
    const { out, pullback } = vjp(f, ...args);
    return { out, cotangents: pullback(ct!) };
  };
  return { forward: (...[, ...args]: Tensor[]) => f(...args), "forward and backward": both };
}

function put16(client: Client, shape: readonly number[]): DeviceArray {
  const size = shape.reduce((a, b) => a * b, 1);
  const bits = Uint16Array.from({ length: size }, () => new Uint16Array(Float32Array.of(draw()).buffer)[1]!);
  return put(hostArray(shape, "bfloat16", bits), client);
}

const clients = { plain: new Client({ nativeKernels: "off" }), native: new Client() };
const found = await nativeKernels(clients.native);
if (!found.used) {
  process.stderr.write(`there are no native kernels here: ${found.reason}\n`);
  process.exit(1);
}
process.stdout.write(`${found.instructionSet}, ms by plain lowering and by native kernel\n`);
for (const part of cases.filter(({ name }) => chosen.length === 0 || chosen.some((word) => name.startsWith(word)))) {
  for (const [what, f] of Object.entries(functionsOf(part))) {
    const sides = await Promise.all(
      Object.values(clients).map(async (client) => {
        const args = [part.shapes[0]!, ...part.shapes].map((shape) => put16(client, shape));
        const compiled = jit(f as (...args: Tensor[]) => unknown, { client });
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
