import { describe, expect, it } from "vitest";
import { checkpointPath, loadCheckpoint } from "../../src/checkpoint/index.ts";
import { makeSchedule } from "../../src/optim/index.ts";
import { runTraining } from "../../src/train/run.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { tinyModel, tinyPlan, tinyRun } from "./tinyRun.ts";

/** Weights of all norms after 100 steps at a learning rate that bfloat16 would round away: 1 ± 1e-4 is 1 there. */
async function normsAfter100(dtype: "bfloat16" | "float32"): Promise<number[]> {
  const plan = tinyPlan({
    model: { ...tinyModel, dtype },
    steps: 100,
    schedule: makeSchedule({ kind: "constant", learningRate: 1e-4, steps: 100 }),
    checkpoints: { period: 100 },
  });
  const input = tinyRun(temporaryFolder(), plan);
  await runTraining(input);
  const { params } = await loadCheckpoint(checkpointPath(input.folder.checkpoints, 100), plan.model);
  const norms = [...params.layers.flatMap(({ attnNorm, mlpNorm }) => [attnNorm, mlpNorm]), params.norm];
  return norms.flatMap(({ data }) => [...(data as Float32Array)]);
}

describe("training in bfloat16", () => {
  it("C7: moves norm weights by small steps as float32 does: the masters are float32", async () => {
    const [brain, full] = [await normsAfter100("bfloat16"), await normsAfter100("float32")];
    expect(brain.every((weight) => weight !== 1)).toBe(true);
    const moved = (weights: number[]) => Math.sqrt(weights.reduce((sum, x) => sum + (x - 1) ** 2, 0));
    expect(moved(brain) / moved(full)).toBeCloseTo(1, 1);
    const same = brain.filter((weight, i) => Math.sign(weight - 1) === Math.sign(full[i]! - 1)).length;
    expect(same / brain.length).toBeGreaterThan(0.9);
  });
});
