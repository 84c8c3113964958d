/** How fast checkpoints are written, against files of the same sizes that are only written and synced. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { saveCheckpoint } from "../src/checkpoint/index.ts";
import { initialState } from "../src/train/state.ts";
import { configOf, type Workload } from "./workload.ts";

/** Bytes a second, the best of the rounds. */
export interface DiskRates {
  readonly bytes: number;
  readonly disk: number;
  readonly checkpoint: number;
}

const blockBytes = 4 << 20;

/** The two alternate in a folder of the system's for temporary files. */
export async function measureDisk(w: Workload, rounds: number): Promise<DiskRates> {
  const folder = mkdtempSync(join(tmpdir(), "halfbyte-disk-"));
  const state = initialState(configOf(w), 0);
  const progress = { step: 1, ...{ skippedInARow: 0, skippedSteps: 0, overflowSteps: 0 }, data: {} };
  const block = Uint8Array.from({ length: blockBytes }, (_, i) => Math.imul(i, 2654435761) >>> 13);
  let [disk, checkpoint, bytes] = [0, 0, 0];
  try {
    for (let round = 0; round < rounds; round++) {
      const begin = performance.now();
      const { path } = await saveCheckpoint(join(folder, "checkpoints"), state, {
        ...progress,
        provenance: { recipe: "bf16" },
      });
      const seconds = (performance.now() - begin) / 1000;
      const sizes = readdirSync(path).map((name) => statSync(join(path, name)).size);
      bytes = sizes.reduce((sum, size) => sum + size, 0);
      rmSync(path, { recursive: true });
      checkpoint = Math.max(checkpoint, bytes / seconds);
      disk = Math.max(disk, bytes / (await writeOnly(join(folder, "plain"), sizes, block)));
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return { bytes, disk, checkpoint };
}

/** Seconds that it takes. */
async function writeOnly(folder: string, sizes: readonly number[], block: Uint8Array): Promise<number> {
  mkdirSync(folder);
  const begin = performance.now();
  for (const [i, size] of sizes.entries()) {
    const file = await open(join(folder, String(i)), "w");
    for (let at = 0; at < size; at += blockBytes) await file.write(block, 0, Math.min(blockBytes, size - at), at);
    await file.sync();
    await file.close();
  }
  const seconds = (performance.now() - begin) / 1000;
  rmSync(folder, { recursive: true });
  return seconds;
}
