/** `npm run bench:parts`: the parts of a training step alone, forward and backward: where its time goes. */

import { parseArguments } from "../src/cli/arguments.ts";
import { dot, type Tensor, trace } from "../src/core/index.ts";
import type { AttentionTiles } from "../src/nn/index.ts";
import { Client, nativeKernels } from "../src/pjrt/index.ts";
import { countOf, ensureKeptMemory, runBenchmark } from "./command.ts";
import { flopsOf, runnable, timed } from "./partRatio.ts";
import { bf16, type PartName, type StepPart, stepParts } from "./stepParts.ts";
import { type Sizes, workloadByName } from "./workload.ts";

const help = `The parts of a training step alone, forward and backward, at a workload's sizes: where its time goes.

    npm run bench:parts -- [workload=L8] [rounds=12] [--json]

Products of the linear layers, the parts of the step, and attention by other numbers of rows and key heads at a time. The latter are
what XLA runs without native kernels; the others use them where they are there (HALFBYTE_NATIVE_KERNELS=0: nowhere).
Best of the rounds in process CPU time over cores, which other work on the machine disturbs less than wall time.

Example:
    npm run bench:parts -- workload=tiny rounds=3
`;

interface NamedPart {
  readonly name: string;
  readonly part: () => StepPart;
  /** Without native kernels: they have tiles of their own. */
  readonly plain?: true;
}

runBenchmark(async (args) => {
  const { settings, flags } = parseArguments(args, { keys: ["workload", "rounds"] });
  if (flags.has("help")) {
    process.stdout.write(help);
    return;
  }
  const workload = workloadByName(settings.workload ?? "L8");
  const rounds = countOf("rounds", settings.rounds ?? "12");
  ensureKeptMemory();
  const json = flags.has("json");
  const [client, plain] = [new Client(), new Client({ nativeKernels: "off" })];
  const found = await nativeKernels(client);
  const kernels = found.used ? `native kernels ${found.instructionSet}` : `no native kernels: ${found.reason}`;
  if (!json) process.stdout.write(`${workload.name}, ${kernels}\n\n`);

  const parts = [];
  for (const { name, part, plain: isPlain = false } of [
    ...products(workload),
    ...ownParts(workload),
    ...tiledAttention(workload),
  ]) {
    const { seconds, flops } = await measure(isPlain ? plain : client, part(), rounds);
    parts.push({ name, seconds, flops, nativeKernels: found.used && !isPlain });
    if (!json) process.stdout.write(lineOf(name, seconds, flops));
  }
  if (json) process.stdout.write(`${JSON.stringify({ workload: workload.name, kernels, parts })}\n`);
  await client.destroy();
  await plain.destroy();
  process.exit(0);
});

async function measure(client: Client, part: StepPart, rounds: number): Promise<{ seconds: number; flops: number }> {
  const flops = flopsOf(trace(part.f, ...(part.args as [])));
  const compiled = await runnable(client, part);
  await compiled.run();
  let seconds = Number.POSITIVE_INFINITY;
  for (let round = 0; round < rounds; round++) seconds = Math.min(seconds, (await timed(compiled.run)).cpu);
  compiled.dispose();
  return { seconds, flops };
}

function lineOf(name: string, seconds: number, flops: number): string {
  const rate = flops === 0 ? "" : `  ${(flops / seconds / 1e12).toFixed(2)} TFLOP/s`;
  return `${name.padEnd(72)} ${(seconds * 1000).toFixed(2).padStart(8)} ms${rate}\n`;
}

/** Of linear layers from K to N: forward, and the weight's gradient. */
function products({ batch, seq, hidden, ffn }: Sizes): NamedPart[] {
  const M = batch * seq;
  const pairs = [
    [hidden, hidden],
    [hidden, ffn],
    [ffn, hidden],
  ] as const;
  return pairs.flatMap(([K, N]) => {
    const fprop = (x: Tensor, w: Tensor) => dot(x, w, { contract: [[1], [1]] });
    const wgrad = (dy: Tensor, x: Tensor) => dot(dy, x, { contract: [[0], [0]], out: "float32" });
    return [
      { name: `fprop ${K}×${N}`, part: () => ({ f: fprop, args: [bf16(M, K), bf16(N, K)] }) },
      { name: `wgrad ${K}×${N}`, part: () => ({ f: wgrad, args: [bf16(M, N), bf16(M, K)] }) },
    ];
  });
}

const ownParts = (w: Sizes): NamedPart[] =>
  (Object.keys(stepParts) as PartName[])
    .filter((name) => !name.startsWith("step"))
    .map((name) => ({ name, part: () => stepParts[name](w) }));

function tiledAttention(w: Sizes): NamedPart[] {
  const tiles: AttentionTiles[] = [
    { rows: 64, heads: 16 },
    { rows: 64, heads: 64 },
    { rows: 128, heads: 4 },
    { rows: 128, heads: 16 },
    { rows: 128, heads: 32 },
    { rows: 256, heads: 16 },
  ];
  return tiles.map((each) => ({
    name: `attention without native kernels, ${each.rows} rows, ${each.heads} key heads at a time`,
    part: () => stepParts.attention(w, each),
    plain: true,
  }));
}
