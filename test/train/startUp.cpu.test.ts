import { afterEach, describe, expect, it, vi } from "vitest";
import { loadCheckpoint } from "../../src/checkpoint/index.ts";
import { treeLeaves } from "../../src/core/index.ts";
import { disposeTree, fetchTree } from "../../src/jit/index.ts";
import { defaultClient } from "../../src/pjrt/index.ts";
import { putStartingState } from "../../src/train/putState.ts";
import { runTraining } from "../../src/train/run.ts";
import { initialState } from "../../src/train/state.ts";
import { stateSpecs } from "../../src/train/stepProgram.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { tinyModel, tinyPlan, tinyRun } from "./tinyRun.ts";

afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
});

describe("the start of a run", () => {
  it("puts the same state on the device as is made on the host, for a seed and for given weights", async () => {
    // Larger than what is drawn at once, and odd.
    const model = { ...tinyModel, vocabSize: 2051, embDim: 33, tieEmbeddings: false };
    const host = initialState(model, 3);
    for (const weights of [{ seed: 3 }, host.params]) {
      const state = await putStartingState(model, weights, { extras: {}, client: defaultClient() });
      expect(await fetchTree(state)).toEqual(host);
      disposeTree(state);
    }
  });

  it("compiles the step once, begun anew and resumed, while the state is made", async () => {
    vi.stubEnv("HALFBYTE_COMPILE_CACHE", "off");
    const client = defaultClient();
    const before = client.liveBuffers.arrays;
    const arraysThere: number[] = [];
    const compile = client.compile.bind(client);
    vi.spyOn(client, "compile").mockImplementation((mlir, options) => {
      if (mlir.includes("@train_step")) arraysThere.push(client.liveBuffers.arrays - before);
      return compile(mlir, options);
    });
    const folder = temporaryFolder();
    const lossScale = { initial: 4, growthInterval: 2, growthFactor: 2, backoffFactor: 0.5, minimum: 1 };
    const plan = tinyPlan({ steps: 2, model: { ...tinyModel, vocabSize: 20000 }, lossScale });
    const { saved } = await runTraining(tinyRun(folder, plan));
    const resume = await loadCheckpoint(saved!.path, plan.model);
    await runTraining({ ...tinyRun(folder, { ...plan, steps: 3 }), resume });
    expect(arraysThere).toHaveLength(2);
    // The first compilation of a process waits for what is probed, and this state is small.
    expect(arraysThere[1]).toBeLessThan(treeLeaves(stateSpecs(plan)).length);
  });
});
