/** Precision from the command line: switches, overrides, evaluation and schedule of a run, as people set them. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { checkpointPath, loadCheckpoint } from "../../src/checkpoint/index.ts";
import { resolve } from "../../src/config/index.ts";
import { recipeByName, resolvePrecision, switchPrecision } from "../../src/quant/index.ts";
import type { RunPlan } from "../../src/train/plan.ts";
import { type RunInput, runTraining } from "../../src/train/run.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { ensureBuilt, halfbyte } from "./halfbyte.ts";
import { eventsOf, ofType, stateHashes } from "./runFiles.ts";
import { tinyKeys, tinyModel, tinyPlan, tinyRun } from "./tinyRun.ts";

beforeAll(ensureBuilt);

/** Trains with these settings over the tiny ones. */
const train = (base: string, ...keys: string[]) => {
  const names = keys.map((key) => key.split("=")[0]);
  const others = tinyKeys.filter((key) => !names.includes(key.split("=")[0]));
  return halfbyte(["train", ...others, `base_output_directory=${base}`, "run_name=a", ...keys]);
};

describe("a run's precision", () => {
  it("has the recipe's switches and the overrides, and its table says why", async () => {
    const base = temporaryFolder();
    const { exitCode, stdout, stderr } = await train(
      base,
      "steps=2",
      "quantization=nvfp4",
      "last_layers_bf16=0",
      "rht=false",
      "weight_scaling=1d",
      // dgrad of another recipe than fprop, which shares no copy of W with it; a whole block; a module.
      "precision_overrides=layers.0.mlp.up.dgrad=mxfp8,layers.1=bf16,layers.1.attn.*=fp8_current_scaling",
    );
    expect(exitCode, stderr).toBe(0);
    expect(stdout).toContain("\nrht=false\nstochastic_rounding=true\nweight_scaling=1d\n");
    const table = stdout.slice(stdout.indexOf("matrix products of the linear layers:"), stdout.indexOf("compiling"));
    expect(table).toMatch(
      /block 0, attn\.q k v o, mlp\.gate down: fprop e2m1 1x16 × e2m1 1x16; dgrad e2m1 1x16 stochastic/,
    );
    expect(table).not.toContain("rotated");
    expect(table).toMatch(
      /block 0, mlp\.up: .*dgrad e4m3 1x32 × e4m3 1x32; .*dgrad by precision_overrides: layers\.0\.mlp\.up\.dgrad=mxfp8/,
    );
    expect(table).toMatch(/block 1, mlp\.gate up down: bf16 × bf16 \(native; precision_overrides: layers\.1=bf16\)/);
    expect(table).toMatch(/block 1, attn\.q k v o: .*e5m2 tensor.*layers\.1\.attn\.\*=fp8_current_scaling/);
    const [start] = ofType(eventsOf(join(base, "a")), "start");
    expect(start!.config).toMatchObject({ rht: "false", stochastic_rounding: "true", weight_scaling: "1d" });
    expect(ofType(eventsOf(join(base, "a")), "step").every(({ loss }) => loss < 5)).toBe(true);

    const other = await train(base, "steps=3", "quantization=nvfp4", "last_layers_bf16=0", "weight_scaling=1d");
    expect(other.exitCode).toBe(2);
    expect(other.stderr).toMatch(
      /was started with other settings:\n {2}rht: false → true\n {2}precision_overrides: layers/,
    );
  });

  it("that no recipe or module has is refused before anything is compiled", async () => {
    const base = temporaryFolder();
    const refused = await train(
      base,
      "steps=2",
      "quantization=mxfp8",
      "rht=false",
      "precision_overrides=layers.*.mlp.dwon=bf16",
    );
    expect(refused).toMatchObject({ exitCode: 2, stdout: "" });
    expect(refused.stderr).toContain("rht=false has no effect: quantization=mxfp8 has no such switch");
    expect(refused.stderr).toContain("did you mean layers.*.mlp.down?");
  });
});

describe("precision_switch_step", () => {
  it("keeps every bit of state: before it the unswitched run's, after it those of a run that goes on from there in the other precision", async () => {
    const base = temporaryFolder();
    const model = { ...tinyModel, numLayers: 1 };
    const before = resolvePrecision({ recipe: recipeByName("fp8_current_scaling"), numLayers: 1 });
    const later = switchPrecision(before, { recipe: recipeByName("bf16"), gemms: "fprop" });
    const plan = tinyPlan({ model, precision: before, steps: 6, checkpoints: { period: 3 } });
    const run = async (name: string, changes: Partial<RunPlan>, resume?: RunInput["resume"]) => {
      const input = tinyRun(join(base, name), { ...plan, ...changes });
      // Without validation, for which more would be compiled.
      await runTraining({ ...input, data: { train: input.data.train }, ...(resume && { resume }) });
    };
    await run("unswitched", {});
    await run("switched", { laterPrecision: { firstStep: 4, precision: later } });
    // The same first three steps; the rest by a plan that knows of one precision only, the other one.
    await run("resumed", { steps: 3 });
    const path = checkpointPath(join(base, "resumed", "run", "checkpoints"), 3);
    await run("resumed", { precision: later }, await loadCheckpoint(path, model));

    const hashes = (name: string, step: number) => stateHashes(join(base, name, "run"), step);
    expect(hashes("switched", 3)).toEqual(hashes("unswitched", 3));
    expect(hashes("switched", 6)).toEqual(hashes("resumed", 6));
    expect(hashes("switched", 6)).not.toEqual(hashes("unswitched", 6));
    const compiles = (name: string) => ofType(eventsOf(join(base, name, "run")), "compile").length;
    expect([compiles("unswitched"), compiles("switched")]).toEqual([1, 2]);
  });

  it("at the learning rate's decay: a run stopped before or after it goes on to the same bits, and its checkpoints tell", async () => {
    const keys = [
      "num_decoder_layers=1",
      "quantization=nvfp4",
      "last_layers_bf16=0",
      "scale_gain=1.0625",
      "precision_overrides=layers.0.attn.q.dgrad=bf16",
      "lr_schedule_type=wsd",
      "wsd_decay_steps_fraction=0.5",
      "learning_rate_schedule_steps=6",
      "precision_switch_step=decay",
      "eval_precision=same,bf16",
      "eval_interval=3",
      "data_shuffle_seed=5",
      "rounding_seed=7",
    ];
    const [straight, parts] = [temporaryFolder(), temporaryFolder()];
    const whole = await train(straight, ...keys, "steps=6", "checkpoint_period=3", "profiler=trace");
    expect(whole.exitCode, whole.stderr).toBe(0);
    expect(whole.stdout).toContain("note: from step 4 on the precision is nvfp4 with fprop in bf16");
    const table = whole.stdout.split("from step 4 on the precision is nvfp4 with fprop in bf16; matrix products")[1]!;
    expect(table).toMatch(
      /^ {2}block 0, attn\.k v o, mlp\.gate up down: fprop bf16 × bf16; dgrad e2m1 .*fprop by precision_switch_step\)$/m,
    );
    for (const steps of [3, 5, 6]) {
      const part = await train(parts, ...keys, `steps=${steps}`, "checkpoint_period=3");
      expect(part.exitCode, part.stderr).toBe(0);
    }
    for (const step of [3, 6])
      expect(stateHashes(join(parts, "a"), step)).toEqual(stateHashes(join(straight, "a"), step));

    const events = eventsOf(join(straight, "a"));
    expect(ofType(events, "precision").map(({ step, name }) => [step, name])).toEqual([
      [4, "nvfp4 with fprop in bf16"],
    ]);
    expect(ofType(events, "compile").filter(({ program }) => program === "train_step")).toHaveLength(2);
    const [before, after] = ofType(events, "eval");
    expect([before!.precision, before!.others!.map(({ precision }) => precision)]).toEqual(["nvfp4", ["bf16"]]);
    expect(before!.loss).not.toBe(before!.others![0]!.loss);
    // Once all forward GEMMs are BF16, both are the same computation.
    expect(after!.precision).toBe("nvfp4 with fprop in bf16");
    expect(after!.loss).toBe(after!.others![0]!.loss);
    const [summary] = ofType(events, "summary");
    expect(summary).toMatchObject({
      validationPrecision: "nvfp4 with fprop in bf16",
      otherValidationLosses: { bf16: after!.loss },
      stepsByPrecision: { nvfp4: 3, "nvfp4 with fprop in bf16": 3 },
    });
    expect(whole.stdout).toMatch(/validated in bf16 +\d\.\d{4}/);
    const trace = JSON.parse(readFileSync(join(straight, "a", "trace.json"), "utf8"));
    expect(trace.traceEvents).toContainEqual(expect.objectContaining({ name: "compile", args: { step: 4 } }));
    // A process that begins in the second phase compiles that alone.
    const starts = eventsOf(join(parts, "a"));
    expect(ofType(starts, "compile").filter(({ program }) => program === "train_step")).toHaveLength(3);

    const saved = (base: string) =>
      JSON.parse(readFileSync(join(checkpointPath(join(base, "a", "checkpoints"), 6), "state.json"), "utf8"));
    for (const { stepsByPrecision, provenance } of [saved(straight), saved(parts)]) {
      expect(stepsByPrecision).toEqual({ nvfp4: 3, "nvfp4 with fprop in bf16": 3 });
      expect(provenance).toMatchObject({
        recipe: "nvfp4",
        switches: {
          rht: "true",
          stochastic_rounding: "true",
          weight_scaling: "2d",
          scale_gain: 1.0625,
          scale_bound: 448,
        },
        policy: "all_linear",
        firstLayersBf16: 0,
        lastLayersBf16: 0,
        packedResiduals: false,
        overrides: ["layers.0.attn.q.dgrad=bf16"],
        phases: [
          { firstStep: 1, precision: "nvfp4" },
          { firstStep: 4, precision: "nvfp4 with fprop in bf16" },
        ],
        seeds: { initWeights: 0, dataShuffle: 5, rounding: 7 },
      });
    }
  });

  it("may be set when a run is resumed, for steps to come", async () => {
    const base = temporaryFolder();
    const keys = ["num_decoder_layers=1", "quantization=mxfp8", "lr_schedule_type=constant"];
    expect((await train(base, ...keys, "steps=2")).exitCode).toBe(0);
    const late = await train(base, ...keys, "steps=4", "precision_switch_step=2");
    expect(late.exitCode).toBe(2);
    expect(late.stderr).toContain("precision_switch_step may only change to a step from 3 on");
    const switched = [...keys, "steps=4", "precision_switch_step=3", "precision_switch_gemms=all"];
    const resumed = await train(base, ...switched);
    expect(resumed.exitCode, resumed.stderr).toBe(0);
    expect(ofType(eventsOf(join(base, "a")), "summary").at(-1)!.stepsByPrecision).toEqual({ mxfp8: 2, bf16: 2 });
    const back = await train(base, ...keys, "steps=5");
    expect(back.stderr).toContain(
      "has done 4 steps, which went on as bf16 from step 3 on: that is past; set precision_switch_step=3 precision_switch_gemms=all precision_switch_to=bf16 again",
    );
  });

  it.each([
    [["lr_schedule_type=constant", "precision_switch_step=decay"], "the learning rate's schedule has no decay"],
    [["warmup_steps=0", "precision_switch_step=decay"], "the learning rate decays from the first step on"],
    [["precision_switch_step=1"], "there is nothing before step 1"],
    [["precision_switch_step=soon"], "must be the number of a step, decay, or never"],
    [["precision_switch_step=3", "precision_switch_to=nvfp4"], "is what these GEMMs compute in already"],
    [["precision_switch_step=3", "precision_switch_to=fp8_delayed_scaling"], "its scales come from the steps before"],
    [["eval_precision=fp8_delayed_scaling"], "scales of delayed scaling come from training"],
    [["precision_switch_gemms=all"], "precision_switch_step=never switches nothing"],
    [["eval_precision=nvpf4"], 'unknown recipe "nvpf4". Did you mean "nvfp4"?'],
    [["eval_precision=same,same"], "names same twice"],
  ])("%j is refused: %s", (keys, message) => {
    const settings = Object.fromEntries([...tinyKeys, "quantization=nvfp4", ...keys].map((key) => key.split("=")));
    expect(() => resolve({}, settings)).toThrow(message);
  });
});

describe("halfbyte inspect", () => {
  it("shows the step of each phase", async () => {
    const keys = [
      "quantization=nvfp4",
      "precision_switch_step=5",
      "precision_switch_gemms=all",
      "stage=grad",
      "op=dot",
      "layer=0.mlp",
    ];
    const show = (phase: string) => halfbyte(["inspect", ...tinyKeys, ...keys, `phase=${phase}`]);
    const [first, second] = [await show("1"), await show("2")];
    expect(first.stdout).toContain("in FP32), nvfp4, ");
    expect(second.stdout).toContain("in FP32), bf16, ");
    expect(first.stdout).toMatch(/NVFP4 \(emulated\) +fprop/);
    expect(second.stdout).not.toContain("NVFP4");
    expect(await show("3")).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("are 1 to 2") });
  });
});
