/** `halfbyte train` as a process. */
import { spawn } from "node:child_process";
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { checkpointPath, listCheckpoints, openSafetensors, writeSafetensors } from "../../src/checkpoint/index.ts";
import type { HostArray } from "../../src/core/index.ts";
import { parseEventLine, type RunEvent } from "../../src/metrics/index.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { ensureBuilt, halfbyte, launcher, type StartOptions } from "./halfbyte.ts";
import { eventsOf, ofType, stateHashes } from "./runFiles.ts";
import { tinyKeys } from "./tinyRun.ts";

beforeAll(ensureBuilt);

const train = (keys: readonly string[], options?: StartOptions) => halfbyte(["train", ...tinyKeys, ...keys], options);

describe("halfbyte train", () => {
  it("learns, a line a step, and leaves a run behind", async () => {
    const base = temporaryFolder();
    const { exitCode, stdout, stderr } = await train(["steps=20", `base_output_directory=${base}`, "run_name=a"]);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
    expect(stdout).toMatch(/^per_device_batch_size=4$/m);
    expect(stdout).toMatch(/^[\d,]+ parameters, [\d.]+ MFLOP a token; MFU is of [\d.]+ TFLOP\/s/m);
    expect(stdout).toMatch(/blocks 0–1, attn\.q k v o, mlp\.gate up down: bf16 × bf16 \(native\)/);
    expect(stdout).toMatch(/^compiled train_step in .* temporary$/m);
    const lines = stdout.match(
      /^completed step: \d+, seconds: [\d.]+, TFLOP\/s\/device: [\d.]+, Tokens\/s\/device: [\d.]+, total_weights: 128, loss: [\d.]+, grad_norm: [\d.]+, lr: [\d.e+-]+(, left: .*)?$/gm,
    );
    expect(lines).toHaveLength(20);
    expect(stdout).toMatch(/^eval after step: 20, loss: [\d.]+, perplexity: [\d.]+, bits_per_byte: /m);
    expect(stdout).toMatch(/^validation loss +[\d.]+$/m);
    expect(stdout).toMatch(/^MFU +[\d.]+ %$/m);

    const run = join(base, "a");
    const all = ["best", "best.json", "checkpoints", "config.json", "events.jsonl", "loss.svg"];
    expect(readdirSync(run).sort()).toEqual(all);
    expect(readFileSync(join(run, "loss.svg"), "utf8")).toContain("<svg");
    expect(JSON.parse(readFileSync(join(run, "config.json"), "utf8"))).toMatchObject({ steps: 20, run_name: "a" });
    const losses = ofType(eventsOf(run), "step").map(({ loss }) => loss);
    expect(losses[0]).toBeGreaterThan(4);
    expect(losses.at(-1)).toBeLessThan(losses[0]! - 0.4);
  });

  it("learns plain text by bytes, gives events on standard output and text on standard error, and a sample", async () => {
    const text = (i: number) => `The cat ${i} sat on the mat, and the dog ${i} sat on the log. `.repeat(12);
    const folder = temporaryFolder(
      Object.fromEntries(Array.from({ length: 8 }, (_, i) => [`texts/${i}.txt`, text(i)])),
    );
    const keys = tinyKeys.filter((key) => !/^(dataset_type|vocab_size)=/.test(key));
    const { exitCode, stdout, stderr } = await halfbyte([
      "train",
      ...keys,
      `dataset_path=${join(folder, "texts")}`,
      "validation_fraction=0.2",
      "steps=12",
      "log_period=5",
      `base_output_directory=${folder}`,
      "--json",
    ]);
    expect(exitCode, stderr).toBe(0);
    const events = stdout.trimEnd().split("\n").map(parseEventLine) as RunEvent[];
    expect(events).not.toContain(undefined);
    expect([...new Set(events.map(({ type }) => type))]).toEqual([
      "start",
      "compile",
      "step",
      "checkpoint",
      "eval",
      "sample",
      "summary",
      "end",
    ]);
    const losses = ofType(events, "step").map(({ loss }) => loss);
    expect(losses).toHaveLength(12);
    expect(losses.at(-1)).toBeLessThan(losses[0]! - 0.5);
    expect(ofType(events, "sample")[0]!.text.length).toBeGreaterThan(0);
    const [validation] = ofType(events, "eval");
    expect(validation!.bitsPerByte).toBeCloseTo(validation!.loss / Math.LN2, 1);
    expect(stderr.match(/^completed step: .*/gm)!.map((line) => line.slice(0, 18))).toEqual([
      "completed step: 1,",
      "completed step: 5,",
      "completed step: 10",
      "completed step: 12",
    ]);
    // Without a name the run gets one.
    expect(readdirSync(folder).filter((name) => /^bf16-\d{8}-\d{6}$/.test(name))).toHaveLength(1);
  });

  it("stops on SIGTERM, says how to go on, and goes on to the same bits", async () => {
    const base = temporaryFolder();
    const keys = ["steps=120", "eval_interval=50", `base_output_directory=${base}`];
    const straight = await train([...keys, "run_name=straight", "checkpoint_period=40"]);
    expect(straight.exitCode, straight.stderr).toBe(0);

    let sent = false;
    const stopped = await train([...keys, "run_name=parts"], {
      onOutput: (stdout, child) => {
        if (sent || !stdout.includes("completed step: 5,")) return;
        sent = child.kill("SIGTERM");
      },
    });
    expect(stopped.exitCode).toBe(143);
    const [at] = listCheckpoints(join(base, "parts", "checkpoints"));
    expect(at!.step).toBeLessThan(120);
    expect(stopped.stdout).toContain(`stopped by SIGTERM: the same command resumes from ${at!.path}`);

    const resumed = await train([...keys, "run_name=parts"]);
    expect(resumed.exitCode, resumed.stderr).toBe(0);
    expect(resumed.stdout).toContain(`resuming from ${at!.path}`);
    expect(stateHashes(join(base, "parts"), 120)).toEqual(stateHashes(join(base, "straight"), 120));
    const losses = (run: string) => {
      const events = eventsOf(join(base, run));
      return [...ofType(events, "step"), ...ofType(events, "eval")].map(({ step, loss }) => [step, loss]);
    };
    expect(losses("parts")).toEqual(losses("straight"));
  });

  it("leaves at once on SIGINT while it compiles, and the events say so", async () => {
    const base = temporaryFolder();
    let sent = Number.POSITIVE_INFINITY;
    const { exitCode, stdout } = await train(["steps=20", `base_output_directory=${base}`, "run_name=a"], {
      onOutput: (stdout, child) => {
        if (!stdout.includes("MFU is of") || sent < Number.POSITIVE_INFINITY) return;
        sent = performance.now();
        child.kill("SIGINT");
      },
    });
    expect(exitCode).toBe(130);
    expect(performance.now() - sent).toBeLessThan(10_000);
    expect(stdout.trimEnd().split("\n").at(-1)).toBe(
      "SIGINT: left before a step was done; nothing is lost, and the same command starts again",
    );
    expect(readdirSync(join(base, "a")).sort()).toEqual(["config.json", "events.jsonl"]);
    const events = eventsOf(join(base, "a"));
    expect(events.map(({ type }) => type)).toEqual(["start", "end"]);
    expect(events[1]).toMatchObject({ step: 0, reason: "interrupted" });
    expect((events[1] as { message?: string }).message).toMatch(/^SIGINT: left at once/);
  });
});

describe("signals while text is read", () => {
  it("end the command with a sentence", async () => {
    const base = temporaryFolder({ "a.txt": "The cat sat on the mat. ".repeat(1_000_000) });
    const text = tinyKeys.filter((key) => !/^(dataset_type|vocab_size)=/.test(key));
    const keys = [...text, `dataset_path=${join(base, "a.txt")}`, `base_output_directory=${base}`, "run_name=a"];
    const child = spawn(launcher, ["train", ...keys, "steps=2"], { stdio: ["ignore", "pipe", "ignore"] });
    let stdout = "";
    child.stdout.on("data", (piece: Buffer) => {
      stdout += piece.toString();
    });
    // Open means that it is being read.
    const isRead = () => {
      try {
        const files = `/proc/${child.pid}/fd`;
        return readdirSync(files).some((name) => readlinkSync(join(files, name)) === join(base, "a.txt"));
      } catch {
        return false;
      }
    };
    const watch = setInterval(() => {
      if (isRead()) child.kill("SIGINT");
    }, 1);
    const exitCode = await new Promise((done) => child.on("close", done));
    clearInterval(watch);
    expect(exitCode).toBe(130);
    expect(stdout).toBe("SIGINT: left before a step was done; nothing is lost, and the same command starts again\n");
  });
});

/** A schedule without an end, which more steps don't change. */
const constantRate = ["lr_schedule_type=constant", "warmup_steps_fraction=0"];

describe("what can't go on says so in a sentence", () => {
  it("C3: stops with exit 1 where every step is bad, names the tensor, and keeps the checkpoint before", async () => {
    const base = temporaryFolder();
    const keys = [...constantRate, `base_output_directory=${base}`, "run_name=a"];
    expect((await train([...keys, "steps=2"])).exitCode).toBe(0);
    const checkpoints = join(base, "a", "checkpoints");
    await plantWeight(checkpointPath(checkpoints, 2), "model.layers.0.mlp.gate_proj.weight", 3e38);

    const { exitCode, stdout, stderr } = await train([...keys, "steps=50", "max_skipped_steps=3"]);
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(
      /^halfbyte: 3 steps in a row were not finite; step 5 is skipped: .*model\.layers\.0\.mlp\.gate_proj\.weight[^\n]*\n$/,
    );
    expect(stdout.match(/^step \d+ is skipped/gm)).toHaveLength(3);
    expect(listCheckpoints(checkpoints).map(({ step }) => step)).toEqual([2]);
    expect(eventsOf(join(base, "a")).at(-1)).toMatchObject({ type: "end", reason: "failed" });
  });

  it("survives a kill in the middle of saving", async () => {
    const base = temporaryFolder();
    const checkpoints = join(base, "a", "checkpoints");
    // Large enough that saving takes a while.
    const small = tinyKeys.filter((key) => !/^(vocab_size|emb_dim)=/.test(key));
    const keys = [
      ...small,
      "vocab_size=20000",
      "emb_dim=128",
      "checkpoint_period=2",
      `base_output_directory=${base}`,
      "run_name=a",
    ];
    let killed = false;
    const first = await halfbyte(["train", ...keys, "steps=6"], {
      onOutput: (stdout, child) => {
        if (killed || !stdout.includes("step-00000002 in")) return;
        killed = true;
        const watch = setInterval(() => {
          if (!readdirSync(checkpoints).some((name) => name.startsWith(".step-00000004"))) return;
          clearInterval(watch);
          child.kill("SIGKILL");
        }, 1);
      },
    });
    expect(first.signal).toBe("SIGKILL");
    // A step folder without its manifest, as another way to die would leave it.
    mkdirSync(checkpointPath(checkpoints, 99), { recursive: true });
    appendFileSync(join(base, "a", "events.jsonl"), '{"type":"step","st');
    const again = await halfbyte(["train", ...keys, "steps=6"]);
    expect(again.exitCode, again.stderr).toBe(0);
    expect(again.stdout).toMatch(
      /step-00000099 is not used: it has no manifest\.json\nresuming from .*step-0000000[24]\n/,
    );
    // What is damaged is not deleted unasked; it is replaced where the run comes to that step.
    const all = ["step-00000002", "step-00000004", "step-00000006", "step-00000099"];
    expect(readdirSync(checkpoints).sort()).toEqual(all);

    for (const step of [2, 4, 6]) writeFileSync(join(checkpointPath(checkpoints, step), "params.safetensors"), "");
    const none = await halfbyte(["train", ...keys, "steps=8"]);
    expect(none.exitCode).toBe(2);
    expect(none.stderr).toMatch(/none of the checkpoints in .* is whole:\n.*step-00000099 is not used/);
    expect(readdirSync(checkpoints).sort()).toEqual(all);
  });

  it("a full disk ends the run with exit 1; the older checkpoint stays", async () => {
    const base = temporaryFolder();
    const keys = [...constantRate, "checkpoint_period=5", `base_output_directory=${base}`, "run_name=a"];
    expect((await train([...keys, "steps=2"])).exitCode).toBe(0);
    // No file may grow beyond 64 blocks of 512 bytes: events fit, weights do not.
    const script = `trap '' XFSZ; ulimit -f 64; exec "$0" "$@"`;
    const args = ["-c", script, launcher, "train", ...tinyKeys, ...keys, "steps=50"];
    const { exitCode, stderr } = await halfbyte(args, { program: "/bin/sh" });
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(
      /^halfbyte: .*step-00000005: can't be written \(the file would be larger than is allowed\)\n$/,
    );
    expect(readdirSync(join(base, "a", "checkpoints"))).toEqual(["step-00000002"]);
  });

  it("an output folder that can't be made", async () => {
    const base = join(temporaryFolder({ taken: "a file" }), "taken");
    const { exitCode, stderr } = await train(["steps=2", `base_output_directory=${base}`, "run_name=a"]);
    expect(exitCode).toBe(2);
    expect(stderr).toMatch(
      /^halfbyte: the run's folder .*taken\/a can't be written \(.*taken is a file\): choose another base_output_directory/,
    );
  });

  it("a key that does not exist, a setting that changed, too little text: exit 2 before anything is compiled", async () => {
    const folder = temporaryFolder({ "short.txt": "only a few bytes of text" });
    const base = join(folder, "runs");
    const refused = async (args: readonly string[], message: RegExp) => {
      const { exitCode, stdout, stderr } = await halfbyte(["train", ...args]);
      expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: "" });
      expect(stderr).toMatch(/^halfbyte: /);
      expect(stderr).toMatch(message);
    };
    await refused(["llama-tiny", "learningrate=1"], /unknown key "learningrate"; did you mean learning_rate\?/);
    await refused(["llama-tinny"], /unknown preset "llama-tinny"; did you mean "llama-tiny"\?/);
    const short = [
      `dataset_path=${join(folder, "short.txt")}`,
      "max_target_length=128",
      `base_output_directory=${base}`,
    ];
    await refused(short, /the training split has 25 tokens in 1 document\(s\), but 129 are needed/);
    expect(existsSync(base)).toBe(false);

    const keys = [...tinyKeys, "steps=2", `base_output_directory=${base}`, "run_name=a"];
    expect((await halfbyte(["train", ...keys])).exitCode).toBe(0);
    const changed = keys.map((key) => (key.startsWith("learning_rate=") ? "learning_rate=0.5" : key));
    const { exitCode, stderr } = await halfbyte(["train", ...changed, "adam_b1=0.8", "log_period=7"]);
    expect(exitCode).toBe(2);
    expect(stderr).toMatch(
      /was started with other settings:\n {2}learning_rate: 0\.01 → 0\.5\n {2}adam_b1: 0\.9 → 0\.8\nSet them back/,
    );
  });
});

/** Changes the first value of a saved weight and makes the checkpoint whole again. */
async function plantWeight(path: string, name: string, value: number): Promise<void> {
  const file = join(path, "params.safetensors");
  const opened = await openSafetensors(file);
  const entries: [string, HostArray][] = [];
  for (const key of opened.tensors.keys()) entries.push([key, await opened.read(key)]);
  await opened.close();
  (entries.find(([key]) => key === name)![1].data as Float32Array)[0] = value;
  const written = await writeSafetensors(file, entries, { ...opened.metadata });
  const manifestPath = join(path, "manifest.json");
  const manifest = JSON.parse(readFileSync(manifestPath, "utf8"));
  manifest.files["params.safetensors"] = written;
  writeFileSync(manifestPath, JSON.stringify(manifest));
}
