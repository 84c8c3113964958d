/**
 * What a part of the step costs as a ratio that the machine's speed cancels from: its time over that of XLA matrix products
 * with as many FLOPs, or, where it contracts nothing, of an XLA loop over as many bytes, the two alternating in this process.
 */
import { availableParallelism } from "node:os";
import { byteLength, hostArray, type Program, trace } from "../src/core/index.ts";
import { disposeTree, jit, putTree } from "../src/jit/index.ts";
import { countOperations, type ListedOperation, lowerToStableHlo } from "../src/lower/index.ts";
import { type Client, type DeviceArray, type Executable, probeOneDnn, put } from "../src/pjrt/index.ts";
import { dotProgram, oneDnnProgram } from "../src/pjrt/matrixProduct.ts";
import { randomValues, type StepPart } from "./stepParts.ts";
import type { Sizes } from "./workload.ts";

/** By process CPU time over cores, which other work hardly moves, and by wall time. */
export interface Times {
  readonly cpu: number;
  readonly wall: number;
}

export interface PartRatio {
  /** What it is compared with: matrix products of as many FLOPs, or a loop over as many bytes. */
  readonly base: "products" | "loop";
  readonly ratio: Times;
  /** Seconds of the part. */
  readonly seconds: Times;
  /** Wall time of the base over its CPU time: about 1 where nothing else runs. */
  readonly busy: number;
}

/** Something compiled, with its inputs. */
export interface Runnable {
  run(): Promise<void>;
  dispose(): void;
}

interface Base extends Runnable {
  /** FLOPs or bytes of a run. */
  readonly work: number;
}

/** Of the base, in a round, at most. */
const baseRunsPerRound = 12;

export async function measureRatio(client: Client, sizes: Sizes, part: StepPart, rounds: number): Promise<PartRatio> {
  const program = trace(part.f, ...(part.args as []));
  const flops = flopsOf(program);
  const base = flops > 0 ? await productBase(client, sizes) : await loopBase(client);
  const work = flops > 0 ? flops : bytesOf(program);
  const own = await runnable(client, part);
  await base.run();
  await own.run();
  const [times, bases]: [Times[], Times[]] = [[], []];
  const baseRuns = Math.max(1, Math.min(baseRunsPerRound, Math.round(work / base.work)));
  for (let round = 0; round < rounds; round++) {
    for (let i = 0; i < baseRuns; i++) bases.push(await timed(base.run));
    times.push(await timed(own.run));
  }
  own.dispose();
  base.dispose();
  const [seconds, unit] = [lowerQuartile(times), lowerQuartile(bases)];
  const scale = work / base.work;
  return {
    base: flops > 0 ? "products" : "loop",
    ratio: { cpu: seconds.cpu / (unit.cpu * scale), wall: seconds.wall / (unit.wall * scale) },
    seconds,
    busy: unit.wall / unit.cpu,
  };
}

/** Seconds of one run. */
export async function timed(run: () => Promise<void>): Promise<Times> {
  const [wall, start] = [performance.now(), process.cpuUsage()];
  await run();
  const { user, system } = process.cpuUsage(start);
  return { cpu: (user + system) / 1e6 / availableParallelism(), wall: (performance.now() - wall) / 1000 };
}

/** Disturbances only add time; the very best may be luck. */
function lowerQuartile(times: readonly Times[]): Times {
  const of = (key: keyof Times) => times.map((x) => x[key]).sort((a, b) => a - b)[Math.floor((times.length - 1) / 4)]!;
  return { cpu: of("cpu"), wall: of("wall") };
}

/** Of the contractions as written, before any kernel takes them over. */
export function flopsOf(program: Program): number {
  const listing: ListedOperation[] = [];
  lowerToStableHlo(program, { listing });
  return countOperations(listing).flops;
}

/** The least that must be read and written. */
const bytesOf = ({ inputs, outputs }: Program): number =>
  [...inputs, ...outputs].reduce((sum, spec) => sum + byteLength(spec), 0);

/** A part compiled, with its arguments on the device; each run disposes of its results. */
export async function runnable(client: Client, { f, args, keepsState = false }: StepPart): Promise<Runnable> {
  const compiled = jit(f as (...args: unknown[]) => unknown, { client, ...(keepsState && { donate: [0] }) });
  const trees = await Promise.all(args.map((tree) => putTree(tree as never, client)));
  return {
    async run() {
      const result = await compiled(...(trees as never[]));
      await client.synchronize();
      if (!keepsState) return disposeTree(result as never);
      const { state, ...rest } = result as { state: never };
      trees[0] = state;
      disposeTree(rest as never);
    },
    dispose() {
      disposeTree(trees as never);
      compiled.dispose();
    },
  };
}

/** One product of the MLP as XLA alone runs it: this text does not depend on Halfbyte's lowering. */
async function productBase(client: Client, { batch, seq, hidden, ffn }: Sizes): Promise<Base> {
  const product = { m: batch * seq, k: hidden, n: ffn, transposeB: true, dtype: "bf16", out: "f32" } as const;
  const { bfloat16 } = await probeOneDnn(client);
  const compiled = await client.compile((bfloat16 ? oneDnnProgram : dotProgram)(product));
  const operand = (rows: number, columns: number) => {
    const bits = new Uint16Array(randomValues(rows * columns).buffer).filter((_, i) => i % 2 === 1);
    return put(hostArray([rows, columns], "bfloat16", bits), client);
  };
  const inputs = [operand(product.m, product.k), operand(product.n, product.k)];
  return { work: 2 * product.m * product.k * product.n, ...runnableOf(compiled, inputs) };
}

const loopElements = 2 ** 23;

/** x + x over 32 MB. */
async function loopBase(client: Client): Promise<Base> {
  const type = `tensor<${loopElements}xf32>`;
  const compiled = await client.compile(`module @loop {
  func.func public @main(%x: ${type}) -> ${type} {
    %y = stablehlo.add %x, %x : ${type}
    return %y : ${type}
  }
}`);
  const inputs = [put(hostArray([loopElements], "float32", randomValues(loopElements)), client)];
  return { work: 2 * 4 * loopElements, ...runnableOf(compiled, inputs) };
}

function runnableOf(compiled: Executable, inputs: readonly DeviceArray[]): Runnable {
  return {
    async run() {
      const { outputs, done } = await compiled.execute(inputs);
      await done;
      for (const output of outputs) output.dispose();
    },
    dispose() {
      for (const owner of [compiled, ...inputs]) owner.dispose();
    },
  };
}
