/**
 * One training step side by side: Halfbyte in BF16 and NVFP4, PyTorch's torch.compile and plain JAX, on the same weights
 * and tokens, alternating in one run so that all meet the same machine. A claim of speed is a ratio of this table.
 *
 *     npm run bench:step -- [workload=L8] [rounds=3] [steps=3] [peers=halfbyte-bf16,halfbyte-nvfp4:mlp_only,torch,jax] [json=true]
 *
 * `bash bench/peers/setup.sh` installs the Python peers first. Run it on a machine that does nothing else.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { UserError } from "../src/base/errors.ts";
import { type Workload, type WorkloadFiles, workloadByName, writeWorkloadFiles } from "./workload.ts";

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
class Peer {
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

type Start = (name: string, workload: Workload, files: WorkloadFiles) => Peer;

function startHalfbyte(quantization: string): Start {
  return (name, _, files) =>
    new Peer(`halfbyte ${quantization}`, process.execPath, [
      "--import",
      "tsx",
      here("halfbytePeer.ts"),
      name,
      files.init,
      files.tokens,
      quantization,
    ]);
}

/** JAX keeps the system's allocator settings: with kept memory its heap grew past 14 GB in ten steps. */
function startPython(peer: string): Start {
  return (_, w, files) => {
    const sizes = Object.entries(w).flatMap(([key, value]) => [`--${key}`, String(value)]);
    const python = join(cache, "peers", "venv", "bin", "python");
    const given = ["--init", files.init, "--tokens", files.tokens];
    const [more, allocator] = peer === "jax" ? [["--system-malloc"], ""] : [[], tunables];
    return new Peer(peer, python, [here(`peers/${peer}_l8.py`), ...sizes, ...given, ...more], allocator);
  };
}

const starters: Readonly<Record<string, Start>> = {
  torch: startPython("torch"),
  jax: startPython("jax"),
};

const ownPrefix = "halfbyte-";

/** How a peer starts: halfbyte-RECIPE[:POLICY], or one of the others by its name. */
function starterOf(name: string): Start {
  if (name.startsWith(ownPrefix)) return startHalfbyte(name.slice(ownPrefix.length));
  const start = starters[name];
  if (start) return start;
  throw new UserError(
    "E_BENCH",
    `unknown peer "${name}"; known: ${ownPrefix}RECIPE[:POLICY], ${Object.keys(starters).join(", ")}`,
  );
}

const median = (list: readonly number[]): number =>
  [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)] ?? Number.NaN;

async function main(args: readonly string[]): Promise<void> {
  const settings = {
    workload: "L8",
    rounds: "3",
    steps: "3",
    peers: "halfbyte-bf16,halfbyte-nvfp4:mlp_only,torch,jax",
    json: "false",
  };
  for (const arg of args) {
    const [key = "", value = ""] = arg.split("=");
    if (!(key in settings))
      throw new UserError("E_BENCH", `unknown setting "${key}"; known: ${Object.keys(settings).join(", ")}`);
    settings[key as keyof typeof settings] = value;
  }
  const workload = workloadByName(settings.workload);
  const [rounds, steps] = [Number(settings.rounds), Number(settings.steps)];
  const folder = await mkdtemp(join(tmpdir(), "halfbyte-bench-"));
  const peers: Peer[] = [];
  try {
    const files = await writeWorkloadFiles(folder, workload, 4);
    for (const name of settings.peers.split(",")) {
      const peer = starterOf(name)(settings.workload, workload, files);
      peers.push(peer);
      process.stderr.write(`${peer.name}: compiling …\n`);
      // One at a time: compilations would slow each other.
      await peer.ready();
    }
    for (let round = 1; round <= rounds; round++) {
      for (const peer of peers.filter(({ ended }) => !ended)) {
        await peer.run(steps).catch((error: Error) => peer.end(error.message));
        process.stderr.write(
          `round ${round}/${rounds} ${peer.name}: ${peer.seconds
            .slice(-steps)
            .map((s) => s.toFixed(3))
            .join(" ")} s\n`,
        );
      }
    }
    report(peers, workload, settings.json === "true");
  } finally {
    for (const peer of peers) peer.stop();
    await rm(folder, { recursive: true });
  }
}

function report(peers: readonly Peer[], w: Workload, json: boolean): void {
  const tokens = w.batch * w.seq;
  const base = peers[0]!;
  const rows = peers.map((peer) => {
    const best = Math.min(...peer.seconds);
    return {
      peer: peer.name,
      compileSeconds: peer.compileSeconds,
      medianSeconds: median(peer.seconds),
      bestSeconds: best,
      spread: Math.max(...peer.seconds) / best - 1,
      tokensPerSecond: tokens / median(peer.seconds),
      cpuSeconds: median(peer.cpuSeconds),
      speedOfFirst: median(peer.seconds) / median(base.seconds),
      lossDifference: Math.max(
        ...peer.losses.map((loss, i) => Math.abs((loss ?? Number.NaN) / (base.losses[i] ?? Number.NaN) - 1)),
      ),
    };
  });
  if (json) {
    process.stdout.write(`${JSON.stringify({ workload: w, rows })}\n`);
    return;
  }
  const cells = [
    ["peer", "compile s", "median s", "best s", "spread", "tokens/s", `${base.name} is`, "loss differs"],
    ...rows.map((row) => [
      row.peer,
      row.compileSeconds.toFixed(1),
      row.medianSeconds.toFixed(3),
      row.bestSeconds.toFixed(3),
      `${(100 * row.spread).toFixed(0)} %`,
      row.tokensPerSecond.toFixed(0),
      `${row.speedOfFirst.toFixed(2)} ×`,
      `${(100 * row.lossDifference).toFixed(2)} %`,
    ]),
  ];
  const widths = cells[0]!.map((_, i) => Math.max(...cells.map((row) => row[i]!.length)));
  for (const row of cells)
    process.stdout.write(
      `${row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))).join("  ")}\n`,
    );
}

main(process.argv.slice(2)).catch((error: unknown) => {
  process.stderr.write(`${error instanceof Error ? error.message : error}\n`);
  process.exit(error instanceof UserError ? 2 : 1);
});
