/**
 * One training step side by side: Halfbyte in BF16 and NVFP4, PyTorch's torch.compile and plain JAX, on the same weights
 * and tokens, alternating in one run so that all meet the same machine. A claim of speed is a ratio of this table.
 * All peers are alive at once; `npm run bench:quantized` keeps two.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArguments } from "../src/cli/arguments.ts";
import { textTable } from "../src/metrics/index.ts";
import {
  checkPeerName,
  lastSteps,
  lossDifference,
  median,
  type Peer,
  runBenchmark,
  spread,
  startPeer,
} from "./peer.ts";
import { type Workload, workloadByName, writeWorkloadFiles } from "./workload.ts";

const help = `One training step of Halfbyte, PyTorch and JAX side by side.

    npm run bench:step -- [workload=L8] [rounds=3] [steps=3] [peers=halfbyte-bf16,halfbyte-nvfp4:mlp_only,torch,jax] [--json]

Example:
    npm run bench:step -- peers=halfbyte-bf16,torch rounds=5

\`bash bench/peers/setup.sh\` installs the Python peers first. Run it on a machine that does nothing else.
`;

async function main(args: readonly string[]): Promise<void> {
  const keys = ["workload", "rounds", "steps", "peers"];
  const { settings, flags } = parseArguments(args, { keys });
  if (flags.has("help")) {
    process.stdout.write(help);
    return;
  }
  const { workload: workloadName = "L8", peers: peerNames = "halfbyte-bf16,halfbyte-nvfp4:mlp_only,torch,jax" } =
    settings;
  const names = peerNames.split(",");
  names.forEach(checkPeerName);
  const workload = workloadByName(workloadName);
  const [rounds, steps] = [Number(settings.rounds ?? 3), Number(settings.steps ?? 3)];
  const folder = await mkdtemp(join(tmpdir(), "halfbyte-bench-"));
  const peers: Peer[] = [];
  try {
    const files = await writeWorkloadFiles(folder, workload, 4);
    for (const name of names) {
      const peer = startPeer(name, workloadName, files);
      peers.push(peer);
      process.stderr.write(`${peer.name}: compiling …\n`);
      // One at a time: compilations would slow each other.
      await peer.ready();
    }
    for (let round = 1; round <= rounds; round++) {
      for (const peer of peers.filter(({ ended }) => !ended)) {
        await peer.run(steps).catch((error: Error) => peer.end(error.message));
        process.stderr.write(`round ${round}/${rounds} ${peer.name}: ${lastSteps(peer, steps)}\n`);
      }
    }
    report(peers, workload, flags.has("json"));
  } finally {
    for (const peer of peers) peer.stop();
    await rm(folder, { recursive: true });
  }
}

function report(peers: readonly Peer[], w: Workload, json: boolean): void {
  const tokens = w.batch * w.seq;
  const base = peers[0]!;
  const rows = peers.map((peer) => ({
    peer: peer.name,
    compileSeconds: peer.compileSeconds,
    medianSeconds: median(peer.seconds),
    bestSeconds: Math.min(...peer.seconds),
    spread: spread(peer.seconds),
    tokensPerSecond: tokens / median(peer.seconds),
    cpuSeconds: median(peer.cpuSeconds),
    speedOfFirst: median(peer.seconds) / median(base.seconds),
    lossDifference: lossDifference(peer.losses, base.losses),
  }));
  if (json) {
    process.stdout.write(`${JSON.stringify({ workload: w, rows })}\n`);
    return;
  }
  const cells = rows.map((row) => [
    row.peer,
    row.compileSeconds.toFixed(1),
    row.medianSeconds.toFixed(3),
    row.bestSeconds.toFixed(3),
    `${(100 * row.spread).toFixed(0)} %`,
    row.tokensPerSecond.toFixed(0),
    `${row.speedOfFirst.toFixed(2)} ×`,
    `${(100 * row.lossDifference).toFixed(2)} %`,
  ]);
  const head = ["peer", "compile s", "median s", "best s", "spread", "tokens/s", `${base.name} is`, "loss differs"];
  process.stdout.write(textTable([head, ...cells]));
}

runBenchmark(main);
