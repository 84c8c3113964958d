/** The matrix peak that MFU is measured against: measured once per machine and plugin, then remembered in the cache. */
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus, loadavg } from "node:os";
import { dirname, join } from "node:path";
import { z } from "zod";
import { type Client, cacheFolder, type MatrixPeak, measureMatrixPeak, pluginIdentity } from "../pjrt/index.ts";

const recordSchema = z.object({
  flopsPerSecond: z.number().positive(),
  form: z.enum(["onednn", "dot"]),
  /** Threads that wanted to run in the minute before, on the whole machine. */
  load: z.number(),
});

/** A peak measured while other work ran is too low: it is measured again when the machine is quieter, and the higher one counts. */
export async function machinePeak(client: Client): Promise<MatrixPeak> {
  const cores = availableParallelism();
  const key = [pluginIdentity(client.plugin), cpus()[0]?.model ?? "", cores, client.devices.length].join("\n");
  const path = join(cacheFolder(), "peaks", `${createHash("sha256").update(key).digest("hex").slice(0, 16)}.json`);
  const known = readRecord(path);
  const load = loadavg()[0] ?? 0;
  if (known !== undefined && (known.load <= cores / 2 || load >= known.load)) return known;
  const measured = await measureMatrixPeak(client);
  const best = known !== undefined && known.flopsPerSecond > measured.flopsPerSecond ? known : measured;
  remember(path, { flopsPerSecond: best.flopsPerSecond, form: best.form, load });
  return best;
}

function readRecord(path: string): z.infer<typeof recordSchema> | undefined {
  try {
    return recordSchema.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch {
    return undefined;
  }
}

function remember(path: string, record: z.infer<typeof recordSchema>): void {
  try {
    mkdirSync(dirname(path), { recursive: true });
    const unfinished = `${path}.${process.pid}.tmp`;
    writeFileSync(unfinished, `${JSON.stringify(record)}\n`);
    renameSync(unfinished, path);
  } catch {
    // Without a cache it is measured each time.
  }
}
