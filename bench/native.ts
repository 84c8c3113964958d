/**
 * `npm run bench:native`: each part of the step that has a native CPU kernel, beside the plain lowering of the same function, at the
 * sizes of workloads L8 and L8-long, alternating in one process.
 */
import { vjp } from "../src/autodiff/index.ts";
import { UserError } from "../src/base/errors.ts";
import { parseArguments } from "../src/cli/arguments.ts";
import { hostArray, type Tensor } from "../src/core/index.ts";
import { causalAttention } from "../src/nn/index.ts";
import { clipByGlobalNorm } from "../src/optim/index.ts";
import { Client, nativeKernels } from "../src/pjrt/index.ts";
import { countOf, ensureKeptMemory, runBenchmark } from "./command.ts";
import { runnable, timed } from "./partRatio.ts";
import { f32, type StepPart, stepParts } from "./stepParts.ts";
import { type Sizes, workloadByName } from "./workload.ts";

const [short, long] = [workloadByName("L8"), workloadByName("L8-long")];

const gradientNorm = (): StepPart => ({
  f: (...grads: Tensor[]) => clipByGlobalNorm(grads, 1).norm,
  args: Array.from({ length: 16 }, () => f32(2048, 1024)),
});

/** Attention within documents of `length` tokens side by side. */
function documentAttention(sizes: Sizes, length: number): StepPart {
  const { batch, seq } = sizes;
  const positions = Int32Array.from({ length: batch * seq }, (_, i) => (i % seq) - ((i % seq) % length));
  const f = (...[ct, q, k, v, starts]: Tensor[]) => {
    const attend = (q: Tensor, k: Tensor, v: Tensor) => causalAttention({ q, k, v, starts: starts! });
    const { out, pullback } = vjp(attend, q!, k!, v!);
    return { out, cotangents: pullback(ct!) };
  };
  return { f, args: [...stepParts.attention(sizes).args, hostArray([batch, seq], "int32", positions)] };
}

/** By the word that asks for them; all but the norm of gradients with their backward passes. */
const cases: Readonly<Record<string, Readonly<Record<string, () => StepPart>>>> = {
  attention: {
    "attention, 8 × 512": () => stepParts.attention(short),
    "attention, 2 × 2048": () => stepParts.attention(long),
  },
  documents: {
    "documents of 128, 8 × 512": () => documentAttention(short, 128),
    "documents of 512, 2 × 2048": () => documentAttention(long, 512),
  },
  loss: { "loss with the head": () => stepParts.loss(short) },
  rmsnorm: { RMSNorm: () => stepParts.norm(short) },
  swiglu: { SwiGLU: () => stepParts.swiglu(short) },
  norm: { "norm of 32 M gradients": gradientNorm },
  step: { "step of L8": () => stepParts.step(short), "step of L8-long": () => stepParts.step(long) },
};
const known = Object.keys(cases);
const usual = known.filter((name) => name !== "step");

const help = `Each part of the step that has a native CPU kernel, beside the plain lowering of the same function, at the sizes of L8 and L8-long.

    npm run bench:native -- [PART …] [rounds=5] [--json]

PART  of ${known.join(", ")} (whole training steps); without it all but step
Forward and backward passes. The two alternate in one process; best of the rounds in process CPU time over cores, which other work on
the machine disturbs less than wall time. It ends with 1 where there are no native kernels.

Example:
    npm run bench:native -- attention rounds=3
`;

interface Measured {
  readonly name: string;
  /** Milliseconds. */
  readonly plain: number;
  readonly native: number;
}

runBenchmark(async (args) => {
  const { settings, flags, words } = parseArguments(args, { keys: ["rounds"], maxWords: known.length });
  if (flags.has("help")) {
    process.stdout.write(help);
    return;
  }
  const wrong = words.find((word) => !known.includes(word));
  if (wrong !== undefined) throw new UserError("E_BENCH", `unknown part "${wrong}"; known: ${known.join(", ")}`);
  const rounds = countOf("rounds", settings.rounds ?? "5");
  ensureKeptMemory();
  const json = flags.has("json");
  const clients = [new Client({ nativeKernels: "off" }), new Client()] as const;
  const found = await nativeKernels(clients[1]);
  if (!found.used) throw new Error(`there are no native kernels here: ${found.reason}`);
  if (!json) process.stdout.write(`${found.instructionSet}, ms by plain lowering and by native kernel\n`);

  const all: Measured[] = [];
  for (const word of words.length > 0 ? words : usual) {
    for (const [name, part] of Object.entries(cases[word]!)) {
      const measured = { name, ...(await inTurns(clients, part(), rounds)) };
      all.push(measured);
      if (!json) process.stdout.write(lineOf(measured));
    }
  }
  if (json) process.stdout.write(`${JSON.stringify({ instructionSet: found.instructionSet, rounds, parts: all })}\n`);
  for (const client of clients) await client.destroy();
  process.exit(0);
});

/** Best milliseconds of each. */
async function inTurns(
  clients: readonly [plain: Client, native: Client],
  part: StepPart,
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

function lineOf({ name, plain, native }: Measured): string {
  const numbers = [plain, native].map((ms) => ms.toFixed(2).padStart(9)).join("");
  return `${name.padEnd(26)} ${numbers}   ${(plain / native).toFixed(2)} × as fast\n`;
}
