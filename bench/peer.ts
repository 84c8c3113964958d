/** The peers of the benchmarks: processes that train one workload and speak the line protocol of peers/workload.py. */
import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { UserError } from "../src/base/errors.ts";
import { nearest } from "../src/base/nearest.ts";
import { policyNames, recipeByName } from "../src/quant/index.ts";
import { type WorkloadFiles, workloadByName } from "./workload.ts";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const cache = process.env.HALFBYTE_CACHE ?? join(homedir(), ".cache", "halfbyte");
/** What the launcher sets: memory kept by the allocator between steps. Every peer gets it (docs/performance.md). */
const tunables = readFileSync(here("../bin/glibc-tunables"), "utf8").trim();

interface RunReply {
  readonly seconds: readonly number[];
  readonly cpuSeconds?: readonly number[];
  readonly losses: readonly (number | null)[];
}

/** A peer's process and its line protocol. */
export class Peer {
  readonly name: string;
  readonly seconds: number[] = [];
  readonly cpuSeconds: number[] = [];
  readonly losses: (number | null)[] = [];
  compileSeconds = 0;
  ended = false;
  readonly #child: ChildProcess;
  readonly #replies: AsyncIterator<string>;

  constructor(name: string, command: string, args: readonly string[], allocator: string = tunables) {
    this.name = name;
    const settings = { GLIBC_TUNABLES: allocator, TF_CPP_MIN_LOG_LEVEL: "3", HALFBYTE_COMPILE_CACHE: "off" };
    const env = { ...process.env, ...settings };
    this.#child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"], env });
    this.#child.stdin!.on("error", () => {}); // It ended; the missing answer tells.
    this.#child.on("error", () => {}); // It did not start; the same.
    this.#replies = createInterface({ input: this.#child.stdout! })[Symbol.asyncIterator]();
  }

  async ready(): Promise<void> {
    const reply = (await this.#reply()) as { compileSeconds: number };
    this.compileSeconds = reply.compileSeconds;
  }

  async run(steps: number): Promise<void> {
    this.#child.stdin!.write(`run ${steps}\n`);
    const { seconds, cpuSeconds = [], losses } = (await this.#reply()) as RunReply;
    this.seconds.push(...seconds);
    this.cpuSeconds.push(...cpuSeconds);
    this.losses.push(...losses);
  }

  /** Back to the first step and batch; what it measured is forgotten. */
  async reset(): Promise<void> {
    this.#child.stdin!.write("reset\n");
    await this.#reply();
    for (const list of [this.seconds, this.cpuSeconds, this.losses]) list.length = 0;
  }

  stop(): void {
    this.#child.kill();
  }

  /** It takes no part in later rounds; what it measured stays. */
  end(reason: string): void {
    this.ended = true;
    process.stderr.write(`${reason}\n`);
  }

  async #reply(): Promise<unknown> {
    for (;;) {
      const { value, done } = await this.#replies.next();
      if (done) throw new Error(`${this.name} ended without an answer`);
      if (value.startsWith("{")) return JSON.parse(value);
    }
  }
}

const ownPrefix = "halfbyte-";

/** What PyTorch's peer can quantize its linear layers with: the names of peers/quantized_linears.py. */
export const torchQuantizations = [
  "torchao-fp8",
  "torchao-fp8-rowwise",
  "torchao-mxfp8",
  "torchao-mxfp4",
  "microxcaling-mxfp8",
  "microxcaling-mxfp4",
  "microxcaling-mxfp4-sr",
  "fouroversix-nvfp4",
  "fouroversix-nvfp4-4over6",
] as const;

const pythonPeers: readonly string[] = ["torch", "jax", ...torchQuantizations.map((name) => `torch-${name}`)];

/**
 * Checks a peer's name: halfbyte-RECIPE[:POLICY], torch, torch-LIBRARY-RECIPE or jax. Call it before anything compiles.
 *
 * @throws UserError (E_BENCH, or what the recipe's name throws) for a name that is none.
 */
export function checkPeerName(name: string): void {
  if (name.startsWith(ownPrefix)) {
    const [recipe = "", policy = "all_linear"] = name.slice(ownPrefix.length).split(":");
    recipeByName(recipe);
    if (policyNames.some((known) => known === policy)) return;
    throw new UserError("E_BENCH", `peer "${name}": unknown policy "${policy}"; known: ${policyNames.join(", ")}`);
  }
  if (pythonPeers.includes(name)) return;
  const near = nearest(name, pythonPeers);
  throw new UserError(
    "E_BENCH",
    `unknown peer "${name}"; ${near ? `did you mean ${near}?` : `known: ${ownPrefix}RECIPE[:POLICY], ${pythonPeers.join(", ")}`}`,
  );
}

/** Starts the process of a peer whose name `checkPeerName` takes. */
export function startPeer(name: string, workloadName: string, files: WorkloadFiles): Peer {
  if (name.startsWith(ownPrefix)) return startHalfbyte(name.slice(ownPrefix.length), workloadName, files);
  return startPython(name, workloadName, files);
}

function startHalfbyte(quantization: string, workloadName: string, { init, tokens }: WorkloadFiles): Peer {
  const script = here("halfbytePeer.ts");
  const args = ["--import", "tsx", script, workloadName, init, tokens, quantization];
  return new Peer(`halfbyte ${quantization}`, process.execPath, args);
}

/** JAX keeps the system's allocator settings: with kept memory its heap grew past 14 GB in ten steps. */
function startPython(name: string, workloadName: string, { init, tokens }: WorkloadFiles): Peer {
  const sizes = Object.entries(workloadByName(workloadName)).flatMap(([key, value]) => [`--${key}`, String(value)]);
  const python = join(cache, "peers", "venv", "bin", "python");
  const [framework = ""] = name.split("-");
  const args = [here(`peers/${framework}_l8.py`), ...sizes, "--init", init, "--tokens", tokens];
  if (framework === "jax") return new Peer(name, python, [...args, "--system-malloc"], "");
  // Steps of emulated layers take long: one before the measured ones is enough to have compiled.
  const quantized = name === framework ? [] : ["--quantized", name.slice(framework.length + 1), "--warmup", "1"];
  return new Peer(name, python, [...args, ...quantized]);
}

export const median = (list: readonly number[]): number =>
  [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)] ?? Number.NaN;

/** How much of the best time the worst lies above it. */
export const spread = (list: readonly number[]): number => Math.max(...list) / Math.min(...list) - 1;

/** The largest relative difference of the losses of the same steps; NaN where one is not finite. */
export function lossDifference(losses: readonly (number | null)[], base: readonly (number | null)[]): number {
  return Math.max(...losses.map((loss, i) => Math.abs((loss ?? Number.NaN) / (base[i] ?? Number.NaN) - 1)));
}

/** "1.234 1.250 s": the last `count` steps. */
export const lastSteps = (peer: Peer, count: number): string =>
  `${peer.seconds
    .slice(-count)
    .map((s) => s.toFixed(3))
    .join(" ")} s`;

/** Runs a benchmark's main function: a user's mistake ends it with 2, another failure with 1. */
export function runBenchmark(main: (args: readonly string[]) => Promise<void>): void {
  main(process.argv.slice(2)).catch((error: unknown) => {
    process.stderr.write(`${error instanceof Error ? error.message : error}\n`);
    process.exit(error instanceof UserError ? 2 : 1);
  });
}
