/** What a run leaves behind, for tests to compare. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { checkpointPath } from "../../src/checkpoint/index.ts";
import { type RunEvent, readEvents } from "../../src/metrics/index.ts";

export const ofType = <E extends RunEvent, T extends RunEvent["type"]>(events: readonly E[], type: T) =>
  events.filter((event): event is Extract<E, { type: T }> => event.type === type);

export const eventsOf = (run: string) => readEvents(join(run, "events.jsonl")).events;

/** Hashes of the files that hold parameters, moments and loss scale after a step. */
export function stateHashes(run: string, step: number): string[] {
  const path = checkpointPath(join(run, "checkpoints"), step);
  return ["params.safetensors", "optimizer.safetensors"].map((file) => {
    const bytes = readFileSync(join(path, file));
    const end = 8 + Number(bytes.readBigUInt64LE(0));
    // Beside the tensors the file says what computed them, which may be another plan with the same bits.
    const { __metadata__: _, ...tensors } = JSON.parse(bytes.toString("utf8", 8, end));
    const hash = createHash("sha256").update(JSON.stringify(tensors));
    return hash.update(bytes.subarray(end)).digest("hex");
  });
}
