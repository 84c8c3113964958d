/** What happens to real runs: a disk that is full, a folder that can't be written, a clock that goes back, a validation that fails. */
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { checkpointPath, listCheckpoints } from "../../src/checkpoint/index.ts";
import { latestByStep } from "../../src/metrics/index.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { ensureBuilt, halfbyte, launcher } from "./halfbyte.ts";
import { eventsOf, ofType, stateHashes } from "./runFiles.ts";

beforeAll(ensureBuilt);
afterEach(() => vi.unstubAllEnvs());

/** Whether file systems can be mounted here, in a namespace of a command's own. */
const canMount = spawnSync("unshare", ["-rm", "mount", "-t", "tmpfs", "none", "/mnt"]).status === 0;

/** 3 MB of state, quick to train; the compile cache has the program. */
const keysOf = (base: string, ...keys: string[]) => [
  ...["train", "dataset_type=synthetic", "vocab_size=2048", "emb_dim=64", "mlp_dim=16", "num_decoder_layers=1"],
  ...["num_query_heads=1", "num_kv_heads=1", "head_dim=16", "max_target_length=8", "per_device_batch_size=1"],
  ...["dtype=float32", "eval_steps=1", "learning_rate_schedule_steps=6", "checkpoint_period=2", "run_name=run"],
  ...["max_num_checkpoints_to_keep=-1", `base_output_directory=${base}`, ...keys],
];
const unlessKeptAll = (key: string) => key !== "max_num_checkpoints_to_keep=-1";
const train = (base: string, ...keys: string[]) => halfbyte(keysOf(base, ...keys));
const stepsIn = (base: string) => listCheckpoints(join(base, "run", "checkpoints")).map(({ step }) => step);
const hidden = (base: string) => readdirSync(join(base, "run", "checkpoints")).filter((name) => name.startsWith("."));

/** A shell's script in which `train STEPS` is the command, and $base its folder. */
const scripted = (base: string, script: string, program: readonly string[] = ["sh"]) => {
  const [command = "", ...before] = program;
  const text = `base=${base}; train() { '${launcher}' ${keysOf(base).join(" ")} "steps=$1"; }; ${script}`;
  return halfbyte([...before, "-c", text], { program: command });
};

describe("a disk that is full", () => {
  it("of a size that no file may pass: one sentence, exit 1, and the older checkpoint is what the run goes on from", async () => {
    const base = temporaryFolder();
    // Blocks of 512 bytes: weights fit, moments don't.
    const { exitCode, stderr } = await scripted(base, "train 2 && ulimit -f 1600 && train 6");
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(
      /^halfbyte: \S+step-00000004: can't be written \(the file would be larger than is allowed\)\n$/,
    );
    expect(stepsIn(base)).toEqual([2]);
    expect(hidden(base)).toEqual([]);
    expect(ofType(eventsOf(join(base, "run")), "end").at(-1)).toMatchObject({ reason: "failed" });
    const again = await train(base, "steps=4");
    expect(again.exitCode, again.stderr).toBe(0);
    expect(again.stdout).toContain(`resuming from ${checkpointPath(join(base, "run", "checkpoints"), 2)}\n`);
  });

  it.runIf(canMount)("and has room again: the run goes on to the bits of one that never stopped", async () => {
    const [base, straight] = [temporaryFolder(), temporaryFolder()];
    const { exitCode, stdout, stderr } = await scripted(
      base,
      [
        "mount -t tmpfs -o size=8m none $base || exit 9",
        "train 6; echo code $?; ls -A $base/run/checkpoints",
        "mount -o remount,size=40m $base && train 6; echo code $?",
        `cp -r $base/run ${straight}/again`,
      ].join("; "),
      ["unshare", "-rm", "sh"],
    );
    expect(exitCode, stderr).toBe(0);
    expect(stderr).toMatch(/^halfbyte: \S+step-00000006: can't be written \(no space left on the disk\)\n$/);
    expect(stdout).toContain("\ncode 1\nstep-00000002\nstep-00000004\n");
    expect(stdout).toMatch(/\nresuming from \S+step-00000004\n[\s\S]*\ncode 0\n$/);
    expect((await train(straight, "steps=6")).exitCode).toBe(0);
    expect(stateHashes(join(straight, "again"), 6)).toEqual(stateHashes(join(straight, "run"), 6));
  });
});

describe("a folder that can't be written", () => {
  it.runIf(canMount).each(["$base", "$base/run/checkpoints"])(
    "is refused in one sentence, exit 2, with all in it as it was: %s",
    async (folder) => {
      const base = temporaryFolder();
      const script = `train 2 > /dev/null; mount --bind ${folder} ${folder} && mount -o remount,ro,bind ${folder} && train 4`;
      const { exitCode, stdout, stderr } = await scripted(base, script, ["unshare", "-rm", "sh"]);
      expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: "" });
      expect(stderr).toMatch(
        /^halfbyte: the run's folder \S+ can't be written \(\S+: the file system is read-only\): choose another [^\n]+\n$/,
      );
      expect(stepsIn(base)).toEqual([2]);
    },
  );
});

describe("two runs in one folder", () => {
  it("are one: the second ends with exit 2 and names the first, which goes on", async () => {
    const base = temporaryFolder();
    let second: ReturnType<typeof train> | undefined;
    const first = await halfbyte(keysOf(base, "steps=100000", "max_num_checkpoints_to_keep=2").filter(unlessKeptAll), {
      onOutput: (stdout, child) => {
        if (second !== undefined || !stdout.includes("completed step: 3,")) return;
        second = train(base, "steps=4").finally(() => child.kill("SIGTERM"));
      },
    });
    const { exitCode, stdout, stderr } = await second!;
    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: "" });
    expect(stderr).toMatch(
      /^halfbyte: \S+run is in use by process \d+: wait for it, or choose another run_name [^\n]+\n$/,
    );
    expect(first.exitCode, first.stderr).toBe(143);
    const rows = ofType(eventsOf(join(base, "run")), "step").map(({ step }) => step);
    expect(rows).toEqual(rows.map((_, i) => i + 1));
  });
});

describe("a clock that goes back", () => {
  it("changes nothing: steps decide which checkpoint is the newest, and which row counts", async () => {
    const [base, straight] = [temporaryFolder(), temporaryFolder()];
    expect((await train(base, "steps=4")).exitCode).toBe(0);
    utimesSync(checkpointPath(join(base, "run", "checkpoints"), 4), 1e9, 1e9);
    const back =
      "const now = Date.now; globalThis.Date = class extends Date { constructor(...given) { super(...(given.length ? given : [now() - 864e5])); } static now() { return now() - 864e5; } };";
    vi.stubEnv("NODE_OPTIONS", `--import=data:text/javascript,${encodeURIComponent(back)}`);
    const resumed = await train(base, "steps=6");
    vi.unstubAllEnvs();
    expect(resumed.exitCode, resumed.stderr).toBe(0);
    expect(resumed.stdout).toContain("step-00000004\n");
    expect((await train(straight, "steps=6")).exitCode).toBe(0);
    const [got, wanted] = [base, straight].map((folder) => eventsOf(join(folder, "run")));
    const times = ofType(got!, "start").map(({ time }) => Date.parse(time));
    expect(times[1]!).toBeLessThan(times[0]!);
    const losses = (events: typeof got) => latestByStep(events!, "step").map(({ step, loss }) => [step, loss]);
    expect(losses(got)).toEqual(losses(wanted));
    expect(stateHashes(join(base, "run"), 6)).toEqual(stateHashes(join(straight, "run"), 6));
  });
});

describe("a validation that fails", () => {
  it("F7: at the last step leaves that step's checkpoint, and exit 1", async () => {
    const base = temporaryFolder({
      "broken.mjs":
        'export const makeEvaluator = () => ({ evaluate: async () => { throw new Error("no memory"); }, dispose() {} });',
    });
    const broken = pathToFileURL(join(base, "broken.mjs")).href;
    const hooks = `export const resolve = (name, context, next) => name.endsWith("/evaluate.js") ? { url: ${JSON.stringify(broken)}, shortCircuit: true } : next(name, context);`;
    const text = `data:text/javascript,${encodeURIComponent(hooks)}`;
    writeFileSync(
      join(base, "preload.mjs"),
      `import { register } from "node:module"; register(${JSON.stringify(text)});`,
    );
    vi.stubEnv("NODE_OPTIONS", `--import=${pathToFileURL(join(base, "preload.mjs")).href}`);
    const { exitCode, stderr } = await train(base, "steps=3");
    vi.unstubAllEnvs();
    expect(exitCode).toBe(1);
    expect(stderr).toContain("halfbyte: no memory\n");
    expect(stepsIn(base)).toEqual([2, 3]);
    expect(ofType(eventsOf(join(base, "run")), "end")).toMatchObject([{ reason: "failed", step: 3 }]);
    expect(existsSync(join(base, "run", "best"))).toBe(false);
    // The run goes on from it, and only the validation was missing.
    const again = await train(base, "steps=3");
    expect(again.exitCode, again.stderr).toBe(0);
    expect(ofType(eventsOf(join(base, "run")), "eval").map(({ step }) => step)).toEqual([3]);
  });
});
