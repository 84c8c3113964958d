/** The host memory that this process may use. */
import { readFileSync } from "node:fs";
import { totalmem } from "node:os";
import { parseBytes } from "./byteSize.ts";
import { UserError } from "./errors.ts";

export interface MachineMemory {
  /** Bytes this process may use: the machine's, a container's limit or HALFBYTE_MEMORY_LIMIT. */
  readonly total: number;
  /** Bytes of these that are free without swapping. */
  readonly available: number;
}

/** @throws UserError where HALFBYTE_MEMORY_LIMIT is no size */
export function machineMemory(): MachineMemory {
  // 0, and numbers beyond the machine's memory, stand for "no limit".
  const container = process.constrainedMemory() || Number.POSITIVE_INFINITY;
  const limit = Math.min(container, chosenLimit());
  const total = Math.min(limit, totalmem());
  return { total, available: Math.max(0, Math.min(systemAvailable(), limit - process.memoryUsage.rss(), total)) };
}

/** `HALFBYTE_MEMORY_LIMIT`: a size such as 8GB that a run may plan to take. */
function chosenLimit(): number {
  const text = process.env.HALFBYTE_MEMORY_LIMIT;
  if (!text) return Number.POSITIVE_INFINITY;
  const bytes = parseBytes(text);
  if (bytes !== undefined) return bytes;
  throw new UserError("E_MEMORY_LIMIT", `HALFBYTE_MEMORY_LIMIT must be a size such as 8GB; got "${text}"`);
}

function systemAvailable(): number {
  try {
    const kilobytes = readFileSync("/proc/meminfo", "utf8").match(/^MemAvailable:\s*(\d+) kB/m)?.[1];
    return kilobytes === undefined ? Number.POSITIVE_INFINITY : Number(kilobytes) * 1024;
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}
