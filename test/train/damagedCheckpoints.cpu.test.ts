/** Runs that go on before newer checkpoints that are damaged, although their files have the right size. */
import { readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { checkpointPath } from "../../src/checkpoint/index.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { ensureBuilt, halfbyte } from "./halfbyte.ts";
import { tinyKeys } from "./tinyRun.ts";

beforeAll(ensureBuilt);

describe("a run with a newest checkpoint in which a bit has flipped", () => {
  it("keeps what it saves, counts the damaged one as nothing, and chooses another best one", async () => {
    const base = temporaryFolder();
    const run = join(base, "run");
    const checkpoints = join(run, "checkpoints");
    const train = async (...keys: string[]) => {
      const own = ["max_num_checkpoints_to_keep=1", "learning_rate_schedule_steps=8", "run_name=run"];
      const ended = await halfbyte(["train", ...tinyKeys, ...own, `base_output_directory=${base}`, ...keys]);
      expect(ended.exitCode, ended.stderr).toBe(0);
      return ended.stdout;
    };
    await train("steps=6", "checkpoint_period=3", "checkpoint_keep_period=3");
    const file = join(checkpointPath(checkpoints, 6), "optimizer.safetensors");
    const bytes = readFileSync(file);
    bytes[bytes.length - 9]! ^= 1;
    writeFileSync(file, bytes);
    const record = join(run, "best.json");
    const best = JSON.parse(readFileSync(record, "utf8"));
    expect(best.step).toBe(6);
    writeFileSync(record, JSON.stringify({ ...best, loss: 0.001 }));

    const stdout = await train("steps=5", "checkpoint_period=1", "checkpoint_keep_period=3");
    expect(stdout).toMatch(/step-00000006 is not used: [^\n]+\nresuming from \S+step-00000003\n/);
    const kept = (...steps: number[]) => steps.map((step) => `step-0000000${step}`);
    expect(readdirSync(checkpoints).sort()).toEqual(kept(3, 5, 6));
    expect(JSON.parse(readFileSync(record, "utf8"))).toMatchObject({ step: 5 });
    expect(readlinkSync(join(run, "best"))).toBe("checkpoints/step-00000005");

    // Gone over without a save of its own, it is neither deleted nor one of those that stay.
    await train("steps=8", "checkpoint_period=7", "keep_best_checkpoint=false");
    expect(readdirSync(checkpoints).sort()).toEqual(kept(6, 8));
  });
});

describe("a run whose config.json is damaged or gone", () => {
  it("does not go on, and another one goes on with its state as the message says", async () => {
    const base = temporaryFolder();
    const train = (...keys: string[]) =>
      halfbyte(["train", ...tinyKeys, "learning_rate_schedule_steps=4", `base_output_directory=${base}`, ...keys]);
    expect((await train("run_name=a", "steps=2")).exitCode).toBe(0);
    const config = join(base, "a", "config.json");
    const step = checkpointPath(join(base, "a", "checkpoints"), 2);
    for (const [damage, why] of [
      [() => writeFileSync(config, '{"steps": '), "JSON"],
      [() => rmSync(config), "there is no such file or folder"],
    ] as const) {
      damage();
      const { exitCode, stderr } = await train("run_name=a", "steps=4");
      expect([exitCode, stderr]).toEqual([2, expect.stringContaining(why)]);
      expect(stderr).toContain(
        `put it back, or begin another run_name with this one's state by load_full_state_path=${step}; `,
      );
    }
    writeFileSync(config, '{"steps": ');
    const rescued = await train("run_name=b", "steps=4", `load_full_state_path=${step}`);
    expect(rescued.exitCode, rescued.stderr).toBe(0);
    expect(rescued.stdout).toContain(`state from ${step}: the run begins with step 3, under its own settings`);
  });
});
