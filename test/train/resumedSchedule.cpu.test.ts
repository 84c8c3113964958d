/** A run that goes on with more steps: its learning rates stay those it began with. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { readEvents } from "../../src/metrics/index.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { ensureBuilt, halfbyte } from "./halfbyte.ts";
import { tinyKeys } from "./tinyRun.ts";

beforeAll(ensureBuilt);

describe("a resumed run with other steps", () => {
  it("keeps the length of its schedule where none is set, and says so; another length is refused", async () => {
    const base = temporaryFolder();
    const keys = [
      ...tinyKeys,
      "num_decoder_layers=1",
      "lr_after_schedule=final",
      `base_output_directory=${base}`,
      "run_name=a",
    ];
    const own = keys.filter((key) => key !== "num_decoder_layers=2");
    const train = (...more: readonly string[]) => halfbyte(["train", ...own, ...more]);
    const lengthSaved = () =>
      JSON.parse(readFileSync(join(base, "a", "config.json"), "utf8")).learning_rate_schedule_steps;

    expect((await train("steps=4")).exitCode).toBe(0);
    const other = await train("steps=6", "learning_rate_schedule_steps=6");
    expect(other.exitCode).toBe(2);
    expect(other.stderr).toContain("was started with other settings:\n  learning_rate_schedule_steps: 4 → 6\n");

    const longer = await train("train_iters=6");
    expect(longer.exitCode, longer.stderr).toBe(0);
    expect(longer.stdout).toMatch(
      /^learning_rate_schedule_steps=4 stays as the run began; steps=6 does not stretch the schedule\nresuming from .*step-00000004$/m,
    );
    expect(longer.stdout).toMatch(
      /^note: after step 4 \(learning_rate_schedule_steps\) the learning rate is 0\.001 to the end$/m,
    );
    expect(lengthSaved()).toBe(4);
    const rates = readEvents(join(base, "a", "events.jsonl")).events.flatMap((event) =>
      event.type === "step" ? [event.learningRate] : [],
    );
    expect(rates).toHaveLength(6);
    expect(rates.slice(3)).toEqual([0.001, 0.001, 0.001]);
  });

  it("warns of steps at a rate of 0, and names the ways out; eval_steps beyond the data are noted", async () => {
    const base = temporaryFolder();
    const keys = [...tinyKeys, `base_output_directory=${base}`, "run_name=a"];
    const train = (...more: readonly string[]) => halfbyte(["train", ...keys, ...more]);
    const first = await train("steps=3");
    expect(first.stdout).not.toContain("warning: ");
    expect(first.stdout).not.toContain("note: eval_steps");
    const longer = await train("steps=5", "eval_steps=1000");
    expect(longer.exitCode, longer.stderr).toBe(0);
    expect(longer.stdout).toMatch(
      /^warning: steps 4 to 5 train at learning rate 0, which changes no weight: the schedule ended at step 3\. To train on, begin a new run with load_parameters_path=.*\/a and another run_name; .* set learning_rate_schedule_steps to its whole length/m,
    );
    expect(longer.stdout.indexOf("warning: ")).toBeGreaterThan(longer.stdout.indexOf("# compute"));
    expect(longer.stdout).toMatch(/^note: eval_steps=1000 is more than the \d+ batches of validation data there are$/m);
    const done = await train("steps=5");
    expect(done.stdout).not.toContain("warning: ");
  });
});
