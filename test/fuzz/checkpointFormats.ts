/** A run's checkpoints, read by the run that goes on and by one that begins with them. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import {
  type LoadedCheckpoint,
  loadCheckpoint,
  loadFullState,
  newestCheckpoint,
  type Progress,
  saveCheckpoint,
} from "../../src/checkpoint/index.ts";
import { loadParameters, openSource } from "../../src/convert/index.ts";
import { type HostArray, treeLeaves } from "../../src/core/index.ts";
import { initialState } from "../../src/train/state.ts";
import { splitCheckpoint } from "../checkpoint/pieces.ts";
import { tinyModel } from "../train/tinyRun.ts";
import type { Files, FuzzFormat } from "./format.ts";
import { mutateHeader } from "./modelFormats.ts";
import { filesBelow } from "./mutant.ts";

const progress: Progress = {
  ...{ step: 10, skippedInARow: 1, skippedSteps: 2, overflowSteps: 0 },
  data: { tokens: "abc", sequences: 4 },
  stepsByPrecision: { bf16: 10 },
  provenance: { recipe: "bf16", overrides: ["a=b"], phases: [{ firstStep: 1, precision: "bf16" }], seeds: { data: 1 } },
};

const settings = {
  vocab_size: 64,
  emb_dim: 32,
  mlp_dim: 48,
  num_decoder_layers: 2,
  num_query_heads: 2,
  logits_via_embedding: true,
};

async function seeds(folder: string): Promise<Files[]> {
  mkdirSync(folder, { recursive: true });
  const state = initialState(tinyModel, 5);
  await saveCheckpoint(join(folder, "checkpoints"), state, progress);
  return [
    {
      ...filesBelow(folder),
      "config.json": Buffer.from(JSON.stringify({ ...settings, num_kv_heads: 1, head_dim: 16 })),
    },
  ];
}

/** All that reads a run's checkpoints; the errors of some don't keep others from it. */
async function read(folder: string): Promise<void> {
  const errors: unknown[] = [];
  const attempt = (work: () => Promise<unknown>) => work().catch((error: unknown) => errors.push(error));
  const checkpoints = join(folder, "checkpoints");
  const path = join(checkpoints, "step-00000010");
  await attempt(async () => {
    const whole = await newestCheckpoint(checkpoints, () => {});
    if (whole !== undefined) expectSeed(await loadCheckpoint(whole.path, tinyModel));
  });
  await attempt(() => loadCheckpoint(path, tinyModel));
  await attempt(() => loadParameters(folder, tinyModel));
  await attempt(() => loadFullState(folder, tinyModel));
  await attempt(async () => (await openSource(folder)).close());
  const untyped = errors.find((error) => (error as { code?: unknown }).code === undefined);
  if (errors.length > 0) throw untyped ?? errors[0];
}

/** What is whole by its manifest is what was saved. @throws Error where it is not */
function expectSeed({ params, optimizer, progress: { step } }: LoadedCheckpoint): void {
  const wanted = initialState(tinyModel, 5);
  const bytes = (tree: unknown) => treeLeaves<HostArray>(tree).map(({ data }) => Buffer.from(data.buffer));
  const found = bytes([params, optimizer]);
  const same = bytes([wanted.params, wanted.optimizer]).every((array, i) => array.equals(found[i]!));
  if (!same || step !== progress.step) throw new Error("another state than was saved is taken for it");
}

const asItIs: FuzzFormat = {
  name: "checkpoint",
  mutated: /(manifest|state|config)\.json$|safetensors$/,
  mutate: mutateHeader,
  seeds,
  read,
};

/** The same as two processes and as four write it. */
const ofProcesses: FuzzFormat = {
  ...asItIs,
  name: "checkpoint-of-processes",
  share: 0.7,
  async seeds(folder) {
    const [whole] = await seeds(folder);
    const from = join(folder, "checkpoints", "step-00000010");
    const split = [2, 4].map(async (count) => {
      const run = join(folder, String(count));
      await splitCheckpoint(from, join(run, "checkpoints", "step-00000010"), count);
      return { ...filesBelow(run), "config.json": whole!["config.json"]! };
    });
    return Promise.all(split);
  },
};

export const checkpointFormats: readonly FuzzFormat[] = [asItIs, ofProcesses];
