/** `halfbyte checkpoints` as a process: what it says of whole checkpoints and of damaged ones, and that it writes nothing. */
import { appendFileSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { checkpointPath, offerBestCheckpoint, runFolder, saveCheckpoint } from "../../src/checkpoint/index.ts";
import { eventLine, stepRecord } from "../../src/metrics/index.ts";
import { initialState } from "../../src/train/state.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { ensureBuilt, halfbyte } from "../train/halfbyte.ts";
import { tinyModel } from "../train/tinyRun.ts";

const losses = { 5: 3.5, 10: 2.25, 15: 2.5 } as const;
const steps = Object.keys(losses).map(Number) as (keyof typeof losses)[];
beforeAll(ensureBuilt);

/** A run with three checkpoints, the last of which was not validated, and a torn last line of events. */
async function someRun() {
  const folder = runFolder(temporaryFolder(), "run");
  let bytes = 0;
  for (const step of steps) {
    const { path } = await saveCheckpoint(folder.checkpoints, initialState(tinyModel, step), {
      ...{ step, skippedInARow: 0, skippedSteps: 0, overflowSteps: 0, data: {} },
      provenance: { recipe: "bf16" },
    });
    bytes = readdirSync(path).reduce((sum, name) => sum + statSync(join(path, name)).size, 0);
    const loss = losses[step];
    const measured = { step, seconds: 1, validTokens: 10, gradNorm: 1, learningRate: 0.1, loss: loss + 1 };
    appendFileSync(folder.events, eventLine({ type: "step", ...stepRecord(measured, 1) }));
    if (step === 15) continue;
    const evaluated = { step, loss, validTokens: 100 };
    appendFileSync(
      folder.events,
      eventLine({ type: "eval", ...evaluated, bitsPerByte: 1, seconds: 1, precision: "bf16" }),
    );
    await offerBestCheckpoint(folder, evaluated);
  }
  appendFileSync(folder.events, '{"type":"step","st');
  return { run: folder.path, checkpoints: folder.checkpoints, bytes };
}

const contents = (folder: string) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => [join(parentPath, name), statSync(join(parentPath, name)).mtimeMs]);

describe("halfbyte checkpoints", () => {
  it("lists step, losses, size, and which is the best; the folder of checkpoints stands for the run", async () => {
    const { run, bytes } = await someRun();
    const before = contents(run);
    const size = `${Math.round(bytes / 1e3) / 1e3}`.slice(0, 3);
    const wanted = [
      `${run}: 3 checkpoints, ${((3 * bytes) / 1e6).toFixed(1)} MB, every file read and hashed:`,
      "  step  training loss  validation loss    size",
      `     5         4.5000           3.5000  ${size} MB  whole`,
      `    10         3.2500           2.2500  ${size} MB  whole; the best by validation`,
      `    15         3.5000                   ${size} MB  whole`,
      "the newest that is whole is of step 15",
      "",
    ].join("\n");
    expect(await halfbyte(["checkpoints", run])).toMatchObject({ exitCode: 0, stderr: "", stdout: wanted });
    expect((await halfbyte(["checkpoints", join(run, "checkpoints")])).stdout).toBe(wanted);
    expect(contents(run)).toEqual(before);
  });

  it("tells of each that is not whole why, and exits with 1", async () => {
    const { run, checkpoints, bytes } = await someRun();
    const file = join(checkpointPath(checkpoints, 5), "params.safetensors");
    const flipped = readFileSync(file);
    flipped[flipped.length - 9]! ^= 1;
    writeFileSync(file, flipped);
    rmSync(join(checkpointPath(checkpoints, 15), "state.json"));
    mkdirSync(join(checkpoints, `.step-00000020.tmp-${2 ** 22 + 1}`));
    const { exitCode, stdout, stderr } = await halfbyte(["checkpoints", run]);
    expect([exitCode, stderr]).toEqual([1, ""]);
    expect(stdout).toMatch(/^ +5 .*MB {2}NOT whole: params\.safetensors has changed since it was written/m);
    expect(stdout).toMatch(/^ +10 .*MB {2}whole; the best by validation$/m);
    expect(stdout).toMatch(/^ +15 .*MB {2}NOT whole: state\.json is missing$/m);
    expect(stdout).toMatch(
      /step-00000020 was not finished: its process ended meanwhile\nthe newest that is whole is of step 10\n$/,
    );

    const json = await halfbyte(["checkpoints", run, "--json"]);
    expect(json.exitCode).toBe(1);
    expect(JSON.parse(json.stdout)).toMatchObject({
      run,
      newestWhole: 10,
      unfinished: [join(checkpoints, "step-00000020")],
      checkpoints: [
        { step: 5, state: "damaged", best: false, trainingLoss: 4.5, validationLoss: 3.5 },
        { step: 10, state: "whole", best: true, bytes, path: checkpointPath(checkpoints, 10) },
        { step: 15, state: "damaged", fault: "state.json is missing" },
      ],
    });
  });

  it("says that best.json is damaged or gone, and names events that can't be read", async () => {
    const { run } = await someRun();
    const [record, events] = [join(run, "best.json"), join(run, "events.jsonl")];
    const start = { type: "start", step: 0, parameters: 1, flopsPerToken: 6 } as const;
    const started = (keep_best_checkpoint: boolean) => eventLine({ ...start, config: { keep_best_checkpoint } });
    const told = readFileSync(events, "utf8");
    const faultWhere = async (keepBest: boolean) => {
      writeFileSync(events, started(keepBest) + told);
      const { exitCode, stdout } = await halfbyte(["checkpoints", run, "--json"]);
      expect(exitCode).toBe(0);
      return JSON.parse(stdout).bestFault;
    };
    expect(await faultWhere(true)).toBe(undefined);
    rmSync(record);
    expect(await faultWhere(true)).toBe(`${record} is missing`);
    expect(await faultWhere(false)).toBe(undefined);
    writeFileSync(record, '{"step":');
    const { stdout } = await halfbyte(["checkpoints", run]);
    expect(stdout).toContain(`\n${record} is damaged: training that goes on chooses the best anew\n`);
    rmSync(events);
    mkdirSync(events);
    expect(await halfbyte(["checkpoints", run])).toMatchObject({
      ...{ exitCode: 2, stderr: `halfbyte: ${events}: can't be read (it is a folder)\n` },
    });
  });

  it("refuses what is no run with checkpoints, and lists the runs there are", async () => {
    const { checkpoints } = await someRun();
    for (const path of [temporaryFolder(), checkpointPath(checkpoints, 5), "/nowhere"]) {
      const { exitCode, stderr } = await halfbyte(["checkpoints", path]);
      expect([exitCode, stderr]).toEqual([2, expect.stringMatching(/ has no checkpoints: give the folder of a run/)]);
    }
    const { exitCode, stderr } = await halfbyte(["checkpoints"]);
    expect([exitCode, stderr]).toEqual([
      2,
      expect.stringContaining("the run's folder is missing: halfbyte checkpoints RUN"),
    ]);
  });
});
