/** A program of its own that trains or compiles for long, and prints its memory at 40 moments: `longRun.ts flat|leaking|compiling`. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { hostArray, spec, type Tensor } from "../../src/core/index.ts";
import { disposeTree, jit } from "../../src/jit/index.ts";
import { type DeviceArray, defaultClient, put } from "../../src/pjrt/index.ts";
import { runTraining } from "../../src/train/run.ts";
import { tinyModel, tinyPlan, tinyRun } from "./tinyRun.ts";

export interface Measured {
  /** Live device arrays of the client, and their bytes. */
  readonly arrays: number;
  readonly bytes: number;
  /** Bytes of live JavaScript objects. */
  readonly heap: number;
  /** Resident bytes that are not the engine's: device arrays, programs, what the plugin allocates. */
  readonly native: number;
}

export interface LongRun {
  readonly measured: readonly Measured[];
  /** Live device arrays and programs when all is over. */
  readonly left: { readonly arrays: number; readonly bytes: number; readonly programs: number };
}

const moments = 40;
const client = defaultClient();
setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

function measure(): Measured {
  collectGarbage();
  const { rss, heapTotal, heapUsed } = process.memoryUsage();
  return { ...client.liveBuffers, heap: heapUsed, native: rss - heapTotal };
}

/** A run of a tiny model. */
async function train(steps: number, onStep: () => void): Promise<Measured[]> {
  const folder = mkdtempSync(join(tmpdir(), "halfbyte-leak-"));
  const model = { ...tinyModel, numLayers: 1, embDim: 16, mlpDim: 16, numHeads: 1 };
  const { checkpoints: _, ...plan } = tinyPlan({ model, batchSize: 1, sequenceLength: 16, steps });
  const measured: Measured[] = [];
  await runTraining({
    ...tinyRun(folder, plan),
    onEvent(event) {
      if (event.type !== "step") return;
      onStep();
      if (event.step % (steps / moments) === 0) measured.push(measure());
    },
  });
  rmSync(folder, { recursive: true });
  return measured;
}

async function compile(): Promise<Measured[]> {
  const measured: Measured[] = [];
  for (let i = 1; i <= 3 * moments; i++) {
    const f = jit((x: Tensor) => x.mul(2).exp().sum(), { name: "again" });
    await f.compile(spec([8], "float32"));
    f.dispose();
    await client.synchronize();
    if (i % 3 === 0) measured.push(measure());
  }
  return measured;
}

const runs: Record<string, () => Promise<Measured[]>> = {
  flat: () => train(2000, () => {}),
  async leaking() {
    const left: DeviceArray[] = [];
    const scalar = hostArray([], "float32", new Float32Array(1));
    const measured = await train(200, () => left.push(put(scalar, client)));
    disposeTree(left);
    return measured;
  },
  compiling: compile,
};

const measured = await runs[process.argv[2]!]!();
const left = { ...client.liveBuffers, programs: client.executables.size };
console.log(JSON.stringify({ measured, left } satisfies LongRun));
