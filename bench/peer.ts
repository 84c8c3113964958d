/** The peers of the benchmarks: processes that train one workload and speak the line protocol of peers/workload.py. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { keptMemory } from "./command.ts";
import type { HalfbyteChoice, PeerChoice, PythonChoice } from "./peerNames.ts";
import type { Workload, WorkloadFiles } from "./workload.ts";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const cache = process.env.HALFBYTE_CACHE ?? join(homedir(), ".cache", "halfbyte");
const python = join(cache, "peers", "venv", "bin", "python");

/** What a peer says once it has compiled and warmed up. */
export interface Ready {
  readonly compileSeconds: number;
  readonly versions: Readonly<Record<string, string>>;
  readonly settings: Readonly<Record<string, string | number | boolean | null>>;
  /** The BF16 matrix peak of the machine, by Halfbyte alone. */
  readonly peakFlopsPerSecond?: number;
}

interface RunReply {
  readonly seconds: readonly number[];
  readonly cpuSeconds: readonly number[];
  readonly losses: readonly (number | null)[];
}

type Environment = Readonly<Record<string, string | undefined>>;

/** A peer's process and its line protocol. Between its runs it waits for input and uses no CPU. */
export class Peer {
  readonly choice: PeerChoice;
  readonly seconds: number[] = [];
  readonly cpuSeconds: number[] = [];
  readonly losses: (number | null)[] = [];
  readonly #child: ChildProcess;
  readonly #replies: AsyncIterator<string>;

  constructor(choice: PeerChoice, command: string, args: readonly string[], environment: Environment) {
    this.choice = choice;
    const env = { ...process.env, TF_CPP_MIN_LOG_LEVEL: "3", ...environment };
    this.#child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"], env });
    this.#child.stdin!.on("error", () => {}); // It ended; the missing answer tells.
    this.#child.on("error", () => {}); // It did not start; the same.
    this.#replies = createInterface({ input: this.#child.stdout! })[Symbol.asyncIterator]();
  }

  get name(): string {
    return this.choice.name;
  }

  ready(): Promise<Ready> {
    return this.#reply<Ready>();
  }

  async run(steps: number): Promise<void> {
    this.#child.stdin!.write(`run ${steps}\n`);
    const { seconds, cpuSeconds, losses } = await this.#reply<RunReply>();
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

  async #reply<T>(): Promise<T> {
    for (;;) {
      const { value, done } = await this.#replies.next();
      if (done) throw new Error(`${this.name} ended without an answer`);
      if (!value.startsWith("{")) continue;
      const reply = JSON.parse(value);
      if (reply.error !== undefined) throw new Error(`${this.name}: ${reply.error}`);
      return reply;
    }
  }
}

export function startPeer(choice: PeerChoice, workload: Workload, files: WorkloadFiles): Peer {
  return choice.program === "halfbyte" ? startHalfbyte(choice, workload, files) : startPython(choice, workload, files);
}

function startHalfbyte(choice: HalfbyteChoice, { name }: Workload, { init, tokens }: WorkloadFiles): Peer {
  const { recipe, policy, kernels } = choice;
  const args = ["--import", "tsx", here("halfbytePeer.ts"), name, init, tokens, `${recipe}:${policy}`, kernels ?? ""];
  return new Peer(choice, process.execPath, args, {
    ...keptMemory,
    HALFBYTE_COMPILE_CACHE: "off",
    ...(kernels && { HALFBYTE_NATIVE_KERNELS: kernels === "plain" ? "0" : undefined }),
  });
}

function startPython(choice: PythonChoice, w: Workload, { init, tokens }: WorkloadFiles): Peer {
  const { layers, hidden, heads, kv, ffn, vocab, batch, seq, dtype } = w;
  const sizes = Object.entries({ layers, hidden, heads, kv, ffn, vocab, batch, seq, dtype, init, tokens });
  const switches = [...(w.tied ? ["--tied"] : []), ...(w.forward ? ["--forward"] : [])];
  const args = [...sizes.flatMap(([key, value]) => [`--${key}`, String(value)]), ...switches, ...choice.args];
  // The script itself sets the allocator it is told.
  return new Peer(choice, python, [here(`peers/${choice.script}`), ...args], {
    GLIBC_TUNABLES: undefined,
    LD_PRELOAD: undefined,
  });
}

/** Installs the Python peers where they are wanted and not there. @throws Error where that fails */
export function setUpPython(choices: readonly PeerChoice[]): void {
  if (existsSync(python) || !choices.some(({ program }) => program === "python")) return;
  const { status } = spawnSync("bash", [here("peers/setup.sh")], { stdio: ["ignore", 2, 2] });
  if (status !== 0) throw new Error("bench/peers/setup.sh failed; peers=halfbyte,… needs no Python");
}
