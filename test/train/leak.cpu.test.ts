/** Memory over a long run: live device arrays and the process's size stay flat, and a leak of one scalar a step shows. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { hostArray, spec, type Tensor } from "../../src/core/index.ts";
import { disposeTree, jit } from "../../src/jit/index.ts";
import { type Client, type DeviceArray, defaultClient, put } from "../../src/pjrt/index.ts";
import { runTraining } from "../../src/train/run.ts";
import { tinyModel, tinyPlan, tinyRun } from "./tinyRun.ts";

let folder = "";
let client: Client;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "halfbyte-leak-"));
  client = defaultClient();
});
afterEach(() => vi.unstubAllEnvs());
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Measured {
  /** Live device arrays of the client, and their bytes. */
  readonly arrays: number;
  readonly bytes: number;
  /** Bytes of live JavaScript objects. */
  readonly heap: number;
  /** Resident bytes that are not the engine's: device arrays, programs, what the plugin allocates. */
  readonly native: number;
}

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

function measure(): Measured {
  collectGarbage();
  const { rss, heapTotal, heapUsed } = process.memoryUsage();
  return { ...client.liveBuffers, heap: heapUsed, native: rss - heapTotal };
}

const times = 40;

/** A run of a tiny model, measured 40 times over its length. */
async function train(name: string, steps: number, onStep: () => void): Promise<Measured[]> {
  const model = { ...tinyModel, numLayers: 1, embDim: 16, mlpDim: 16, numHeads: 1 };
  const { checkpoints: _, ...plan } = tinyPlan({ model, batchSize: 1, sequenceLength: 16, steps });
  const measured: Measured[] = [];
  await runTraining({
    ...tinyRun(join(folder, name), plan),
    onEvent(event) {
      if (event.type !== "step") return;
      onStep();
      if (event.step % (steps / times) === 0) measured.push(measure());
    },
  });
  expect(measured.length).toBe(times);
  return measured;
}

/**
 * How much the least held near the end is above the least in the second fifth, when all has been used before. Not at the
 * very end: no step is in flight there.
 */
function growth(measured: readonly Measured[], what: keyof Measured): number {
  const least = (list: readonly Measured[]) => Math.min(...list.map((each) => each[what]));
  return least(measured.slice(30, 38)) - least(measured.slice(8, 16));
}

describe("a run of 2,000 steps", () => {
  it("holds no array more at its end, and the process does not grow", async () => {
    const before = client.liveBuffers;
    const measured = await train("flat", 2000, () => {});
    expect(growth(measured, "arrays")).toBe(0);
    expect(growth(measured, "bytes")).toBe(0);
    // Of 1,100 steps: 4 kB a step of the plugin would show, and 1 kB of JavaScript (the record of a step is a fourth).
    expect(growth(measured, "native")).toBeLessThan(4.4e6);
    expect(growth(measured, "heap")).toBeLessThan(1.1e6);
    expect(client.liveBuffers).toEqual(before);
  });

  it("shows a scalar that is left behind at each step", async () => {
    const left: DeviceArray[] = [];
    const scalar = hostArray([], "float32", new Float32Array(1));
    const measured = await train("leaking", 200, () => left.push(put(scalar, client)));
    expect(growth(measured, "arrays")).toBe(5 * 22);
    expect(growth(measured, "bytes")).toBe(4 * 5 * 22);
    disposeTree(left);
  });
});

describe("compiling and disposing", () => {
  it("leaves no program behind, and the process does not grow", async () => {
    vi.stubEnv("HALFBYTE_COMPILE_CACHE", "off");
    const before = client.executables.size;
    const measured: Measured[] = [];
    for (let i = 1; i <= 3 * times; i++) {
      const f = jit((x: Tensor) => x.mul(2).exp().sum(), { name: "again" });
      await f.compile(spec([8], "float32"));
      expect(client.executables.size).toBe(before + 1);
      f.dispose();
      await client.synchronize();
      if (i % 3 === 0) measured.push(measure());
    }
    expect(client.executables.size).toBe(before);
    expect(growth(measured, "arrays")).toBe(0);
    // Of 66 compilations: a program that stayed would take 100 kB.
    expect(growth(measured, "native")).toBeLessThan(5e6);
    expect(growth(measured, "heap")).toBeLessThan(2e6);
  });
});
