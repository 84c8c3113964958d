/**
 * A training process that is killed while it saves, again and again: each time it goes on, to the bits of a run that nothing
 * happened to. HALFBYTE_KILLS says how often.
 */
import { readdirSync, watch } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, describe, expect, it } from "vitest";
import { listCheckpoints, newestCheckpoint } from "../../src/checkpoint/index.ts";
import { latestByStep } from "../../src/metrics/index.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { ensureBuilt, halfbyte, type StartOptions } from "./halfbyte.ts";
import { eventsOf, ofType, stateHashes } from "./runFiles.ts";

beforeAll(ensureBuilt);

const kills = Number(process.env.HALFBYTE_KILLS ?? 10);
/** More than the steps between two kills, on average by far. */
const steps = 8 * kills + 20;
/** In [0, 1), by mulberry32: the moments are drawn alike each time, as far as the machine keeps to them. */
function drawsOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A short step whose program the compile cache holds, so that a process is little more than its start; 1.6 MB of state, so that saves take most of it. */
const train = (base: string, run: string, keep: number, options?: StartOptions) =>
  halfbyte(
    [
      ...["train", "dataset_type=synthetic", "vocab_size=2048", "emb_dim=64", "mlp_dim=16", "num_decoder_layers=1"],
      ...["num_query_heads=1", "num_kv_heads=1", "head_dim=16", "max_target_length=8", "per_device_batch_size=1"],
      ...["dtype=float32", "eval_steps=1", `steps=${steps}`, "checkpoint_period=1"],
      ...[`max_num_checkpoints_to_keep=${keep}`, `base_output_directory=${base}`, `run_name=${run}`, "--json"],
    ],
    options,
  );

/** Resolves when the next save has begun. */
function nextSave(checkpoints: string): Promise<void> {
  return new Promise((resolve) => {
    const watcher = watch(checkpoints, (_, name) => {
      if (!name?.includes(".tmp-")) return;
      watcher.close();
      resolve();
    });
  });
}

describe("a run that is killed while it saves", () => {
  it(`goes on ${kills} times, and ends at the same bits`, { timeout: 60_000 + 6000 * kills }, async () => {
    const base = temporaryFolder();
    const [straight, killed] = [join(base, "straight"), join(base, "killed")];
    const whole = await train(base, "straight", -1);
    expect(whole.exitCode, whole.stderr).toBe(0);

    const draw = drawsOf(7);
    const saveMilliseconds = 1000 * Math.min(...ofType(eventsOf(straight), "checkpoint").map(({ seconds }) => seconds));
    const checkpoints = join(killed, "checkpoints");
    let [unfinished, before] = [0, 0];
    let leftBehind = false;
    for (let kill = 1; kill <= kills; kill++) {
      const saves = 1 + Math.floor(3 * draw());
      const wait = draw() * saveMilliseconds;
      let aimed = false;
      const { signal, stderr } = await train(base, "killed", 2, {
        onOutput: (stdout, child) => {
          if (aimed || stdout.split('"type":"checkpoint"').length <= saves) return;
          aimed = true;
          void nextSave(checkpoints).then(async () => {
            await sleep(wait);
            child.kill("SIGKILL");
          });
        },
      });
      expect(signal, `kill ${kill}: ${stderr}`).toBe("SIGKILL");
      if (kill > 1) expect(stderr.includes("was not finished: its process ended"), `kill ${kill}`).toBe(leftBehind);
      leftBehind = readdirSync(checkpoints).some((name) => name.includes(".tmp-"));
      if (leftBehind) unfinished++;
      const damaged: string[] = [];
      const newest = await newestCheckpoint(checkpoints, ({ path }, fault) => damaged.push(`${path}: ${fault}`));
      // What lies under a checkpoint's name is whole, whenever the process died.
      expect(damaged, `kill ${kill}`).toEqual([]);
      expect(newest!.step, `kill ${kill}`).toBeGreaterThanOrEqual(before + saves);
      expect(stateHashes(killed, newest!.step), `kill ${kill}`).toEqual(stateHashes(straight, newest!.step));
      before = newest!.step;
    }
    // Most moments were amid a save.
    expect(unfinished).toBeGreaterThan(kills / 2);

    const last = await train(base, "killed", 2);
    expect(last.exitCode, last.stderr).toBe(0);
    expect(stateHashes(killed, steps)).toEqual(stateHashes(straight, steps));
    expect(listCheckpoints(checkpoints).map(({ step }) => step)).toEqual([steps - 1, steps]);
    expect(readdirSync(checkpoints).filter((name) => name.startsWith("."))).toEqual([]);
    const events = eventsOf(killed);
    expect(ofType(events, "start")).toHaveLength(kills + 1);
    const losses = (run: string) => latestByStep(eventsOf(run), "step").map(({ step, loss }) => [step, loss]);
    expect(losses(killed)).toEqual(losses(straight));
  });
});
