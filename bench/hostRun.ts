/** A training run through the command line, and where its time went around the steps. */
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { HalfbyteError } from "../src/base/errors.ts";
import { type EventOf, latestByStep, type RunEvent, readEvents, type Timed } from "../src/metrics/index.ts";
import { median } from "./command.ts";
import type { Workload } from "./workload.ts";

/** Seconds from the command's start. */
export interface StartUp {
  /** Node, the command's modules, the configuration, the data, the plugin. */
  readonly ready: number;
  /** The step is compiled, and the state there. */
  readonly compiled: number;
  readonly firstStep: number;
}

/** Medians over the traced steps, in milliseconds. */
export interface HostWork {
  readonly step: number;
  /** Making the batch and handing the step over. */
  readonly work: number;
  /** From the end of a step to when the next one was handed over; 0 where that was before. */
  readonly deviceIdle: number;
  /** Steps that were handed over before the one before them was done. */
  readonly fed: number;
  readonly steps: number;
}

export interface RunCosts {
  readonly startUp: StartUp;
  readonly host: HostWork;
  /** Seconds that training waited for a checkpoint, and until it was on disk beside training. */
  readonly checkpoint: { readonly blocked: number; readonly seconds: number };
  readonly tokensPerSecond: number;
}

const launcher = fileURLToPath(new URL("../bin/halfbyte", import.meta.url));
const skippedSteps = 2;
/** A step is looked at together with the one before it, and both are traced. */
export const leastSteps = skippedSteps + 2;

/** Runs `steps` steps, with a checkpoint in the middle. @throws HalfbyteError where the run fails */
export async function measureRun(w: Workload, steps: number): Promise<RunCosts> {
  const folder = mkdtempSync(join(tmpdir(), "halfbyte-host-"));
  try {
    const begin = Date.now();
    await train([
      ...keysOf(w),
      ...[`base_output_directory=${folder}`, "run_name=host", `steps=${steps}`, "eval_steps=1"],
      ...[`checkpoint_period=${Math.ceil(steps / 2)}`, "max_num_checkpoints_to_keep=1"],
      ...["profiler=trace", `skip_first_n_steps_for_profiler=${skippedSteps}`, `profiler_steps=${steps}`],
    ]);
    const { events } = readEvents(join(folder, "host", "events.jsonl"));
    return { ...costsOf(events, begin), host: hostWork(join(folder, "host", "trace.json")) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function keysOf(w: Workload): string[] {
  return [
    ...["dataset_type=synthetic", `dtype=${w.dtype}`, `vocab_size=${w.vocab}`, `emb_dim=${w.hidden}`],
    ...[`mlp_dim=${w.ffn}`, `num_decoder_layers=${w.layers}`, `num_query_heads=${w.heads}`, `num_kv_heads=${w.kv}`],
    ...[`head_dim=${w.hidden / w.heads}`, `max_target_length=${w.seq}`, `per_device_batch_size=${w.batch}`],
  ];
}

function train(keys: readonly string[]): Promise<void> {
  const child = spawn(launcher, ["train", ...keys], { stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  child.stderr.on("data", (chunk: Buffer) => {
    said += chunk.toString();
  });
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) =>
      code === 0 ? resolve() : reject(new HalfbyteError("E_BENCH", `the run ended with ${code}: ${said}`)),
    );
  });
}

/** @param begin milliseconds since 1970 */
function costsOf(events: readonly Timed<RunEvent>[], begin: number): Omit<RunCosts, "host"> {
  const first = <T extends RunEvent["type"]>(type: T) =>
    events.find((event) => event.type === type) as Timed<EventOf<T>>;
  const at = (type: RunEvent["type"]) => (Date.parse(first(type).time) - begin) / 1000;
  const { blockedSeconds = 0, seconds } = first("checkpoint");
  return {
    startUp: { ready: at("start"), compiled: at("compile"), firstStep: at("step") },
    checkpoint: { blocked: blockedSeconds, seconds },
    tokensPerSecond: median(
      latestByStep(events, "step")
        .slice(1)
        .map((step) => step.tokensPerSecond),
    ),
  };
}

interface Bar {
  readonly name: string;
  readonly ph: string;
  /** Microseconds. */
  readonly ts: number;
  readonly dur: number;
  readonly args: { readonly step: number };
}

/** Of steps with nothing but a step before them. */
export function hostWork(traceFile: string): HostWork {
  const { traceEvents } = JSON.parse(readFileSync(traceFile, "utf8")) as { traceEvents: readonly Bar[] };
  const bars = new Map(
    traceEvents.filter(({ ph }) => ph === "X").map((bar) => [`${bar.args.step} ${bar.name.split(" ")[0]}`, bar]),
  );
  const endOf = ({ ts, dur }: Bar) => ts + dur;
  const [steps, work, idle]: number[][] = [[], [], []];
  for (const { name, args } of bars.values()) {
    const { step } = args;
    const [data, dispatch] = [bars.get(`${step} data`), bars.get(`${step} dispatch`)];
    const [before, device] = [bars.get(`${step - 1} step`), bars.get(`${step} step`)];
    if (name !== "dispatch" || !data || !dispatch || !before || !device) continue;
    if (["save", "evaluate", "compile"].some((other) => bars.has(`${step - 1} ${other}`))) continue;
    steps!.push(device.dur / 1000);
    work!.push((data.dur + dispatch.dur) / 1000);
    idle!.push(Math.max(0, endOf(dispatch) - endOf(before)) / 1000);
  }
  return {
    step: median(steps!),
    work: median(work!),
    deviceIdle: median(idle!),
    fed: idle!.filter((ms) => ms === 0).length,
    steps: idle!.length,
  };
}
