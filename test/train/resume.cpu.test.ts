/** Runs that go on, as processes: to the same bits as a run that was never stopped. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { latestByStep } from "../../src/metrics/index.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { ensureBuilt, halfbyte, type StartOptions } from "./halfbyte.ts";
import { eventsOf, ofType, stateHashes } from "./runFiles.ts";
import { tinyKeys } from "./tinyRun.ts";

beforeAll(ensureBuilt);

const train = (keys: readonly string[], options?: StartOptions) => halfbyte(["train", ...tinyKeys, ...keys], options);

describe("a resumed run", () => {
  it.each([
    ["bfloat16, with validation between", ["eval_interval=4"]],
    ["nvfp4, two micro-batches a step", ["quantization=nvfp4", "gradient_accumulation_steps=2"]],
    [
      "fp8_delayed_scaling, two micro-batches a step, with validation between",
      ["quantization=fp8_delayed_scaling", "gradient_accumulation_steps=2", "eval_interval=4"],
    ],
    ["float16, with a loss scale that changes", ["dtype=float16", "loss_scale_growth_interval=3", "eval_interval=7"]],
  ])("F1: 20 steps are 10 and 10 more, bit for bit: %s", async (_, own) => {
    const base = temporaryFolder();
    const keys = [...own, "learning_rate_schedule_steps=20", "checkpoint_period=10", `base_output_directory=${base}`];
    const [straight, parts] = [join(base, "straight"), join(base, "parts")];
    const whole = await train([...keys, "run_name=straight", "steps=20"]);
    expect(whole.exitCode, whole.stderr).toBe(0);
    expect((await train([...keys, "run_name=parts", "steps=10"])).exitCode).toBe(0);
    const resumed = await train([...keys, "run_name=parts", "steps=20"]);
    expect(resumed.exitCode, resumed.stderr).toBe(0);
    expect(resumed.stdout).toContain(`resuming from ${join(parts, "checkpoints", "step-00000010")}`);
    for (const step of [10, 20]) expect(stateHashes(parts, step)).toEqual(stateHashes(straight, step));
    const numbers = (run: string) => {
      const events = eventsOf(run);
      const steps = latestByStep(events, "step").map(({ step, loss, gradNorm, lossScale }) => [
        step,
        loss,
        gradNorm,
        lossScale,
      ]);
      // The validation after step 10 was the first part's last.
      const evals = latestByStep(events, "eval").filter(({ step }) => step !== 10);
      return { steps, evals: evals.map(({ step, loss }) => [step, loss]) };
    };
    expect(numbers(parts)).toEqual(numbers(straight));
    expect(numbers(parts).steps).toHaveLength(20);
  });

  it("F6: after a kill has one row for each step, those of the second time, and the restart is marked", async () => {
    const base = temporaryFolder();
    const run = join(base, "a");
    const keys = ["steps=400", "checkpoint_period=100", `base_output_directory=${base}`, "run_name=a"];
    const killed = await train(keys, {
      onOutput: (stdout, child) => {
        if (/step-00000100 in [\s\S]*completed step: [1-3]\d\d,/.test(stdout)) child.kill("SIGKILL");
      },
    });
    expect(killed.signal).toBe("SIGKILL");
    const before = ofType(eventsOf(run), "step").at(-1)!.step;
    expect(before).toBeGreaterThan(100);
    const again = await train(keys);
    expect(again.exitCode, again.stderr).toBe(0);

    const events = eventsOf(run);
    const [first, second] = ofType(events, "start");
    expect(first!.resumed).toBe(undefined);
    expect(second).toMatchObject({ resumed: true });
    const from = second!.step;
    expect(from % 100).toBe(0);
    expect(from).toBeLessThan(before);
    const rows = latestByStep(events, "step");
    expect(rows.map(({ step }) => step)).toEqual(Array.from({ length: 400 }, (_, i) => i + 1));
    const restart = events.indexOf(second!);
    for (const row of rows) expect(events.indexOf(row) > restart, `step ${row.step}`).toBe(row.step > from);
    // What was computed again came out the same.
    const repeated = ofType(events.slice(0, restart), "step").filter(({ step }) => step > from);
    for (const { step, loss } of repeated) expect(rows[step - 1]!.loss).toBe(loss);
  });

  it("F4: goes on with another cut of the batch: the same steps, learning rates and tokens, losses within 1e-5", async () => {
    const base = temporaryFolder();
    const others = tinyKeys.filter((key) => !key.startsWith("per_device_batch_size="));
    const cut = (batch: number, microBatches: number, ...keys: string[]) =>
      halfbyte([
        ...["train", ...others, `per_device_batch_size=${batch}`, `gradient_accumulation_steps=${microBatches}`],
        ...[`base_output_directory=${base}`, "learning_rate_schedule_steps=12", "checkpoint_period=6", ...keys],
      ]);
    const straight = await cut(1, 4, "run_name=straight", "steps=12");
    expect(straight.exitCode, straight.stderr).toBe(0);
    expect((await cut(1, 4, "run_name=a", "steps=6")).exitCode).toBe(0);
    const other = await cut(4, 2, "run_name=a", "steps=12");
    expect(other.exitCode).toBe(2);
    expect(other.stderr).toMatch(
      /was started with other settings:\n {2}per_device_batch_size: 1 → 4\n {2}gradient_accumulation_steps: 4 → 2\nSet them back to resume it; per_device_batch_size times gradient_accumulation_steps must stay 4, or /,
    );
    const resumed = await cut(4, 1, "run_name=a", "steps=12", "remat_policy=full", "scan_layers=true");
    expect(resumed.exitCode, resumed.stderr).toBe(0);
    expect(resumed.stdout).toContain(
      "from here on: per_device_batch_size 1 → 4, gradient_accumulation_steps 4 → 1, remat_policy none → full, scan_layers false → true; the same sequences, steps and learning rates, with other rounding\n",
    );
    const [wanted, got] = ["straight", "a"].map((run) => latestByStep(eventsOf(join(base, run)), "step"));
    const exact = (rows: typeof wanted) =>
      rows!.map(({ step, learningRate, validTokens }) => [step, learningRate, validTokens]);
    expect(exact(got)).toEqual(exact(wanted));
    expect(got).toHaveLength(12);
    for (const [i, { step, loss }] of wanted!.entries()) {
      const difference = Math.abs(got![i]!.loss / loss - 1);
      if (step <= 6) expect(difference).toBe(0);
      else expect(difference, `step ${step}`).toBeLessThan(1e-5);
    }
  });
});

describe("the keys of a run", () => {
  it("checkpoint_keep_period and keep_best_checkpoint say what is never deleted; a run can begin with the best", async () => {
    const base = temporaryFolder();
    const run = join(base, "a");
    const keys = [
      ...["checkpoint_period=2", "max_num_checkpoints_to_keep=1", "checkpoint_keep_period=6", "eval_interval=4"],
      ...[`base_output_directory=${base}`, "lr_schedule_type=constant"],
    ];
    // The rate rises to far too much: the validation gets worse.
    const { exitCode, stdout, stderr } = await halfbyte([
      ...["train", ...tinyKeys.filter((key) => !key.startsWith("learning_rate=")), ...keys],
      ...["learning_rate=0.1", "warmup_steps=14", "run_name=a", "steps=14"],
    ]);
    expect(exitCode, stderr).toBe(0);
    const evals = ofType(eventsOf(run), "eval");
    const best = evals.toSorted((a, b) => a.loss - b.loss)[0]!;
    expect(best.step).toBeLessThan(14);
    const kept = [...new Set([best.step, 6, 12, 14])].sort((a, b) => a - b);
    const names = kept.map((step) => `step-${String(step).padStart(8, "0")}`);
    expect(readdirSync(join(run, "checkpoints")).sort()).toEqual(names);
    expect(stdout).toContain(`the lowest validation loss, ${best.loss.toFixed(4)}, came after step ${best.step}: `);
    const second = await train([...keys, "run_name=b", "steps=1", `load_parameters_path=${join(run, "best")}`]);
    expect(second.exitCode, second.stderr).toBe(0);
    expect(second.stdout).toContain(`weights from ${join(run, "best")}; `);
  });

  it("checkpoint_period, max_num_checkpoints_to_keep, eval_interval and eval_steps count steps and batches", async () => {
    const base = temporaryFolder();
    const { exitCode } = await train([
      "steps=10",
      "checkpoint_period=3",
      "max_num_checkpoints_to_keep=2",
      "eval_interval=4",
      "eval_steps=2",
      `base_output_directory=${base}`,
      "run_name=a",
    ]);
    expect(exitCode).toBe(0);
    const run = join(base, "a");
    const events = eventsOf(run);
    expect(ofType(events, "checkpoint").map(({ step }) => step)).toEqual([3, 6, 9, 10]);
    expect(readdirSync(join(run, "checkpoints")).sort()).toEqual(["step-00000009", "step-00000010"]);
    // Two batches of 4 sequences of 32 tokens.
    expect(ofType(events, "eval").map(({ step, validTokens }) => [step, validTokens])).toEqual([
      [4, 256],
      [8, 256],
      [10, 256],
    ]);
  });

  it("enable_checkpointing=false saves nothing, and a second start begins anew", async () => {
    const base = temporaryFolder();
    const keys = ["steps=2", "enable_checkpointing=false", `base_output_directory=${base}`, "run_name=a"];
    for (const _ of [1, 2]) expect((await train(keys)).exitCode).toBe(0);
    expect(readdirSync(join(base, "a")).sort()).toEqual(["config.json", "events.jsonl", "loss.svg"]);
    expect(ofType(eventsOf(join(base, "a")), "start").map(({ step }) => step)).toEqual([0, 0]);
  });
});
