/** A run's checkpoints, read by the run that goes on and by one that begins with them. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import {
  loadCheckpoint,
  loadFullState,
  newestCheckpoint,
  type Progress,
  saveCheckpoint,
} from "../../src/checkpoint/index.ts";
import { loadParameters, openSource } from "../../src/convert/index.ts";
import { initialState } from "../../src/train/state.ts";
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
  await attempt(() => newestCheckpoint(join(folder, "checkpoints"), () => {}));
  await attempt(() => loadCheckpoint(join(folder, "checkpoints", "step-00000010"), tinyModel));
  await attempt(() => loadParameters(folder, tinyModel));
  await attempt(() => loadFullState(folder, tinyModel));
  await attempt(async () => (await openSource(folder)).close());
  const untyped = errors.find((error) => (error as { code?: unknown }).code === undefined);
  if (errors.length > 0) throw untyped ?? errors[0];
}

const asItIs: FuzzFormat = {
  name: "checkpoint",
  mutated: /(manifest|state|config)\.json$|safetensors$/,
  mutate: mutateHeader,
  seeds,
  read,
};

export const checkpointFormats: readonly FuzzFormat[] = [asItIs];
